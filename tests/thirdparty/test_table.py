"""The table itself: complete, pinned, and usable by the metrics that name it."""

import re

from libranet.evaluation.metric_table import METRICS
from libranet.thirdparty.table import HubRepository, PyPIArchive, all_models, find_model


def test_every_row_is_complete() -> None:
    assert len({model.name for model in all_models()}) == len(all_models())
    for model in all_models():
        assert model.purpose, model.name
        assert model.licence, model.name
        for file in model.files:
            assert re.fullmatch(r"[0-9a-f]{64}", file.sha256), file
            assert file.size > 0, file
        if isinstance(model.source, PyPIArchive):
            assert re.fullmatch(r"[0-9a-f]{64}", model.source.sha256), model.source
        assert isinstance(model.source, HubRepository) == (not model.files), "what is pinned can be pulled"


def test_metrics_name_rows_that_exist() -> None:
    for metric in METRICS:
        if metric.weights is not None:
            assert find_model(metric.weights).name == metric.weights

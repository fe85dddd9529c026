"""The table itself: complete, pinned, and usable by the metrics that name it."""

import re

from libranet.evaluation.metric_table import METRICS
from libranet.thirdparty.table import TABLE, PyPIArchive, find_model


def test_every_row_is_complete() -> None:
    assert len({model.name for model in TABLE}) == len(TABLE)
    for model in TABLE:
        assert model.purpose, model.name
        assert model.licence, model.name
        assert model.sources, model.name
        for file in model.files:
            assert re.fullmatch(r"[0-9a-f]{64}", file.sha256), file
            assert file.size > 0, file
        for source in model.sources:
            if isinstance(source, PyPIArchive):
                assert re.fullmatch(r"[0-9a-f]{64}", source.sha256), source
                assert len(source.members) == len(model.files), model.name
                assert [m.rpartition("/")[2] for m in source.members] == [f.name for f in model.files], model.name


def test_metrics_name_rows_that_exist() -> None:
    for metric in METRICS:
        if metric.weights is not None:
            assert find_model(metric.weights).name == metric.weights

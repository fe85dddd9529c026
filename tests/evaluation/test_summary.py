"""Means and intervals, and the files that hold them."""

import math
from pathlib import Path

import pytest

from libranet.evaluation.results import ClipResult
from libranet.evaluation.summary import (
    Estimate,
    ReportContent,
    RunInfo,
    estimate,
    summarise_clip,
    summarise_models,
    write_summaries,
)


def test_frames_to_clip() -> None:
    frames = [{"psnr": 20.0, "conf": math.nan}, {"psnr": 22.0, "tof": 0.1, "conf": 0.5}, {"psnr": 18.0, "tof": 0.3}]
    clip = summarise_clip(ClipResult("net", "a", "", frames, 1.0))
    assert clip.values["psnr"] == pytest.approx(20.0)
    assert clip.values["tof"] == pytest.approx(0.2)
    assert clip.values["conf"] == 0.5
    assert clip.values["sigma_psnr"] == pytest.approx(math.sqrt(8 / 3))
    assert clip.worst_frame == 2
    assert "ssim" not in clip.values


def test_a_photo_has_no_spread_over_time() -> None:
    assert set(summarise_clip(ClipResult("net", "photo", "", [{"psnr": 20.0}], 0.1)).values) == {"psnr"}


def test_two_clips_have_no_interval() -> None:
    assert estimate([20.0, 34.84]) == Estimate(27.42, None, 2)


@pytest.mark.parametrize("n", [3, 10, 31, 32, 200])
def test_the_interval_is_students(n: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    values = [math.sin(3 * i) * 5 + 20 for i in range(n)]
    found = estimate(values)
    low, high = stats.t.interval(0.95, n - 1, loc=sum(values) / n, scale=stats.sem(values))
    assert found.half_width == pytest.approx((high - low) / 2, rel=2e-3)
    assert found.mean == pytest.approx((high + low) / 2)
    assert found.clips == n


def test_one_clip_has_no_interval() -> None:
    assert estimate([3.0]).half_width is None


def test_each_clip_counts_the_same_and_regimes_are_apart() -> None:
    long = ClipResult("net", "a", "thin", [{"psnr": 10.0}] * 90, 1.0)
    short = ClipResult("net", "b", "dense", [{"psnr": 20.0}] * 10, 1.0)
    clips = [summarise_clip(long), summarise_clip(short)]
    assert summarise_models(clips)["net"]["psnr"].mean == pytest.approx(15.0)
    assert summarise_models(clips, regime="dense")["net"]["psnr"].mean == pytest.approx(20.0)


def test_all_frames_in_one_table(tmp_path: Path) -> None:
    frames = [{"psnr": 20.123456789, "conf": math.nan}, {"psnr": 21.0, "tof": 0.5}]
    result = ClipResult("net", "clip/1", "thin", frames, 1.25)
    info = RunInfo(dataset="set", paired=True, created="today", version="1", weights={}, machine="CPU")
    content = ReportContent(info, "net", (), not_measured={}, estimators={}, seconds={}, results=[result])
    write_summaries(content, tmp_path)
    lines = (tmp_path / "frames.csv").read_text().splitlines()
    assert lines[0] == "model,clip,regime,frame,conf,psnr,tof"
    assert lines[1] == "net,clip/1,thin,0,,20.123457,"
    assert lines[2] == "net,clip/1,thin,1,,21,0.5"

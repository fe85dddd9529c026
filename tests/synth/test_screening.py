"""Each of the five checks sees the fault it is for, and only that."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from libranet.data import Clip
from libranet.data.frames import write_png
from libranet.data.maps import write_map
from libranet.synth.screening import screen_clip
from small_sets import RampSource, make_set


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    make_set([RampSource("a")], folder)
    return folder / "clips" / "0000-a"


@pytest.fixture
def clip(good: Path, tmp_path: Path) -> Clip:
    return Clip(shutil.copytree(good, tmp_path / "clip"))


def failed(clip: Clip) -> set[str]:
    return {check.name for check in screen_clip(clip)[0] if not check.passed}


def test_a_good_clip_passes_with_room(clip: Clip) -> None:
    checks, psnr = screen_clip(clip)
    assert all(check.passed for check in checks)
    values = {check.name: check.value for check in checks}
    assert values["alignment"] <= 0.51 / 255
    assert values["airlight round trip"] < 0.5 / 255
    assert values["pixel ranges"] == 0.0
    assert 5.0 < psnr < 40.0


def test_a_shifted_modality_fails_the_alignment(clip: Clip) -> None:
    write_png(clip.folder / "hazy/00001.png", np.roll(clip.frame("hazy", 1), 3, axis=1))
    assert "alignment" in failed(clip)


def test_a_wrong_size_fails_the_alignment(clip: Clip) -> None:
    write_map(clip.folder / "depth/00001.exr", "depth", clip.map("depth", 1)[:, :-2])
    assert "alignment" in failed(clip)


def test_breathing_depth_fails_the_stability(clip: Clip) -> None:
    write_map(clip.folder / "depth/00001.exr", "depth", clip.map("depth", 1)[:, ::-1])
    assert "depth stability" in failed(clip)


def test_a_denser_frame_fails_the_consistency(clip: Clip) -> None:
    clear, t = clip.frame("clear", 1) / 255.0, clip.map("transmission", 1).transpose(1, 2, 0) ** 3
    hazy = clear * t + clip.airlight() * (1 - t)
    write_png(clip.folder / "hazy/00001.png", (hazy * 255).round().astype(np.uint8))
    write_map(clip.folder / "transmission/00001.exr", "transmission", t.transpose(2, 0, 1))
    assert {"haze consistency"} <= failed(clip)


def test_another_airlight_fails_the_round_trip(clip: Clip) -> None:
    red, green, blue = clip.info.airlight
    assert "airlight round trip" in failed(Clip(clip.folder, replace(clip.info, airlight=(red, green - 0.03, blue))))


def test_values_out_of_range_fail(clip: Clip) -> None:
    depth = clip.map("depth", 0)
    depth[0, 5, 5] = np.nan
    write_map(clip.folder / "depth/00000.exr", "depth", depth)
    assert "pixel ranges" in failed(clip)

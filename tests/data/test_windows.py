"""Windows of frames as a torch Dataset: shapes, crops that agree over the modalities, repeatable samples."""

from pathlib import Path

import pytest
import torch

from libranet.data import ClipWindows, WindowConfig, open_clips, uhv4k_pairs
from libranet.errors import InputError
from libranet.haze.scattering import add_haze
from small_sets import RampSource, SlidingSource, make_set


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets") / "set"
    make_set([RampSource("a"), SlidingSource("b"), RampSource("c", seed=3)], folder)
    return folder


def test_windows_of_a_set_are_cropped_and_repeatable(made: Path) -> None:
    pairs = uhv4k_pairs(made, "all")
    config = WindowConfig(window=5, crop=48, maps=("depth", "transmission"))
    windows = ClipWindows(pairs, config)
    assert len(windows) == 9
    sample, again = windows[4], ClipWindows(pairs, config)[4]
    assert sample["hazy"].shape == (5, 3, 48, 48)
    assert sample["clear"].shape == (3, 48, 48)
    assert sample["depth"].shape == (1, 48, 48)
    assert all(torch.equal(sample[name], again[name]) for name in sample)
    light = torch.tensor(open_clips(made)[1].info.airlight)
    rebuilt = add_haze(sample["clear"][None], sample["transmission"][None], light)[0]
    assert (rebuilt - sample["hazy"][2]).abs().max() <= 0.51 / 255
    windows.set_epoch(1)
    assert not torch.equal(windows[4]["clear"], sample["clear"])


def test_the_clips_ends_repeat_their_frame(made: Path) -> None:
    windows = ClipWindows(uhv4k_pairs(made, "all"), WindowConfig(crop=None, random=False))
    first = windows[0]
    assert torch.equal(first["hazy"][0], first["hazy"][2])
    assert torch.equal(first["hazy"][4], windows[2]["hazy"][2])
    assert first["clear"].shape == (3, 96, 160)


def test_window_mistakes_are_named(made: Path) -> None:
    pairs = uhv4k_pairs(made, "all")
    with pytest.raises(InputError, match="odd window length, got T=4"):
        WindowConfig(window=4)
    with pytest.raises(InputError, match="mirrored flow"):
        WindowConfig(maps=("flow",))
    with pytest.raises(InputError, match=r"maps \['normals'\]"):
        ClipWindows(pairs, WindowConfig(maps=("normals",)))


def test_frames_smaller_than_the_crop_are_continued_by_reflection(made: Path) -> None:
    pairs = uhv4k_pairs(made, "all")
    sample = ClipWindows(pairs, WindowConfig(crop=128, random=False, maps=("depth",)))[0]
    assert sample["hazy"].shape == (5, 3, 128, 128)
    assert sample["depth"].shape[-2:] == (128, 128)
    assert torch.equal(sample["clear"][:, 96:], sample["clear"][:, 63:95].flip(1))

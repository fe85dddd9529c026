"""The pipeline end to end on tiny clips: contract, determinism, resume, refusal, checks."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from libranet.data import Clip, DatasetInfo, open_clips
from libranet.data.dataset import find_damage, sha256
from libranet.errors import InputError
from libranet.haze.scattering import add_haze, assign_regimes, transmission
from libranet.synth.synthesize import split_clips
from small_sets import TINY, RampSource, SlidingSource, make_set, tree


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets") / "set"
    make_set([RampSource("a"), SlidingSource("b"), RampSource("c", seed=3)], folder, workers=2)
    return folder


def test_every_clip_has_five_modalities_and_passes(made: Path) -> None:
    info = DatasetInfo.load(made)
    assert info.complete
    assert not info.flagged
    assert not info.failures
    assert (len(info.split["train"]), len(info.split["test"])) == (2, 1)
    assert len(info.regimes) == 9
    for clip in open_clips(made):
        assert (clip.info.width, clip.info.height, clip.info.frames) == (160, 96, 3)
        assert len(clip.info.files) == 15
        assert len(clip.info.checks) == 5
        assert clip.info.accepted
        assert find_damage(made, clip.info.name) == []
        assert clip.map("flow", 0).shape == (2, 96, 160)
        assert clip.map("depth", 0).shape == clip.map("transmission", 0).shape == (1, 96, 160)


def test_hazy_follows_from_the_other_modalities(made: Path) -> None:
    for clip in open_clips(made):
        for index in range(3):
            clear, hazy = (
                torch.from_numpy(clip.frame(name, index)).permute(2, 0, 1)[None] / 255 for name in ("clear", "hazy")
            )
            depth, t = (torch.from_numpy(clip.map(name, index))[None] for name in ("depth", "transmission"))
            assert (transmission(depth, clip.info.beta[0]) - t).abs().max() < 1e-3
            assert (add_haze(clear, t, torch.tensor(clip.info.airlight)) - hazy).abs().max() <= 0.5001 / 255


def test_exact_distances_keep_their_proportion_and_the_sky_is_farthest(made: Path) -> None:
    clip = Clip(made / "clips" / "0000-a")
    depth = clip.map("depth", 0)[0]
    assert depth[:32].min() == 1.0
    metres = np.linspace(120.0, 2.0, 96)[:, None]
    below = (metres < clip.info.depth["high"]) & (np.arange(96)[:, None] >= 32)
    expected = np.broadcast_to(metres / clip.info.depth["high"], depth.shape)
    np.testing.assert_allclose(depth[below[:, 0]], expected[below[:, 0]], atol=1e-3)
    assert clip.info.depth["estimator"] == clip.info.flow["estimator"] == "exact"
    assert clip.info.flow_frames == 3
    assert Clip(made / "clips" / "0001-b").info.flow_frames == 2


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not(made: Path, tmp_path: Path) -> None:
    sources = [RampSource("a"), SlidingSource("b"), RampSource("c", seed=3)]
    make_set(sources, tmp_path / "again")
    assert tree(tmp_path / "again") == tree(made)
    make_set(sources, tmp_path / "other", replace(TINY, seed=1))
    assert tree(tmp_path / "other")["clips/0001-b/hazy/00000.png"] != tree(made)["clips/0001-b/hazy/00000.png"]


def test_a_second_run_changes_nothing_and_other_options_are_refused(made: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (made / "clips").rglob("*.png")}
    make_set([RampSource("a"), SlidingSource("b"), RampSource("c", seed=3)], made)
    assert before == {path: path.stat().st_mtime_ns for path in (made / "clips").rglob("*.png")}
    with pytest.raises(InputError, match=r"options that .* was made with, got other values for seed"):
        make_set([RampSource("a"), SlidingSource("b"), RampSource("c", seed=3)], made, replace(TINY, seed=5))
    with pytest.raises(InputError, match="other values for sources"):
        make_set([RampSource("a")], made)


def test_two_runs_in_one_folder_are_kept_apart(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl", reason="no file locks on this system")
    (tmp_path / ".work").mkdir()
    with (tmp_path / ".work" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another run is working in"):
            make_set([RampSource("a")], tmp_path)
    make_set([RampSource("a")], tmp_path)


def test_colour_dependent_scattering_and_noise_pass_the_checks_too(tmp_path: Path) -> None:
    info = make_set([RampSource("a")], tmp_path, replace(TINY, angstrom=1.3, noise=0.02, frames=2))
    assert not info.flagged
    clip = Clip(tmp_path / "clips" / "0000-a")
    assert clip.info.beta[2] > clip.info.beta[1] > clip.info.beta[0]
    assert clip.map("transmission", 0).shape == (3, 96, 160)
    blue, red = clip.map("transmission", 0)[2], clip.map("transmission", 0)[0]
    assert (blue <= red).all()


def test_a_clip_that_fails_a_check_is_flagged_and_left_out(tmp_path: Path) -> None:
    class Jumping(RampSource):
        """The scene comes ten times nearer in the last frame, so the haze jumps."""

        def frames(self, request, start=0):  # type: ignore[no-untyped-def]
            for i, frame in enumerate(super().frames(request, start), start=start):
                yield replace(frame, depth=frame.depth / 10) if i == 2 else frame

    info = make_set([RampSource("steady"), Jumping("jumping")], tmp_path)
    assert info.flagged == {"0001-jumping": ("depth stability", "haze consistency")}
    assert [name for names in info.split.values() for name in names] == ["0000-steady"]
    assert [clip.info.name for clip in open_clips(tmp_path)] == ["0000-steady"]
    assert len(open_clips(tmp_path, flagged=True)) == 2


def test_checksums_are_those_of_the_files(made: Path) -> None:
    clip = Clip(made / "clips" / "0002-c")
    for file, checksum in clip.info.files.items():
        assert sha256(clip.folder / file) == checksum
    assert json.loads((made / "dataset.json").read_text())["generator"]["preset"] == "mini"


def test_the_split_is_stratified_by_regime() -> None:
    regimes = {f"{index:03d}": regime.name for index, regime in enumerate(assign_regimes(90, seed=3))}
    split = split_clips(regimes, seed=3)
    assert (len(split["train"]), len(split["test"])) == (72, 18)
    assert set(Counter(regimes[name] for name in split["test"]).values()) == {2}
    assert split == split_clips(regimes, seed=3)
    assert split["test"] != split_clips(regimes, seed=4)["test"]
    uneven = split_clips({"a": "thin", "b": "dense"}, seed=0)
    assert (len(uneven["train"]), len(uneven["test"])) == (1, 1)

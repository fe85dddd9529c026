"""Held-back clips: rendered scenes, and the test part of the open set from carried photos."""

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from libranet.haze.scattering import REGIMES
from libranet.lab.held_back import carried_name, plan_open_set, plan_scenes, write_held_back_clips
from libranet.synth.manifest import OPEN_MANIFEST, read_manifest

SIZE = (128, 72)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noise with a depth that falls from far above to near below."""
    folder, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    ramp = np.linspace(255, 0, 90)[:, None].repeat(160, axis=1).astype(np.uint8)
    for row in read_manifest(OPEN_MANIFEST):
        if row.part == "test" and row.depth:
            noise = cv2.GaussianBlur(rng.integers(0, 255, (90, 160, 3)).astype(np.uint8), (0, 0), 2)
            for name, image in ((carried_name(row.file), noise), (row.depth, ramp)):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                cv2.imwrite(str(folder / name), image)
    return folder


def test_the_open_test_set_keeps_the_manifests_seeds_and_regimes(photos):
    rows = read_manifest(OPEN_MANIFEST)
    clips = plan_open_set(photos, size=SIZE)
    assert len(clips) == 20
    for clip in clips:
        row = rows[clip.request.seed]
        assert (row.part, clip.regime.name) == ("test", row.regime)
        assert Path(row.file).stem in clip.name
        assert clip.request.frames == 25, "the whole move, of which the first frames are made"


def test_hazy_frames_follow_the_scattering_model(photos, tmp_path):
    (clip,) = (clip for clip in plan_open_set(photos, size=SIZE) if clip.request.seed == 80)
    for regime in (REGIMES[0], REGIMES[-1]):
        folder = tmp_path / regime.name
        assert write_held_back_clips(folder, [replace(clip, regime=regime)], frames=2)
        hazy, clear = (
            cv2.imread(str(folder / side / clip.name / "001.png"))[..., ::-1] / 255.0 for side in ("hazy", "clear")
        )
        frames = clip.source.frames(clip.request)
        next(frames)
        depth = next(frames).depth
        assert depth is not None
        t = np.exp(-regime.beta * depth)[..., None]
        expected = clear * t + np.asarray(regime.airlight) * (1 - t)
        assert np.abs(hazy - expected).max() < 1.1 / 255


def test_frames_move_and_what_is_there_is_kept(photos, tmp_path):
    clips = plan_open_set(photos, size=SIZE)[:2]
    assert not write_held_back_clips(tmp_path, clips, frames=2, may_begin=lambda name: name == clips[0].name)
    first, second = (tmp_path / "clear" / clips[0].name / f"00{number}.png" for number in (0, 1))
    assert first.read_bytes() != second.read_bytes()
    first.write_bytes(b"kept")
    assert write_held_back_clips(tmp_path, clips, frames=2)
    assert first.read_bytes() == b"kept"
    assert len(list((tmp_path / "hazy").iterdir())) == 2


def test_nine_rendered_clips_have_every_regime_once():
    clips = plan_scenes(9, frames=2, size=SIZE)
    assert sorted(clip.regime.name for clip in clips) == sorted(regime.name for regime in REGIMES)
    assert len({clip.source.name for clip in clips}) == 9

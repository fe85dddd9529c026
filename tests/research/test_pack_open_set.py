"""The open set as it travels to a machine without a network."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from libranet.lab.scenes import SKY_DEPTH, render_clip
from libranet.synth.manifest import ManifestRow
from libranet.synth.photo_motion import CameraMove
from libranet.training.image_bank import find_photos, read_photos

TOOL = "pack_open_set"
ROW = ManifestRow("uhd/photos/a.jpg", regime="thin-grey", part="train", depth="depth/maps/a.png")


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    sources, out = tmp_path / "sources", tmp_path / "out"
    for path, size in ((sources / ROW.file, (5400, 3600)), (sources / ROW.depth, (540, 360))):
        path.parent.mkdir(parents=True)
        cv2.imwrite(str(path), np.random.default_rng(0).integers(0, 255, size[::-1], np.uint8))
    for name in ("train", "depth", "test"):
        (out / name).mkdir(parents=True)
    return sources, out


def test_training_finds_photos_at_its_lines_with_their_depth(folders, tool):
    sources, out = folders
    tool.pack_training_photo(ROW, sources, out)
    (image,) = read_photos([out / "train"], out / "depth")
    assert image.image.shape == (1080, 1620, 3)
    assert image.depth is not None
    assert np.array_equal(image.depth, cv2.imread(str(sources / ROW.depth), cv2.IMREAD_GRAYSCALE))


def test_a_test_photo_is_as_large_as_its_clip_shows_it_and_no_larger(folders, tool):
    sources, out = folders
    tool.pack_test_photo(ROW, sources, out, seed=7)
    packed = cv2.imread(str(out / "test" / "uhd" / "photos" / "a.webp"))
    margin = CameraMove.draw(7).margin
    assert packed.shape[1] == pytest.approx(3840 * margin, abs=1)
    assert packed.shape[0] == pytest.approx(packed.shape[1] * 2 / 3, abs=1)
    assert (out / "test" / ROW.depth).read_bytes() == (sources / ROW.depth).read_bytes()


def test_scenes_have_the_depth_of_the_sets_clips(folders, tool, monkeypatch):
    _, out = folders
    monkeypatch.setattr(tool, "LINES", 36)
    tool.pack_scene(ManifestRow("scene-960010", regime="thin-grey", part="train"), out)
    found = find_photos([out / "train"], out / "depth")
    assert [path.stem for path, _ in found] == ["scene-960010-0", "scene-960010-1"]
    assert all(depth is not None for _, depth in found)
    frames = list(render_clip(960010, frames=2, width=64, height=36, fps=0.4))
    metres = np.stack([frame.depth.numpy() for frame in frames])
    far = np.percentile(metres[metres < 0.999 * SKY_DEPTH], 80)
    for (_, path), raw in zip(found, metres, strict=True):
        expected = np.clip(raw / far, 0, 1)[::2, ::2] * 255
        assert np.abs(cv2.imread(str(path), cv2.IMREAD_GRAYSCALE) - expected).max() <= 2.0

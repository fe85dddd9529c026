"""The figures of external validity: the frames that they show, and how tiles are put together."""

import cv2
import numpy as np
import pytest

from libranet.evaluation.clips import open_dataset
from libranet.lab.held_back import carried_name
from libranet.synth.manifest import OPEN_MANIFEST, read_manifest

TOOL = "external_figures"


def test_a_tile_shows_the_middle_and_a_row_has_white_between(tool):
    image = np.zeros((60, 400, 3), np.uint8)
    image[:, 170:230] = 200  # what a square tile keeps of it
    tile = tool.fit(image, 30, 30)
    assert tile.shape == (30, 30, 3)
    assert (tile == 200).all()
    assert tool.fit(image[:10, :10], 30, 20).shape == (20, 30, 3), "a small image is enlarged"
    row = tool.joined([tile, tile], axis=1)
    assert row.shape == (30, 60 + tool.GAP, 3)
    assert (row[:, 30 : 30 + tool.GAP] == 255).all()
    assert (row[:, 30 + tool.GAP :] == 200).all()


def test_every_method_returns_the_first_frames_in_order(tool, tmp_path):
    folder = tmp_path / "clip"
    folder.mkdir()
    rng = np.random.default_rng(0)
    frames = [rng.integers(150, 230, (48, 64, 3), dtype=np.uint8) for _ in range(5)]
    for number, frame in enumerate(frames):
        cv2.imwrite(str(folder / f"{number:03d}.png"), frame[..., ::-1])
    (clip,) = open_dataset(tmp_path)
    hazy = tool.restore(clip, "hazy", 2)
    assert len(hazy) == 2
    assert all(np.array_equal(found, given) for found, given in zip(hazy, frames, strict=False))
    for method in ("CLAHE", "dark channel", "LiBrA-Net"):
        restored = tool.restore(clip, method, 2)
        assert [image.shape for image in restored] == [(48, 64, 3)] * 2
        assert not np.array_equal(restored[0], frames[0])


def test_heat_maps_of_a_clip_of_the_open_set(tool, tmp_path, monkeypatch, capsys):
    ramp = np.linspace(255, 0, 72)[:, None].repeat(128, axis=1).astype(np.uint8)
    photo = np.random.default_rng(0).integers(0, 255, (72, 128, 3), dtype=np.uint8)
    for row in read_manifest(OPEN_MANIFEST):
        if row.part == "test" and row.depth:
            for name, image in ((carried_name(row.file), photo), (row.depth, ramp)):
                path = tmp_path / name
                path.parent.mkdir(parents=True, exist_ok=True)
                cv2.imwrite(str(path), image)
    monkeypatch.setattr(tool, "HEAT_SIZE", (96, 54))
    monkeypatch.setattr(tool, "METHODS", {"hazy": "identity", "CLAHE": "clahe"})
    sheet = tool.heat(tmp_path)
    side = tool.WIDTH * 9 // 16
    assert sheet.shape == (2 * side + tool.GAP, 3 * tool.WIDTH + 2 * tool.GAP, 3), "hazy, CLAHE and clear"
    changes = dict(line.split(": mean change ") for line in capsys.readouterr().out.splitlines())
    assert changes.keys() == {"hazy", "CLAHE", "clear"}
    assert 0 < float(changes["hazy"]) < float(changes["clear"]), "haze hides change"


@pytest.mark.parametrize("method", ["CLAHE", "dark channel", "LiBrA-Net"])
def test_every_method_of_the_bars_has_a_colour(tool, method):
    assert method in tool.COLOURS
    assert method in tool.METHODS

"""The sheets of real haze: input above, output below, over time."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from clips import Clip, write_clip
from libranet.network import save_checkpoint

TOOL = "real_haze"


@pytest.fixture
def pack(tmp_path) -> Path:
    """One grey photo of 64x48 and one clip of six frames, 64x36."""
    for name in ("hazy_photos", "hazy_clips"):
        (tmp_path / name).mkdir()
    slope = np.linspace(150, 210, 64).astype(np.uint8)  # an even image would be left alone
    cv2.imwrite(str(tmp_path / "hazy_photos" / "fog.jpg"), np.broadcast_to(slope[None, :, None], (48, 64, 3)))
    write_clip(tmp_path / "hazy_clips" / "walk.mp4", Clip(frames=6, width=64, height=36))
    return tmp_path


def test_every_photo_and_clip_is_restored_and_shown(tool, pack, tmp_path, tiny_model, capsys):
    out, earlier = tmp_path / "out", tmp_path / "earlier.safetensors"
    save_checkpoint(tiny_model, earlier)
    tool.main([str(pack), "-o", str(out), "--before", str(earlier), "--lines", "36"])
    sheet = cv2.imread(str(out / "photos.jpg"))
    assert sheet.shape == (375, 1500, 3)  # input, earlier and present weights side by side
    hazy, before, after = (sheet[50:, at + 20 : at + 480].astype(float) for at in (0, 500, 1000))
    assert hazy.mean() == pytest.approx(180, abs=1)
    assert np.abs(before - hazy).mean() > 10  # random weights
    assert 0.5 < np.abs(after - hazy).mean() < 40
    strips = cv2.imread(str(out / "clips.jpg"))
    assert strips.shape == (3 * 169, 1500, 3)  # the same three, five moments each
    columns = strips[60:160].reshape(100, 5, 300, 3).mean((0, 2, 3))
    assert len(set(columns.round(3))) == 5  # five different frames
    assert capsys.readouterr().out.count("| walk | ") == 1


def test_an_upright_clip_keeps_its_shape(tool):
    upright = [np.zeros((128, 72, 3), np.uint8)] * 5
    (row,) = tool.strips("name", {"hazy": upright})
    assert {tile.shape for tile in row} == {(267, 150, 3)}


def test_a_file_that_is_no_video_is_named(tool, tmp_path):
    (tmp_path / "text.mp4").write_text("no video")
    with pytest.raises(SystemExit, match=r"text\.mp4"):
        tool.read_clip(tmp_path / "text.mp4", 36)

"""The tool that renders training images: the trainer reads what it writes, and a second run adds nothing."""

import numpy as np
import pytest

from libranet.training.image_bank import normalise_depth, read_photos

TOOL = "render_images"


def test_two_rooms_are_written_once_and_read_by_the_trainer(tool, tmp_path, capsys) -> None:
    photos, depths = tmp_path / "rooms", tmp_path / "depth"
    call = ["rooms", "-o", str(photos), "--depth", str(depths), "--count", "2", "--seed", "27", "--lines", "36"]
    assert tool.main(call) == 0
    assert "2 rooms rendered" in capsys.readouterr().out
    assert sorted(p.name for p in photos.iterdir()) == ["room-0.webp", "room-1.webp"]
    first, second = read_photos([photos], depths)
    assert first.image.shape == (36, 64, 3)
    assert (first.image.astype(int) - second.image).std() > 10
    for photo in (first, second):
        assert photo.depth is not None
        assert photo.depth.shape == (180, 320)
        assert 200 < photo.depth.max() <= 235  # no wall is sky

    (photos / "room-1.webp").unlink()
    kept = photos / "room-0.webp"
    before = kept.stat().st_mtime_ns
    assert tool.main(call) == 0
    assert "1 rooms rendered" in capsys.readouterr().out
    assert kept.stat().st_mtime_ns == before
    assert np.array_equal(read_photos([photos], depths)[1].image, second.image)


def test_a_scene_keeps_its_name_and_its_sky(tool, tmp_path) -> None:
    photos, depths = tmp_path / "scenes", tmp_path / "depth"
    call = ["scenes", "-o", str(photos), "--depth", str(depths), "--first", "3", "--count", "1", "--lines", "36"]
    assert tool.main(call) == 0
    (photo,) = read_photos([photos], depths)
    assert photo.name == "scene-3-0"
    assert photo.depth is not None
    assert photo.depth.max() == 255


@pytest.mark.parametrize(
    ("option", "value"), [("--count", "0"), ("--seed", "-1"), ("--lines", "8"), ("--quality", "0")]
)
def test_bad_options_end_with_one_sentence(tool, tmp_path, capsys, option, value) -> None:
    call = ["rooms", "-o", str(tmp_path / "a"), "--depth", str(tmp_path / "b"), "--count", "1", option, value]
    assert tool.main(call) == 2
    assert f"{option} must be" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


def test_the_farthest_depth_can_be_kept_below_the_skys() -> None:
    metres = np.linspace(1, 9, 100, dtype=np.float32).reshape(10, 10)
    full, capped = normalise_depth(metres), normalise_depth(metres, farthest=235)
    assert (full.max(), capped.max()) == (255, 235)
    assert np.abs(capped / 235 - full / 255).max() < 0.005

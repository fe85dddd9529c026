"""Depth maps from written-down geometry: every shipped line is read; a drawn scene gets the depth it was drawn with."""

from pathlib import Path

import cv2
import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
TOOL = "photo_depth"
GEOMETRY = ROOT / "research" / "photo-geometry.txt"
BOX = "val_4k/box good horizon=50 skyline=0,50;100,50 object=row80:40,55;60,55;60,80;40,80"


@pytest.fixture
def drawn() -> np.ndarray:
    """Blue sky over green ground with the horizon in the middle, and a red box that stands at 80 % of the height."""
    image = np.empty((480, 640, 3), np.uint8)
    image[:240], image[240:] = (235, 190, 140), (40, 110, 60)
    image[264:384, 256:384] = (30, 30, 170)
    noise = np.random.default_rng(0).integers(-6, 7, image.shape)
    return np.clip(image + noise, 0, 255).astype(np.uint8)


def geometry_file(folder: Path, *lines: str) -> Path:
    path = folder / "geometry.txt"
    path.write_text("# a comment\n\n" + "\n".join(lines) + "\n")
    return path


def test_every_shipped_line_is_read(tool):
    lines = [line for line in GEOMETRY.read_text().splitlines() if line and not line.startswith("#")]
    scenes = tool.read_geometry(GEOMETRY)
    assert list(scenes) == [line.split()[0] for line in lines]
    grades = [scene.grade for scene in scenes.values()]
    assert (grades.count("good"), grades.count("usable")) == (246, 127)
    assert sum(len(scene.objects) for scene in scenes.values()) == GEOMETRY.read_text().count(" object=")


def test_order_of_depth_in_a_drawn_scene(tool, drawn, tmp_path):
    scene = tool.read_geometry(geometry_file(tmp_path, BOX))["val_4k/box"]
    depth, sky = tool.depth_and_sky(drawn, scene)
    assert depth.shape == sky.shape == (360, 480)
    assert (sky[:170] == 255).all()
    assert (sky[190:] == 0).all()
    assert (depth[sky == 255] == 255).all()
    ground = depth[195:350, 60].astype(int)
    assert (np.diff(ground) <= 0).all(), "ground comes nearer from the horizon down"
    assert ground[0] > 215
    assert depth[-1, 60] < 12
    box = depth[215:275, 210:270]
    assert np.ptp(box) <= 6, "a standing box has one depth"
    assert abs(int(np.median(box)) - int(depth[288, 60])) <= 4, "and it is that of the ground where it stands"


def test_what_stands_on_a_contact_line_keeps_its_depth(tool, drawn, tmp_path):
    line = "val_4k/wall good horizon=50 near=.2 sky=no contact=0,80;100,80"
    scene = tool.read_geometry(geometry_file(tmp_path, line))["val_4k/wall"]
    depth, sky = tool.depth_and_sky(drawn, scene)
    assert not sky.any()
    assert np.ptp(depth[:200, 60]) <= 2
    assert depth[60, 60] == pytest.approx(255 * (0.2 + 0.8 * 0.4), abs=3)
    assert depth[-1, 60] == pytest.approx(255 * 0.2, abs=8)  # the filter flattens the last rows


def test_sky_is_found_by_its_colour(tool, drawn, tmp_path):
    scene = tool.read_geometry(geometry_file(tmp_path, "val_4k/box good horizon=50"))["val_4k/box"]
    _, sky = tool.depth_and_sky(drawn, scene)
    assert (sky[:176] == 255).mean() > 0.99
    assert (sky[184:] == 0).mean() > 0.99


def test_from_folder_to_files(tool, drawn, tmp_path, capsys):
    photos, out = tmp_path / "photos", tmp_path / "out"
    (photos / "val_4k").mkdir(parents=True)
    cv2.imwrite(str(photos / "val_4k" / "box.png"), cv2.resize(drawn, None, fx=2, fy=2))
    cv2.imwrite(str(photos / "val_4k" / "close_up.png"), drawn)
    options = ["--photos", str(photos), "--out", str(out), "--geometry", str(geometry_file(tmp_path, BOX))]
    assert tool.main(options) == 0
    assert "1 photos without annotation skipped" in capsys.readouterr().out
    files = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    assert files == ["maps/val_4k__box.png", "sky/val_4k__box.png"]
    first = (out / "maps" / "val_4k__box.png").read_bytes()
    assert tool.main([*options, "val_4k/box"]) == 0
    assert (out / "maps" / "val_4k__box.png").read_bytes() == first, "the same photo gives the same map"
    assert tool.main([*options, "val_4k/nowhere"]) == 2
    assert "no photo named val_4k/nowhere" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("elsewhere/box good horizon=50", "got 'elsewhere/box'"),
        ("val_4k/box bad horizon=50", "got 'bad'"),
        ("val_4k/box good near=.2", "horizon=ROW"),
        ("val_4k/box good horizon=50 horizon=40", "'horizon' is given twice"),
        ("val_4k/box good horizon=50 tree=3", "unknown key 'tree'"),
        ("val_4k/box good horizon=half", "expected a number, got 'half'"),
        ("val_4k/box good horizon=50 near=2", "depth from 0 to 1, got '2'"),
        ("val_4k/box good horizon=50 seed=-1", "whole number as seed, got '-1'"),
        ("val_4k/box good horizon=50 sky=maybe", "got 'maybe'"),
        ("val_4k/box good horizon=50 contact=0,50;40", "got '0,50;40'"),
        ("val_4k/box good horizon=50 far=50,50;10,50", "x to grow"),
        ("val_4k/box good horizon=50 object=80:1,1;2,2;3,1", "rowROW:"),
        (BOX, "'val_4k/box' is annotated twice"),
    ],
)
def test_a_bad_line_is_named_in_one_sentence(tool, tmp_path, line, complaint):
    with pytest.raises(Exception, match=r"^geometry.txt, line 4: [^\n]*\.$") as caught:
        tool.read_geometry(geometry_file(tmp_path, BOX, line))
    assert caught.type.__name__ == "PhotoGeometryError"
    assert complaint in str(caught.value)

"""Image files that are not whole are noticed, whole ones never."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from libranet.engine.image_files import dehaze_image
from libranet.errors import InputError
from libranet.image_structure import find_image_damage, read_header
from libranet.images import count_images

SUFFIXES = (".png", ".jpg", ".webp", ".tif", ".bmp")


def _image(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 255, (40, 56, 3), np.uint8)


@pytest.fixture(params=[*SUFFIXES, "pages.tif", "animation.png", "animation.webp"])
def file(request, tmp_path) -> Path:
    path = tmp_path / (request.param if "." in request.param[1:] else f"one{request.param}")
    if path.name == "pages.tif":
        cv2.imwritemulti(str(path), [_image(0), _image(1)])
    elif path.name.startswith("animation"):
        animation = cv2.Animation()
        animation.frames, animation.durations = [_image(0), _image(1)], [50, 50]
        cv2.imwriteanimation(str(path), animation)
    else:
        cv2.imwrite(str(path), _image())
    return path


def test_a_whole_file(file):
    assert find_image_damage(file) == ""


@pytest.mark.parametrize("share", [0.3, 0.6, 0.98])
def test_a_file_that_is_cut_off(file, share):
    data = file.read_bytes()
    file.write_bytes(data[: int(share * len(data))])
    assert find_image_damage(file)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_nobody_gets_half_an_image_in_silence(tmp_path, tiny_model, suffix):
    path = tmp_path / f"in{suffix}"
    cv2.imwrite(str(path), _image())
    data = path.read_bytes()
    assert dehaze_image(path, tmp_path / f"whole{suffix}", tiny_model).partial == ""
    for share in (0.5, 0.9):
        path.write_bytes(data[: int(share * len(data))])
        try:
            said = dehaze_image(path, tmp_path / f"out{share}{suffix}", tiny_model).partial
        except InputError as error:
            said = str(error)
        assert "the file ends before its image does" in said


def test_pages_before_damage_are_counted(tmp_path, tiny_model):
    path = tmp_path / "pages.tif"
    cv2.imwritemulti(str(path), [_image(0), _image(1), _image(2)])
    data = bytearray(path.read_bytes())
    at = int.from_bytes(data[4:8], "little")
    places = []
    for _ in range(3):
        count = int.from_bytes(data[at : at + 2], "little")
        places.append(at + 2 + 12 * count)
        at = int.from_bytes(data[places[-1] : places[-1] + 4], "little")
    data[places[1] : places[1] + 4] = (len(data) + 1000).to_bytes(4, "little")
    path.write_bytes(data)
    header = read_header(path)
    assert header is not None
    assert header.frames == 2
    report = dehaze_image(path, tmp_path / "out.tif", tiny_model)
    assert report.frames == 2
    assert "pages after the first 2" in report.partial


@pytest.mark.parametrize("kind", [9, 99])  # SLONG, which OpenCV reads as well, and a kind that does not exist
def test_pages_count_whatever_the_first_one_says_of_its_size(tmp_path, kind):
    path = tmp_path / "pages.tif"
    cv2.imwritemulti(str(path), [_image(0), _image(1)])
    data = bytearray(path.read_bytes())
    at = int.from_bytes(data[4:8], "little")
    count = int.from_bytes(data[at : at + 2], "little")
    entry = next(e for e in range(at + 2, at + 2 + 12 * count, 12) if data[e : e + 2] == (257).to_bytes(2, "little"))
    data[entry + 2 : entry + 4] = kind.to_bytes(2, "little")
    path.write_bytes(data)
    assert count_images(path) == 2

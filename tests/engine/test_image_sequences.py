"""Numbered images: resumed, cut, with damaged files among them; what image files say besides their samples."""

import struct
from functools import partial

import cv2
import numpy as np
import pytest

from libranet.engine import DehazeOptions
from libranet.engine.adjust import Adjustments
from libranet.engine.image_files import dehaze_image, dehaze_sequence
from libranet.errors import InputError
from libranet.image_metadata import ImageMetadata, with_metadata
from libranet.images import Image, read_image, read_images, read_loops, write_image

_NUMBERS = (0xF6D6, 1 << 16, 0xD32D, 0)
PROFILE = struct.pack(
    ">I4xI4s4s4s12x4s28xIII48xI", 388, 0x02400000, b"mntr", b"RGB ", b"XYZ ", b"acsp", *_NUMBERS
) + np.random.default_rng(0).bytes(256)
"""A colour profile that libpng takes."""
EXIF = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"


@pytest.fixture
def sources(tmp_path):
    generator = np.random.default_rng(0)
    paths = [tmp_path / f"f_{number}.png" for number in range(9)]
    for path in paths:
        write_image(path, Image(generator.integers(60, 200, (48, 64, 3), np.uint8)))
    return paths


def outputs(folder, count: int):
    folder.mkdir()
    return [folder / f"c_{number}.png" for number in range(count)]


def test_a_resumed_sequence_has_the_same_bits(tmp_path, tiny_model, sources):
    options = DehazeOptions(steady=0.1, adjust=Adjustments(exposure="keep"))
    run = partial(dehaze_sequence, sources, network=tiny_model, options=options, rate=10.0)
    whole, stopped = outputs(tmp_path / "whole", 9), outputs(tmp_path / "stopped", 9)
    run(outputs=whole)
    run(outputs=stopped)
    for path in stopped[5:]:
        path.unlink()
    times = [path.stat().st_mtime_ns for path in stopped[:5]]
    with pytest.raises(InputError, match="exists"):
        run(outputs=stopped)
    report = run(outputs=stopped, resume=True)
    assert (report.frames, report.resumed_frames) == (9, 5)
    assert [path.read_bytes() for path in stopped] == [path.read_bytes() for path in whole]
    assert [path.stat().st_mtime_ns for path in stopped[:5]] == times
    assert run(outputs=stopped, resume=True).resumed_frames == 9


def test_an_unreadable_image_is_left_out_and_named(tmp_path, tiny_model, sources):
    sources[4].write_bytes(b"no image")
    targets = outputs(tmp_path / "out", 9)
    report = dehaze_sequence(sources, targets, tiny_model)
    assert "f_4.png" in report.partial
    assert [path.exists() for path in targets] == [number != 4 for number in range(9)]


def test_another_size_begins_a_new_shot(tmp_path, tiny_model, sources):
    write_image(sources[4], Image(np.full((32, 80, 3), 90, np.uint8)))
    targets = outputs(tmp_path / "out", 9)
    assert dehaze_sequence(sources, targets, tiny_model, options=DehazeOptions(strength=0.0)).partial == ""
    for source, target in zip(sources, targets, strict=True):
        assert np.array_equal(read_image(source).samples, read_image(target).samples)


def test_start_end_and_key_frames_count_in_seconds(tmp_path, tiny_model, sources):
    keys = Adjustments(strength_keys=((0.0, 0.0), (0.5, 0.0), (0.6, 1.0)))
    targets = outputs(tmp_path / "out", 9)
    options = DehazeOptions(start=0.3, end=0.8, adjust=keys)
    dehaze_sequence(sources, targets, tiny_model, options=options, rate=10.0)
    assert [path.exists() for path in targets] == [3 <= number < 8 for number in range(9)]
    changed = [
        not np.array_equal(read_image(a).samples, read_image(b).samples)
        for a, b in zip(sources[3:8], targets[3:8], strict=True)
    ]
    assert changed == [False, False, False, True, True]
    with pytest.raises(InputError, match="no image between"):
        dehaze_sequence(sources, targets, tiny_model, options=DehazeOptions(start=9.0), overwrite=True)


@pytest.mark.parametrize("name", ["out.jpg", "out.xyz", "out"])
def test_a_format_that_cannot_hold_the_image_is_refused_before_the_network(tmp_path, tiny_model, monkeypatch, name):
    write_image(tmp_path / "in.png", Image(np.full((48, 64, 3), 9000, np.uint16)))
    monkeypatch.setattr(type(tiny_model), "forward", lambda *_, **__: pytest.fail("the network ran"))
    with pytest.raises(InputError, match=r"8 bit only|cannot write an image"):
        dehaze_image(tmp_path / "in.png", tmp_path / name, tiny_model)
    assert [path.name for path in tmp_path.iterdir()] == ["in.png"]


def test_a_mask_is_upright_for_a_turned_photo(tmp_path, tiny_model):
    """EXIF turns the image clockwise: its left edge becomes the top."""
    image = np.random.default_rng(0).integers(60, 200, (48, 64, 3), np.uint8)
    write_image(tmp_path / "in.png", Image(image, ImageMetadata(exif=EXIF)))
    mask = np.zeros((64, 48, 1), np.uint8)
    mask[:32] = 255  # the upper half, as people see it
    write_image(tmp_path / "mask.png", Image(mask))
    options = DehazeOptions(adjust=Adjustments(mask=str(tmp_path / "mask.png")))
    dehaze_image(tmp_path / "in.png", tmp_path / "out.png", tiny_model, options=options)
    out = read_image(tmp_path / "out.png").samples
    assert np.array_equal(out[:, 33:], image[:, 33:])
    assert not np.array_equal(out[:, :30], image[:, :30])


@pytest.mark.parametrize(("source", "target"), [("in.tif", "out.png"), ("in.png", "out.tif"), ("in.tif", "out.jpg")])
def test_colour_profiles_go_to_other_formats(tmp_path, tiny_model, source, target):
    write_image(tmp_path / source, Image(np.full((48, 64, 3), 90, np.uint8), metadata=ImageMetadata(profile=PROFILE)))
    assert read_image(tmp_path / source).metadata.profile == PROFILE
    report = dehaze_image(tmp_path / source, tmp_path / target, tiny_model)
    assert report.warnings == ()
    assert read_image(tmp_path / target).metadata.profile == PROFILE


def test_what_a_format_cannot_take_is_said(tmp_path, tiny_model):
    plain = Image(np.full((48, 64, 3), 90, np.uint8), ImageMetadata(exif=EXIF, profile=PROFILE))
    write_image(tmp_path / "in.png", plain)
    assert dehaze_image(tmp_path / "in.png", tmp_path / "same.png", tiny_model).warnings == ()
    assert dehaze_image(tmp_path / "in.png", tmp_path / "out.tif", tiny_model).warnings == ()
    assert read_image(tmp_path / "out.tif").orientation == (3, False)
    report = dehaze_image(tmp_path / "in.png", tmp_path / "out.bmp", tiny_model)
    assert report.warnings == ("not in the .bmp file: colour profile, orientation",)


def test_alpha_that_a_format_has_no_place_for_is_said(tmp_path, tiny_model):
    write_image(tmp_path / "in.png", Image(np.full((48, 64, 4), 90, np.uint8)))
    report = dehaze_image(tmp_path / "in.png", tmp_path / "out.jpg", tiny_model)
    assert report.warnings == ("not in the .jpg file: alpha",)
    assert dehaze_image(tmp_path / "in.png", tmp_path / "out.tif", tiny_model).warnings == ()


def test_pages_keep_their_profile_and_animations_their_loops(tmp_path, tiny_model):
    page = np.random.default_rng(0).integers(0, 255, (48, 64, 3), np.uint8)
    cv2.imwritemulti(str(tmp_path / "in.tif"), [page, 255 - page])
    content = with_metadata((tmp_path / "in.tif").read_bytes(), ImageMetadata(profile=PROFILE), 3)
    (tmp_path / "in.tif").write_bytes(content)
    assert len(list(read_images(tmp_path / "in.tif"))) == 2
    dehaze_image(tmp_path / "in.tif", tmp_path / "out.tif", tiny_model, options=DehazeOptions(strength=0.0))
    assert read_image(tmp_path / "out.tif").metadata.profile == PROFILE
    pages = [image.samples for image, _ in read_images(tmp_path / "out.tif")]
    assert np.array_equal(pages[1], 255 - page[..., ::-1])
    animation = cv2.Animation()
    animation.frames, animation.durations, animation.loop_count = [page, 255 - page], [50, 70], 3
    cv2.imwriteanimation(str(tmp_path / "in.webp"), animation)
    dehaze_image(tmp_path / "in.webp", tmp_path / "out.webp", tiny_model)
    assert read_loops(tmp_path / "out.webp") == 3


@pytest.mark.kernels
def test_every_page_is_its_own_also_where_the_backend_reuses_its_arrays(tmp_path, tiny_model):
    pages = [np.full((96, 160, 3), 40 + 25 * index, np.uint8) for index in range(7)]
    cv2.imwritemulti(str(tmp_path / "in.tif"), pages)
    options = DehazeOptions(strength=0.0, backend="cpu-fp32", shot_detection=False)
    dehaze_image(tmp_path / "in.tif", tmp_path / "out.tif", tiny_model, options=options)
    assert [int(image.samples.mean()) for image, _ in read_images(tmp_path / "out.tif")] == [
        40 + 25 * index for index in range(7)
    ]

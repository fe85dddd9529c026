"""What image files say besides their samples: values stay the bytes that they are, and damaged files do no harm."""

import random
import struct

import cv2
import numpy as np
import pytest

from libranet.image_metadata import ImageMetadata, read_metadata, with_metadata
from libranet.tiff_fields import Field, as_stored, read_directory, read_pages, write_directory

IMAGE = np.random.default_rng(0).integers(0, 255, (20, 30, 3), np.uint8)
SUFFIXES = (".png", ".jpg", ".webp", ".tif", ".bmp")
TAGS = {
    315: Field(2, 13, "Zoë Müller\0".encode()),
    282: Field(5, 1, struct.pack(">II", 300, 1)),
    65000: Field(12, 2, struct.pack(">dd", 0.5, -1e300)),
    34665: {37386: Field(5, 1, struct.pack(">II", 35, 1)), 37500: Field(7, 9, b"own bytes")},
}


def encoded(suffix: str) -> bytes:
    return cv2.imencode(suffix, IMAGE)[1].tobytes()


@pytest.mark.parametrize("order", ["<", ">"])
def test_directories_come_back_in_both_orders(order):
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", 8)
    data = head + write_directory(TAGS, 8, order)
    assert read_directory(data, next(read_pages(data))) == TAGS


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_stay_readable(suffix):
    exif = b"MM\0*\0\0\0\x08" + write_directory(TAGS, 8, ">")
    given = ImageMetadata(exif=exif, xmp=b"<x/>", profile=b"p" * 200_000, density=(11811.0, 11811.0))
    written = with_metadata(encoded(suffix), given, 3)
    image = cv2.imdecode(np.frombuffer(written, np.uint8), cv2.IMREAD_UNCHANGED)
    assert np.array_equal(image, cv2.imdecode(np.frombuffer(encoded(suffix), np.uint8), cv2.IMREAD_UNCHANGED))
    lost = given.lost_in(read_metadata(written))
    assert lost == {
        ".webp": ("resolution",),
        ".bmp": ("XMP", "colour profile", "artist", "EXIF"),
    }.get(suffix, ())


def test_what_does_not_fit_into_a_segment_is_named():
    given = ImageMetadata(xmp=b"<x>" + bytes(70_000))
    assert given.lost_in(read_metadata(with_metadata(encoded(".jpg"), given, 3))) == ("XMP",)
    assert given.lost_in(read_metadata(with_metadata(encoded(".png"), given, 3))) == ()


def test_a_profile_of_other_channels_is_left_out():
    gray = bytes(16) + b"GRAY" + bytes(16) + b"acsp" + bytes(100)
    given = ImageMetadata(profile=gray)
    assert given.lost_in(read_metadata(with_metadata(encoded(".png"), given, 3))) == ("colour profile",)


def _changed(data: bytes, draw: random.Random) -> bytes:
    body = bytearray(data)
    for _ in range(draw.choice((1, 3, 10))):
        at = draw.randrange(len(body))
        if draw.random() < 0.7:
            body[at] = draw.choice((0, 1, 127, 128, 255, draw.randrange(256)))
        else:
            del body[at : at + draw.randrange(1, 40)]
        if not body:
            return b"II*\0"
    return bytes(body)


@pytest.mark.parametrize("seed", range(3))
def test_damaged_files_do_no_harm(seed):
    exif = b"II*\0\x08\0\0\0" + write_directory(TAGS, 8, "<")
    given = ImageMetadata(exif=exif, xmp=b"<x/>", profile=b"p" * 500, density=(11811.0, 11811.0))
    whole = {suffix: with_metadata(encoded(suffix), given, 3) for suffix in SUFFIXES}
    draw = random.Random(seed)
    for _ in range(150):
        data = _changed(draw.choice(list(whole.values())), draw)
        found = read_metadata(data)
        assert 1 <= found.orientation <= 8
        for suffix in SUFFIXES:
            found.lost_in(read_metadata(with_metadata(encoded(suffix), found, 3)))
        if data[:4] in (b"II*\0", b"MM\0*"):
            try:
                assert len(as_stored(data)) == len(data)
            except struct.error:
                continue  # the reader decodes it as it is

"""Facts from the first bytes of an image file, read before any pixel is decoded: a small file may ask for gigabytes."""

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_MOST_PAGES = 100_000
_TIFF_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
_WIDTH, _HEIGHT, _PHOTOMETRIC, _ORIENTATION, _PROFILE = 256, 257, 262, 274, 34675
_CMYK = 5
_TIFF_EXTRAS = {270: "description", 700: "XMP", 33723: "IPTC", 34665: "EXIF", 34853: "GPS"}
_PNG_TEXT = (b"tEXt", b"zTXt", b"iTXt")
_XMP_KEY = b"XML:com.adobe.xmp"
_SOF_MARKERS = {0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF}


@dataclass(frozen=True)
class ImageHeader:
    """Size and kind of an image file."""

    width: int
    height: int
    frames: int = 1
    """Frames of an animation, or pages."""
    cmyk: bool = False
    profile: bytes = b""
    """Colour profile of a TIFF file."""
    extras: tuple[str, ...] = ()
    """What else the file says about its image, and OpenCV does not read."""


def read_header(path: str | Path) -> ImageHeader | None:
    """Read the header of a PNG, JPEG, WebP, TIFF or BMP file, or return None where it is none of these or damaged."""
    try:
        with open(path, "rb") as file:
            return parse_header(file)
    except OSError:
        return None


def parse_header(file: BinaryIO) -> ImageHeader | None:
    """Read the header of an image from an open file, or return None where it is none or damaged."""
    head = file.read(32)
    try:
        if head.startswith(b"\x89PNG\r\n\x1a\n"):
            return _png(file)
        if head.startswith(b"\xff\xd8"):
            return _jpeg(file)
        if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
            return _webp(file)
        if head[:4] in (b"II*\0", b"MM\0*"):
            return _tiff(file, "<" if head[:2] == b"II" else ">")
        if head[:2] == b"BM":
            width, height = struct.unpack("<ii", head[18:26])
            return ImageHeader(abs(width), abs(height))
    except (struct.error, OSError, IndexError, ValueError):
        return None
    return None


def exif_orientation(data: bytes) -> int:
    """Read the orientation, 1 to 8, from EXIF data; 1, upright, where it does not say."""
    data = data.removeprefix(b"Exif\0\0")
    if data[:4] not in (b"II*\0", b"MM\0*"):
        return 1
    order = "<" if data[:2] == b"II" else ">"
    try:
        tags, _ = _tiff_directory(io.BytesIO(data), order, struct.unpack_from(order + "I", data, 4)[0])
    except (struct.error, ValueError):
        return 1
    value = _tiff_number(order, tags.get(_ORIENTATION, b""))
    return value if 1 <= value <= 8 else 1


def _png(file: BinaryIO) -> ImageHeader:
    size, frames, text = (0, 0), 1, False
    file.seek(8)
    for kind, data in _png_chunks(file):
        if kind == b"IHDR":
            size = struct.unpack(">II", data[:8])
        elif kind == b"acTL":
            frames = struct.unpack(">I", data[:4])[0]
        text |= kind in _PNG_TEXT and not data.startswith(_XMP_KEY)
    return ImageHeader(*size, frames=max(1, frames), extras=("text",) if text else ())


def _png_chunks(file: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    """Yield the chunks before the first pixels."""
    while len(head := file.read(8)) == 8:
        length, kind = struct.unpack(">I4s", head)
        if kind == b"IDAT":
            return
        yield kind, file.read(min(length, 64))
        file.seek(length - min(length, 64) + 4, 1)


def _jpeg(file: BinaryIO) -> ImageHeader | None:
    file.seek(2)
    while len(mark := file.read(2)) == 2:
        while mark[0] == 0xFF and mark[1] == 0xFF:
            mark = mark[1:] + file.read(1)
        if mark[0] != 0xFF:
            return None
        length = struct.unpack(">H", file.read(2))[0]
        if mark[1] in _SOF_MARKERS:
            _, height, width, parts = struct.unpack(">BHHB", file.read(6))
            return ImageHeader(width, height, cmyk=parts == 4)
        file.seek(length - 2, 1)
    return None


def _webp(file: BinaryIO) -> ImageHeader | None:
    file.seek(12)
    size: tuple[int, int] | None = None
    frames = 0
    while len(head := file.read(8)) == 8:
        kind, length = struct.unpack("<4sI", head)
        start = file.tell()
        if kind == b"VP8X":
            data = file.read(10)
            size = (1 + int.from_bytes(data[4:7], "little"), 1 + int.from_bytes(data[7:10], "little"))
        elif kind == b"VP8 " and size is None:
            width, height = struct.unpack("<HH", file.read(10)[6:10])
            size = (width & 0x3FFF, height & 0x3FFF)
        elif kind == b"VP8L" and size is None:
            bits = int.from_bytes(file.read(5)[1:5], "little")
            size = (1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF))
        frames += kind == b"ANMF"
        file.seek(start + length + length % 2)
    return None if size is None else ImageHeader(*size, frames=max(1, frames))


def _tiff(file: BinaryIO, order: str) -> ImageHeader | None:
    file.seek(4)
    at = struct.unpack(order + "I", file.read(4))[0]
    first: dict[int, bytes] | None = None
    seen: set[int] = set()
    while at and at not in seen and len(seen) < _MOST_PAGES:
        try:
            tags, following = _tiff_directory(file, order, at)
        except struct.error:  # the pages before are good
            break
        seen.add(at)
        at = following
        first = first if first is not None else tags
    if first is None:
        return None
    numbers = {key: _tiff_number(order, first[key]) for key in (_WIDTH, _HEIGHT, _PHOTOMETRIC) if key in first}
    return ImageHeader(
        numbers.get(_WIDTH, 0),
        numbers.get(_HEIGHT, 0),
        frames=len(seen),  # also where a page does not say its size: every page counts
        cmyk=numbers.get(_PHOTOMETRIC) == _CMYK,
        profile=first.get(_PROFILE, b""),
        extras=tuple(name for tag, name in _TIFF_EXTRAS.items() if tag in first),
    )


def _tiff_directory(file: BinaryIO, order: str, at: int) -> tuple[dict[int, bytes], int]:
    """Return the raw values of the tags at `at`, and where the next directory is."""
    file.seek(at)
    count = struct.unpack(order + "H", file.read(2))[0]
    raw = file.read(12 * count)
    following = struct.unpack(order + "I", file.read(4))[0]
    tags = {}
    for index in range(count):
        tag, kind, number, value = struct.unpack(order + "HHI4s", raw[12 * index : 12 * index + 12])
        size = _TIFF_SIZES.get(kind, 0) * number
        if tag == _PROFILE and 4 < size < 1 << 24:
            file.seek(struct.unpack(order + "I", value)[0])
            tags[tag] = file.read(size)
        elif 0 < size <= 4 or tag in _TIFF_EXTRAS:
            tags[tag] = value[:size]
    return tags, following


def _tiff_number(order: str, value: bytes) -> int:
    return int.from_bytes(value, "little" if order == "<" else "big")


def with_tiff_profile(data: bytes, profile: bytes) -> bytes:
    """Add a colour profile to all pages of a TIFF file: their directories, longer by one entry, go to its end."""
    order = "<" if data[:2] == b"II" else ">"
    start = len(data) + len(data) % 2
    body = bytearray(data + bytes(len(data) % 2) + profile + bytes(len(profile) % 2))
    entry = struct.pack(order + "HHII", _PROFILE, 7, len(profile), start)
    at, link = struct.unpack_from(order + "I", data, 4)[0], 4
    while at:
        count = struct.unpack_from(order + "H", data, at)[0]
        raw = data[at + 2 : at + 2 + 12 * count]
        at = struct.unpack_from(order + "I", data, at + 2 + 12 * count)[0]
        entries = [raw[i : i + 12] for i in range(0, len(raw), 12)] + [entry]
        entries.sort(key=lambda e: _tiff_number(order, e[:2]))
        struct.pack_into(order + "I", body, link, len(body))
        body += struct.pack(order + "H", len(entries)) + b"".join(entries) + bytes(4)
        link = len(body) - 4
    return bytes(body)

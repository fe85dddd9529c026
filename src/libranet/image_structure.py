"""The structure of image files: what they say before any pixel is decoded, and whether they are whole.

A small file may ask for gigabytes, so size and kind are read first. Decoders fill up what is missing with gray and say
nothing, so the parts of a file are followed to its end.
"""

import mmap
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

_CUT = "the file ends before its image does"
_DAMAGED = "a part of the file is damaged"
_MOST_PAGES = 100_000
_TIFF_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
_TIFF_INTEGERS = {1: "B", 3: "H", 4: "I", 9: "i", 16: "Q"}
_WIDTH, _HEIGHT, _PHOTOMETRIC, _ORIENTATION, _PROFILE = 256, 257, 262, 274, 34675
_PLACES_AND_SIZES = ((273, 279), (324, 325))
"""Of strips and of tiles."""
_CMYK = 5
_TIFF_EXTRAS = {270: "description", 700: "XMP", 33723: "IPTC", 34665: "EXIF", 34853: "GPS"}
_PNG_TEXT = (b"tEXt", b"zTXt", b"iTXt")
_XMP_KEY = b"XML:com.adobe.xmp"
_SOF_MARKERS = {0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF}
_SCAN = 0xDA
_WEBP_ANIMATED = 2
_WEBP_IMAGES = (b"VP8 ", b"VP8L", b"ALPH")

_Data = bytes | mmap.mmap
_Page = dict[int, tuple[int, int, int]]
"""Kind, number and place of the values of a TIFF page's fields, by tag."""


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


_Facts = tuple[ImageHeader | None, str]
"""What a file says, and what is damaged."""


def read_header(path: str | Path) -> ImageHeader | None:
    """Read the header of a PNG, JPEG, WebP, TIFF or BMP file, or return None where it is none of these or damaged."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return parse_header(data)
    except (OSError, ValueError):  # no such file, or an empty one
        return None


def parse_header(data: _Data) -> ImageHeader | None:
    """Read the header from the bytes of an image file, or return None where it is none or damaged."""
    try:
        return _FORMATS[kind](data, True)[0] if (kind := _kind(data)) else None
    except (struct.error, IndexError):
        return None


def find_image_damage(path: str | Path) -> str:
    """Return what the structure of a PNG, JPEG, WebP, TIFF or BMP file says about missing parts, or nothing."""
    data = Path(path).read_bytes()
    try:
        return _FORMATS[kind](data, False)[1] if (kind := _kind(data)) else ""
    except (struct.error, IndexError):
        return _CUT


def _kind(data: _Data) -> bytes:
    return next((magic for magic in _FORMATS if data[:4].startswith(magic)), b"")


def _png(data: _Data, header_only: bool) -> _Facts:
    size, text, announced, frames, at = (0, 0), False, 0, 0, 8
    damage = _CUT
    while at + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        begin, end = at + 8, at + 12 + length
        if kind == b"IHDR":
            size = struct.unpack_from(">II", data, begin)
        elif kind == b"acTL":
            announced = struct.unpack_from(">I", data, begin)[0]
        text |= kind in _PNG_TEXT and data[begin : begin + len(_XMP_KEY)] != _XMP_KEY
        frames += kind == b"fcTL"
        if header_only and kind == b"IDAT":
            break
        if not header_only and end > len(data):
            damage = _CUT if kind.isalpha() else _DAMAGED
            break
        if not header_only and zlib.crc32(data[at + 4 : end - 4]) != struct.unpack_from(">I", data, end - 4)[0]:
            damage = _DAMAGED
            break
        if kind == b"IEND":
            damage = f"{announced - frames} frames of the animation are missing" if frames < announced else ""
            break
        at = end
    return ImageHeader(*size, frames=max(1, announced), extras=("text",) if text else ()), damage


def _jpeg(data: _Data, header_only: bool) -> _Facts:
    """Follow the segments to the coded samples, which end with a marker of their own."""
    header, at = None, 2
    while at + 1 < len(data) and data[at] == 0xFF:
        mark = data[at + 1]
        if mark == 0xFF:
            at += 1
            continue
        if mark == _SCAN:
            return header, "" if data.find(b"\xff\xd9", at) >= 0 else _CUT
        if mark in _SOF_MARKERS:
            height, width, parts = struct.unpack_from(">HHB", data, at + 5)
            header = ImageHeader(width, height, cmyk=parts == 4)
            if header_only:
                break
        at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    return header, _DAMAGED if at + 1 < len(data) else _CUT


def _webp(data: _Data, _: bool) -> _Facts:
    end = 8 + struct.unpack_from("<I", data, 4)[0]
    size: tuple[int, int] | None = None
    damage = _CUT if end > len(data) + 1 else ""
    frames, at, animated = 0, 12, data[12:16] == b"VP8X" and bool(data[20] & _WEBP_ANIMATED)
    while at + 8 <= len(data):
        kind, length = struct.unpack_from("<4sI", data, at)
        body = data[at + 8 : at + 28]
        if kind == b"VP8X":
            size = (1 + int.from_bytes(body[4:7], "little"), 1 + int.from_bytes(body[7:10], "little"))
        elif kind == b"VP8 " and size is None:
            width, height = struct.unpack("<HH", body[6:10])
            size = (width & 0x3FFF, height & 0x3FFF)
        elif kind == b"VP8L" and size is None:
            bits = int.from_bytes(body[1:5], "little")
            size = (1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF))
        if at + 8 <= end:
            wrong = not kind.replace(b" ", b"").isalnum() or at + 8 + length > end
            # Readers pass over chunks that they do not know, also over a frame whose name is damaged.
            wrong |= kind != b"ANMF" and body[16:] in _WEBP_IMAGES and length >= 20
            damage = damage or (_DAMAGED if wrong else "")
        frames += kind == b"ANMF"
        at += 8 + length + length % 2
    # AVI is RIFF as well.
    header = ImageHeader(*size, frames=max(1, frames)) if size is not None and data[8:12] == b"WEBP" else None
    return header, damage or (_DAMAGED if frames and not animated else "")


def _bmp(data: _Data, _: bool) -> _Facts:
    start, size, width, height, _planes, bits, packing = struct.unpack_from("<IIiiHHI", data, 10)
    row = (abs(width) * bits + 31) // 32 * 4
    cut = size >= 40 and packing in (0, 3) and start + row * abs(height) > len(data)
    return ImageHeader(abs(width), abs(height)), _CUT if cut else ""


def _order(data: _Data) -> str:
    return "<" if data[:2] == b"II" else ">"


def _tiff_pages(data: _Data) -> Iterator[_Page]:
    """Yield the fields of each page. Raises struct.error where the next page is not in the file."""
    order = _order(data)
    at, seen = struct.unpack_from(order + "I", data, 4)[0], set[int]()
    while at and len(seen) < _MOST_PAGES:
        if at in seen:
            raise struct.error("pages in a circle")
        seen.add(at)
        end = at + 2 + 12 * struct.unpack_from(order + "H", data, at)[0]
        following = struct.unpack_from(order + "I", data, end)[0]
        page = {}
        for entry in range(at + 2, end, 12):
            tag, kind, count, place = struct.unpack_from(order + "HHII", data, entry)
            page[tag] = kind, count, place if _TIFF_SIZES.get(kind, 0) * count > 4 else entry + 8
        yield page
        at = following


def _tiff_integers(data: _Data, page: _Page, tag: int) -> tuple[int, ...]:
    """Return the integers of a field, or one that is outside of the file where they are themselves."""
    kind, count, at = page.get(tag, (0, 0, 0))
    if kind not in _TIFF_INTEGERS:
        return ()
    outside = at + count * _TIFF_SIZES[kind] > len(data)
    return (len(data) + 1,) if outside else struct.unpack_from(f"{_order(data)}{count}{_TIFF_INTEGERS[kind]}", data, at)


def _tiff(data: _Data, _: bool) -> _Facts:
    """Follow the pages. Each says where its samples are."""
    pages: list[_Page] = []
    damage = ""
    try:
        for page in _tiff_pages(data):
            pages.append(page)
            for tags in _PLACES_AND_SIZES:
                columns = (_tiff_integers(data, page, tag) for tag in tags)
                if any(place + size > len(data) for place, size in zip_longest(*columns, fillvalue=0)):
                    damage = damage or _CUT
    except struct.error:  # the pages before are good
        damage = damage or (f"pages after the first {len(pages)} cannot be found" if pages else _CUT)
    if not pages:
        return None, damage
    width, height, colours = (sum(_tiff_integers(data, pages[0], t)[:1]) for t in (_WIDTH, _HEIGHT, _PHOTOMETRIC))
    kind, count, at = pages[0].get(_PROFILE, (0, 0, 0))
    size = count * _TIFF_SIZES.get(kind, 0)
    header = ImageHeader(
        width,
        height,
        frames=len(pages),  # also where a page does not say its size: every page counts
        cmyk=colours == _CMYK,
        profile=data[at : at + size] if size < 1 << 24 else b"",
        extras=tuple(name for tag, name in _TIFF_EXTRAS.items() if tag in pages[0]),
    )
    return header, damage


def exif_orientation(data: bytes) -> int:
    """Read the orientation, 1 to 8, from EXIF data, which is a TIFF file; 1, upright, where it does not say."""
    data = data.removeprefix(b"Exif\0\0")
    try:
        page = next(_tiff_pages(data), {}) if data[:4] in (b"II*\0", b"MM\0*") else {}
    except struct.error:
        return 1
    value = sum(_tiff_integers(data, page, _ORIENTATION)[:1])
    return value if 1 <= value <= 8 else 1


def with_tiff_profile(data: bytes, profile: bytes) -> bytes:
    """Add a colour profile to all pages of a TIFF file: their directories, longer by one entry, go to its end."""
    order = _order(data)
    start = len(data) + len(data) % 2
    body = bytearray(data + bytes(len(data) % 2) + profile + bytes(len(profile) % 2))
    entry = struct.pack(order + "HHII", _PROFILE, 7, len(profile), start)
    at, link = struct.unpack_from(order + "I", data, 4)[0], 4
    while at:
        count = struct.unpack_from(order + "H", data, at)[0]
        raw = data[at + 2 : at + 2 + 12 * count]
        at = struct.unpack_from(order + "I", data, at + 2 + 12 * count)[0]
        entries = [raw[i : i + 12] for i in range(0, len(raw), 12)] + [entry]
        entries.sort(key=lambda e: struct.unpack(order + "H", e[:2]))
        struct.pack_into(order + "I", body, link, len(body))
        body += struct.pack(order + "H", len(entries)) + b"".join(entries) + bytes(4)
        link = len(body) - 4
    return bytes(body)


_FORMATS: dict[bytes, Callable[[_Data, bool], _Facts]] = {
    b"\x89PNG": _png,
    b"\xff\xd8": _jpeg,
    b"RIFF": _webp,
    b"II*\0": _tiff,
    b"MM\0*": _tiff,
    b"BM": _bmp,
}
"""What follows a file that begins with these bytes. It is asked for the header alone, or for damage as well."""

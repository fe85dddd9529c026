"""The structure of image files: what they say before any pixel is decoded, and whether they are whole.

A small file may ask for gigabytes, so size and kind are read first. Decoders fill up what is missing with gray and say
nothing, so the parts of a file are followed to its end.
"""

import mmap
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

from libranet.tiff_fields import HEIGHT, MAGIC, PHOTOMETRIC, SAMPLES_PER_PIXEL, WIDTH, Page, read_integers, read_pages

_CUT = "the file ends before its image does"
_DAMAGED = "a part of the file is damaged"
_PLACES_AND_SIZES = ((273, 279), (324, 325))
"""Of strips and of tiles."""
_COMPRESSION, _BITS, _PLANES, _NUMBERS = 259, 258, 284, 339
_APART = 2
_FOREIGN = {5: "CMYK image for printing", 8: "CIELab image", 9: "ICCLab image", 10: "ITULab image"}
"""Colours of TIFF files that OpenCV makes RGB of, without their own values."""
_KINDS_OF_NUMBERS = {2: "signed integer", 3: "floating-point", 5: "complex", 6: "complex"}
"""What a TIFF file calls samples that are not unsigned integers."""
_SOF_MARKERS = {0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF}
_SCAN = 0xDA
_PROGRESSIVE = 0xC2
_MARKER = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")
"""Of a segment behind coded samples: they have 0 behind 255, or restart marks."""
_WEBP_ANIMATED = 2
_WEBP_IMAGES = (b"VP8 ", b"VP8L", b"ALPH")

_Data = bytes | mmap.mmap


@dataclass(frozen=True)
class ImageHeader:
    """Size and kind of an image file."""

    width: int
    height: int
    frames: int = 1
    """Frames of an animation, or pages."""
    foreign: str = ""
    """What it is where its colours are neither gray nor RGB, or its samples not of 8 or 16 bits."""
    sampling: tuple[int, int] = (1, 1)
    """Pixels of a JPEG file that share a chroma sample, across and down."""
    progressive: bool = False
    """The coding of a JPEG file."""
    compression: int = 0
    """The number of a TIFF file's compression."""
    channels: int = 0
    """Of a TIFF file; 0 where it does not say."""
    apart: bool = False
    """A TIFF file stores more than 8 bits of each channel on its own, which OpenCV mixes up without a word."""
    clear_gray: int = -1
    """The gray of a PNG file that is transparent, as a sample of 8 or 16 bits; -1 where none is."""
    bits: int = 0
    """Of each sample of a TIFF file; 0 where it does not say."""


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


def png_chunks(data: _Data) -> Iterator[tuple[bytes, int, int]]:
    """Yield name, beginning of the content and end of each chunk, checksum included; the end may lie outside."""
    at = 8
    while at + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        yield kind, at + 8, at + 12 + length
        at += 12 + length


def _png(data: _Data, header_only: bool) -> _Facts:
    size, announced, frames, bits, gray, clear_gray = (0, 0), 0, 0, 8, False, -1
    damage = _CUT
    for kind, begin, end in png_chunks(data):
        if kind == b"IHDR":
            size, bits = struct.unpack_from(">II", data, begin), data[begin + 8]
            gray = data[begin + 9] == 0
        elif kind == b"tRNS" and gray:
            most = (1 << bits) - 1
            clear_gray = (struct.unpack_from(">H", data, begin)[0] & most) * (255 // most if bits < 8 else 1)
        elif kind == b"acTL":
            announced = struct.unpack_from(">I", data, begin)[0]
        frames += kind == b"fcTL"
        if header_only and kind == b"IDAT":
            break
        if not header_only and end > len(data):
            damage = _CUT if kind.isalpha() else _DAMAGED
            break
        if not header_only and zlib.crc32(data[begin - 4 : end - 4]) != struct.unpack_from(">I", data, end - 4)[0]:
            damage = _DAMAGED
            break
        if kind == b"IEND":
            damage = f"{announced - frames} frames of the animation are missing" if frames < announced else ""
            break
    return ImageHeader(*size, frames=max(1, announced), clear_gray=clear_gray), damage


def jpeg_segments(data: _Data) -> Iterator[tuple[int, int, int]]:
    """Yield marker, beginning of the content and end of each segment up to the coded samples, where it stops."""
    at = 2
    while at + 1 < len(data) and data[at] == 0xFF:
        mark = data[at + 1]
        if mark == 0xFF:
            at += 1
            continue
        end = at + 2 + struct.unpack_from(">H", data, at + 2)[0]
        yield mark, at + 4, end
        if mark == _SCAN:
            return
        at = end


def jpeg_end(data: _Data, at: int) -> int:
    """Return where a JPEG image ends whose first coded samples begin at `at`; the end of the file where it does not."""
    while (mark := _MARKER.search(data, at)) is not None:
        if mark[0] == b"\xff\xd9":
            return mark.end()
        if mark.end() + 2 > len(data):
            break
        at = mark.end() + struct.unpack_from(">H", data, mark.end())[0]  # tables of the next scan
    return len(data)


def _jpeg(data: _Data, header_only: bool) -> _Facts:
    """Follow the segments to the coded samples, which end with a marker of their own."""
    header, at = None, 2
    for mark, begin, end in jpeg_segments(data):
        if mark == _SCAN:
            return header, "" if data.find(b"\xff\xd9", begin) >= 0 else _CUT
        if mark in _SOF_MARKERS:
            height, width, parts = struct.unpack_from(">HHB", data, begin + 1)
            factors = [data[begin + 7 + 3 * part] for part in range(parts)]  # 16 times across, and down
            shared = factors[0] >> 4, factors[0] & 15
            plain = all(factor == 0x11 for factor in factors[1:])
            sampling = shared if parts > 1 and plain else (1, 1)
            foreign = _FOREIGN[5] if parts == 4 else ""
            header = ImageHeader(width, height, foreign=foreign, sampling=sampling, progressive=mark == _PROGRESSIVE)
            if header_only:
                break
        at = end
    return header, _DAMAGED if at + 1 < len(data) else _CUT


def webp_chunks(data: _Data) -> Iterator[tuple[bytes, int, int]]:
    """Yield name, beginning and end of the content of each chunk; the end may lie outside."""
    at = 12
    while at + 8 <= len(data):
        kind, length = struct.unpack_from("<4sI", data, at)
        yield kind, at + 8, at + 8 + length
        at += 8 + length + length % 2


def _webp(data: _Data, _: bool) -> _Facts:
    end = 8 + struct.unpack_from("<I", data, 4)[0]
    size: tuple[int, int] | None = None
    damage = _CUT if end > len(data) + 1 else ""
    frames, animated = 0, data[12:16] == b"VP8X" and bool(data[20] & _WEBP_ANIMATED)
    for kind, begin, stop in webp_chunks(data):
        body = data[begin : begin + 20]
        if kind == b"VP8X":
            size = (1 + int.from_bytes(body[4:7], "little"), 1 + int.from_bytes(body[7:10], "little"))
        elif kind == b"VP8 " and size is None:
            width, height = struct.unpack("<HH", body[6:10])
            size = (width & 0x3FFF, height & 0x3FFF)
        elif kind == b"VP8L" and size is None:
            bits = int.from_bytes(body[1:5], "little")
            size = (1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF))
        if begin <= end:
            wrong = not kind.replace(b" ", b"").isalnum() or stop > end
            # Readers pass over chunks that they do not know, also over a frame whose name is damaged.
            wrong |= kind != b"ANMF" and body[16:] in _WEBP_IMAGES and stop - begin >= 20
            damage = damage or (_DAMAGED if wrong else "")
        frames += kind == b"ANMF"
    # AVI is RIFF as well.
    header = ImageHeader(*size, frames=max(1, frames)) if size is not None and data[8:12] == b"WEBP" else None
    return header, damage or (_DAMAGED if frames and not animated else "")


def _bmp(data: _Data, _: bool) -> _Facts:
    start, size, width, height, _planes, bits, packing = struct.unpack_from("<IIiiHHI", data, 10)
    row = (abs(width) * bits + 31) // 32 * 4
    cut = size >= 40 and packing in (0, 3) and start + row * abs(height) > len(data)
    return ImageHeader(abs(width), abs(height)), _CUT if cut else ""


def _tiff(data: _Data, _: bool) -> _Facts:
    """Follow the pages. Each says where its samples are."""
    pages: list[Page] = []
    damage = ""
    try:
        for page in read_pages(data):
            pages.append(page)
            for tags in _PLACES_AND_SIZES:
                columns = (read_integers(data, page, tag) for tag in tags)
                if any(place + size > len(data) for place, size in zip_longest(*columns, fillvalue=0)):
                    damage = damage or _CUT
    except struct.error:  # the pages before are good
        damage = damage or (f"pages after the first {len(pages)} cannot be found" if pages else _CUT)
    if not pages:
        return None, damage
    width, height, colours = (sum(read_integers(data, pages[0], tag)[:1]) for tag in (WIDTH, HEIGHT, PHOTOMETRIC))
    compression, channels = (sum(read_integers(data, pages[0], tag)[:1]) for tag in (_COMPRESSION, SAMPLES_PER_PIXEL))
    bits, planes = (sum(read_integers(data, pages[0], tag)[:1]) for tag in (_BITS, _PLANES))
    numbers = _KINDS_OF_NUMBERS.get(sum(read_integers(data, pages[0], _NUMBERS)[:1]), "integer" if bits > 16 else "")
    foreign = _FOREIGN.get(colours) or (f"TIFF file of {bits}-bit {numbers} samples" if numbers else "")
    header = ImageHeader(width, height, foreign=foreign, compression=compression, channels=channels)
    header = replace(header, bits=bits, apart=planes == _APART and bits > 8 and channels > 1)
    return replace(header, frames=len(pages)), damage  # every page counts, also where one does not say its size


_FORMATS: dict[bytes, Callable[[_Data, bool], _Facts]] = {
    b"\x89PNG": _png,
    b"\xff\xd8": _jpeg,
    b"RIFF": _webp,
    **dict.fromkeys(MAGIC, _tiff),
    b"BM": _bmp,
}
"""What follows a file that begins with these bytes. It is asked for the header alone, or for damage as well."""

"""Whether an image file is whole. Decoders fill up what is missing with gray and say nothing."""

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

_CUT = "the file ends before its image does"
_DAMAGED = "a part of the file is damaged"
_STRIPS, _STRIP_SIZES, _TILES, _TILE_SIZES = 273, 279, 324, 325
_TIFF_SIZES = {1: 1, 3: 2, 4: 4, 16: 8}
_WEBP_ANIMATED = 2
_WEBP_IMAGES = (b"VP8 ", b"VP8L", b"ALPH")
_MOST_PAGES = 100_000


def find_image_damage(path: str | Path) -> str:
    """Return what the structure of a PNG, JPEG, WebP, TIFF or BMP file says about missing parts, or nothing."""
    data = Path(path).read_bytes()
    checks: dict[bytes, Callable[[bytes], str]] = {
        b"\x89PNG": _png,
        b"\xff\xd8": _jpeg,
        b"RIFF": _webp,
        b"II*\0": _tiff,
        b"MM\0*": _tiff,
        b"BM": _bmp,
    }
    for magic, check in checks.items():
        if data.startswith(magic):
            try:
                return check(data)
            except (struct.error, IndexError):
                return _CUT
    return ""


def _png(data: bytes) -> str:
    at, announced, frames = 8, 0, 0
    while at + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        end = at + 12 + length
        if end > len(data):
            return _CUT if kind.isalpha() else _DAMAGED
        if zlib.crc32(data[at + 4 : end - 4]) != struct.unpack_from(">I", data, end - 4)[0]:
            return _DAMAGED
        if kind == b"acTL":
            announced = struct.unpack_from(">I", data, at + 8)[0]
        frames += kind == b"fcTL"
        if kind == b"IEND":
            return f"{announced - frames} frames of the animation are missing" if frames < announced else ""
        at = end
    return _CUT


def _jpeg(data: bytes) -> str:
    """Follow the segments to the coded samples, which end with a marker of their own."""
    at = 2
    while data[at] == 0xFF:
        while data[at + 1] == 0xFF:
            at += 1
        if data[at + 1] == 0xDA:
            return "" if data.find(b"\xff\xd9", at) >= 0 else _CUT
        at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    return _DAMAGED


def _webp(data: bytes) -> str:
    size = struct.unpack_from("<I", data, 4)[0]
    if size + 8 > len(data) + 1:
        return _CUT
    at, end = 12, size + 8
    frames, animated = 0, data[12:16] == b"VP8X" and bool(data[20] & _WEBP_ANIMATED)
    while at + 8 <= end:
        kind, length = struct.unpack_from("<4sI", data, at)
        if not kind.replace(b" ", b"").isalnum() or at + 8 + length > end:
            return _DAMAGED
        # Readers pass over chunks that they do not know, also over a frame whose name is damaged.
        if kind != b"ANMF" and data[at + 24 : at + 28] in _WEBP_IMAGES and at + 28 <= at + 8 + length:
            return _DAMAGED
        frames += kind == b"ANMF"
        at += 8 + length + length % 2
    return _DAMAGED if frames and not animated else ""


def _bmp(data: bytes) -> str:
    start, header = struct.unpack_from("<II", data, 10)
    if header < 40:
        return ""
    width, height, _, bits, packing = struct.unpack_from("<iiHHI", data, 18)
    row = (abs(width) * bits + 31) // 32 * 4
    return _CUT if packing in (0, 3) and start + row * abs(height) > len(data) else ""


def _tiff(data: bytes) -> str:
    """Follow the directories. Each page says where its samples are."""
    order = "<" if data[:2] == b"II" else ">"
    at, seen = struct.unpack_from(order + "I", data, 4)[0], set[int]()
    while at and len(seen) < _MOST_PAGES:
        if at in seen or at + 2 > len(data):
            return f"pages after the first {len(seen)} cannot be found" if seen else _CUT
        seen.add(at)
        count = struct.unpack_from(order + "H", data, at)[0]
        entries = [struct.unpack_from(order + "HHI", data, at + 2 + 12 * k) for k in range(count)]
        values = {
            tag: _tiff_values(data, order, at + 10 + 12 * k, kind, number)
            for k, (tag, kind, number) in enumerate(entries)
            if tag in (_STRIPS, _STRIP_SIZES, _TILES, _TILE_SIZES)
        }
        for places, sizes in ((_STRIPS, _STRIP_SIZES), (_TILES, _TILE_SIZES)):
            pairs = zip(values.get(places, ()), values.get(sizes, ()), strict=False)
            if any(place + size > len(data) for place, size in pairs):
                return _CUT
        at = struct.unpack_from(order + "I", data, at + 2 + 12 * count)[0]
    return ""


def _tiff_values(data: bytes, order: str, at: int, kind: int, number: int) -> tuple[int, ...]:
    size = _TIFF_SIZES.get(kind, 0)
    if size == 0:
        return ()
    if size * number > 4:
        at = struct.unpack_from(order + "I", data, at)[0]
    if at + size * number > len(data):
        raise struct.error("values outside of the file")
    return struct.unpack_from(f"{order}{number}{ {1: 'B', 2: 'H', 4: 'I', 8: 'Q'}[size] }", data, at)

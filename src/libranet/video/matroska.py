"""What a Matroska or WebM file must say about its pictures and PyAV cannot tell FFmpeg's muxer: the shape of a pixel
and the mastering display.

The muxer is given a long track title. Afterwards the video's track entry is written anew in the same number of bytes:
the real title, the missing elements, and empty space for the rest. No other byte of the file moves.
"""

import struct
import zlib
from fractions import Fraction
from pathlib import Path

from libranet.video.tags import VideoTags

FILLER = "~" * 320
"""Room for the elements below, asked for as a part of the track's title."""

_HEAD_LIMIT = 16 << 20
_SEGMENT, _TRACKS, _TRACK_ENTRY = 0x18538067, 0x1654AE6B, 0xAE
_VIDEO, _NAME, _VOID, _CRC = 0xE0, 0x536E, 0xEC, 0xBF
_PIXEL_WIDTH, _PIXEL_HEIGHT = 0xB0, 0xBA
_DISPLAY_WIDTH, _DISPLAY_HEIGHT, _DISPLAY_UNIT = 0x54B0, 0x54BA, 0x54B2
_COLOUR, _MAX_CLL, _MAX_FALL, _MASTERING = 0x55B0, 0x55BC, 0x55BD, 0x55D0


def describe_video(path: Path, tags: VideoTags, title: str) -> None:
    """Write sample aspect ratio, mastering display and light level into a finished Matroska file."""
    with path.open("r+b") as file:
        head = file.read(_HEAD_LIMIT)
        start, end = _find_tracks(head)
        at, pieces, checksum = start, [], False
        while at < end:
            ident, size, content = _header(head, at)
            data = head[content : content + size]
            if ident == _CRC:
                checksum = True
            elif ident == _TRACK_ENTRY and FILLER.encode() in data:
                pieces.append(head[at:content] + _describe_entry(data, tags, title))
            else:
                pieces.append(head[at : content + size])
            at = content + size
        body = b"".join(pieces)
        if checksum:
            body = _element(_CRC, struct.pack("<I", zlib.crc32(body))) + body
        if len(body) != end - start:
            raise AssertionError(f"the rewritten track list has {len(body)} bytes instead of {end - start}")
        file.seek(start)
        file.write(body)


def _find_tracks(head: bytes) -> tuple[int, int]:
    """Where the content of the track list begins and ends."""
    at = 0
    while at < len(head):
        ident, size, content = _header(head, at)
        if ident == _TRACKS:
            return content, content + size
        at = content if ident == _SEGMENT else content + size
    raise AssertionError("a Matroska file without a track list")


def _describe_entry(entry: bytes, tags: VideoTags, title: str) -> bytes:
    parts = []
    for ident, data in _children(entry):
        if ident == _NAME:
            if title:
                parts.append(_element(_NAME, title.encode(errors="surrogateescape")))
        elif ident == _VIDEO:
            parts.append(_element(_VIDEO, _describe_pictures(data, tags)))
        else:
            parts.append(_element(ident, data))
    described = b"".join(parts)
    spare = len(entry) - len(described)
    return described + _void(spare)


def _describe_pictures(video: bytes, tags: VideoTags) -> bytes:
    children = dict(_children(video))
    if tags.sample_aspect_ratio not in (None, Fraction(1)):
        assert tags.sample_aspect_ratio is not None
        width, height = (int.from_bytes(children[key], "big") for key in (_PIXEL_WIDTH, _PIXEL_HEIGHT))
        shown = tags.sample_aspect_ratio * width
        unit = 0
        if shown.denominator != 1:  # not a whole number of pixels: state the aspect ratio of the picture instead
            ratio = shown / height
            shown, height, unit = Fraction(ratio.numerator), ratio.denominator, 3
        children[_DISPLAY_WIDTH], children[_DISPLAY_HEIGHT] = _number(int(shown)), _number(height)
        if unit:
            children[_DISPLAY_UNIT] = _number(unit)
        else:
            children.pop(_DISPLAY_UNIT, None)
    colour = dict(_children(children.get(_COLOUR, b"")))
    if tags.light_level is not None:
        colour[_MAX_CLL], colour[_MAX_FALL] = (_number(value) for value in tags.light_level)
    if tags.mastering is not None:
        m = tags.mastering
        values = (*m.red, *m.green, *m.blue, *m.white, m.greatest, m.least)
        colour[_MASTERING] = b"".join(
            _element(0x55D1 + index, struct.pack(">d", float(value))) for index, value in enumerate(values)
        )
    if colour:
        children[_COLOUR] = b"".join(_element(ident, data) for ident, data in colour.items())
    return b"".join(_element(ident, data) for ident, data in children.items())


def _children(data: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at < len(data):
        ident, size, content = _header(data, at)
        found.append((ident, data[content : content + size]))
        at = content + size
    return found


def _header(data: bytes, at: int) -> tuple[int, int, int]:
    """Identifier, size and place of the content of the element at `at`."""
    length = 9 - data[at].bit_length()
    ident = int.from_bytes(data[at : at + length], "big")
    at += length
    length = 9 - data[at].bit_length()
    size = int.from_bytes(data[at : at + length], "big") & ((1 << (7 * length)) - 1)
    return ident, size, at + length


def _element(ident: int, content: bytes) -> bytes:
    name = ident.to_bytes((ident.bit_length() + 7) // 8, "big")
    size = len(content)
    length = next(n for n in range(1, 9) if size < (1 << (7 * n)) - 1)
    return name + (size | 1 << (7 * length)).to_bytes(length, "big") + content


def _number(value: int) -> bytes:
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def _void(size: int) -> bytes:
    """An empty element of exactly `size` bytes."""
    if size == 0:
        return b""
    for length in range(1, 9):
        content = size - 1 - length
        if 0 <= content < (1 << (7 * length)) - 1:
            return bytes([_VOID]) + (content | 1 << (7 * length)).to_bytes(length, "big") + bytes(content)
    raise AssertionError(f"no empty element has {size} bytes: the filler is too short")

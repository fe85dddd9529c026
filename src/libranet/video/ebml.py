"""Matroska's elements: an identifier, a size, and content that may be elements again."""

import io
from collections.abc import Iterator
from typing import IO

SEGMENT, INFO, TRACKS, CHAPTERS, ATTACHMENTS, TAGS = (
    0x18538067,
    0x1549A966,
    0x1654AE6B,
    0x1043A770,
    0x1941A469,
    0x1254C367,
)
_HEADER, _CLUSTER, VOID, CRC = 0x1A45DFA3, 0x1F43B675, 0xEC, 0xBF
ATTACHED_FILE, _FILE_DATA = 0x61A7, 0x465C
TRACK_ENTRY, VIDEO = 0xAE, 0xE0
STEREO, CROPS, PROJECTION = 0x53B8, (0x54AA, 0x54BB, 0x54CC, 0x54DD), 0x7670
_PROJECTION_TYPE, _ADDITION = 0x7671, 0x41E4
VIDEO_NAMES = {
    STEREO: "the stereo mode", PROJECTION: "the 360 degree projection", 0x54B3: "the kind of aspect ratio",
    **dict.fromkeys(CROPS, "the cropping"), _ADDITION: "Dolby Vision",
}  # fmt: skip
"""Elements of a video that FFmpeg writes for every source that has such a property, whatever its container."""
_LARGEST = 64 << 20
"""Bytes of a section that is read. Attached files are larger, and passed over."""


def read_sections(file: IO[bytes]) -> dict[int, bytes]:
    """Return the content of the sections of a file by identifier: info, tracks, chapters, attachments, tags.

    Attachments come without their data. What follows a cluster of unknown length, as in live recordings, is not found.
    """
    found: dict[int, bytes] = {}
    for ident, at, size in section_places(file):
        if ident == ATTACHMENTS:
            found[ident] = b"".join(_without_data(file, at, at + size))
        elif size <= _LARGEST:
            file.seek(at)
            found.setdefault(ident, file.read(size))
    return found


def section_places(file: IO[bytes]) -> Iterator[tuple[int, int, int]]:
    """Yield identifier, place of the content and size of each section but the clusters; none of another format."""
    end = file.seek(0, io.SEEK_END)
    if _read_header(file, 0)[0] != _HEADER:
        return
    at = 0
    while at < end:
        ident, size, content = _read_header(file, at)
        if ident in (0, _CLUSTER) and size is None:
            return
        if ident in (INFO, TRACKS, CHAPTERS, ATTACHMENTS, TAGS) and size is not None:
            yield ident, content, size
        at = content if ident == SEGMENT or size is None else content + size


def _without_data(file: IO[bytes], at: int, end: int) -> Iterator[bytes]:
    """Yield the attached files of a section with everything but their data."""
    while at < end:
        ident, size, content = _read_header(file, at)
        if size is None:
            return
        at = content + size
        if ident != ATTACHED_FILE:  # a checksum
            continue
        parts, inner = [], content
        while inner < content + size:
            kind, length, begin = _read_header(file, inner)
            if length is None:
                return
            if kind != _FILE_DATA:
                file.seek(begin)
                parts.append(element(kind, file.read(length)))
            inner = begin + length
        yield element(ident, b"".join(parts))


def _read_header(file: IO[bytes], at: int) -> tuple[int, int | None, int]:
    file.seek(at)
    head = file.read(12).ljust(12, b"\0")
    if head[0] < 0x10 or head[9 - head[0].bit_length()] == 0:
        return 0, None, at + 1
    ident, size, content = header(head, 0)
    digits = content - (9 - head[0].bit_length())
    return ident, None if size == (1 << (7 * digits)) - 1 else size, at + content


def header(data: bytes, at: int) -> tuple[int, int, int]:
    """Return identifier, size and position of the content of the element at `at`."""
    length = 9 - data[at].bit_length()
    ident = int.from_bytes(data[at : at + length], "big")
    at += length
    length = 9 - data[at].bit_length()
    size = int.from_bytes(data[at : at + length], "big") & ((1 << (7 * length)) - 1)
    return ident, size, at + length


def children(data: bytes) -> list[tuple[int, bytes]]:
    """Return identifier and content of each element, as far as they are whole."""
    found, at = [], 0
    padded = data + bytes(8)  # the size of a last element that is cut off
    while at + 2 <= len(data) and data[at]:
        ident, size, content = header(padded, at)
        if content + size > len(data):
            break
        found.append((ident, data[content : content + size]))
        at = content + size
    return found


def child(data: bytes, ident: int) -> bytes:
    """Return the content of the first element of this kind, or nothing."""
    return next((content for found, content in children(data) if found == ident), b"")


def is_rotation(projection: bytes) -> bool:
    """Return whether a projection is that of a flat frame, which only says how the frame is turned."""
    return bool(projection) and not int.from_bytes(child(projection, _PROJECTION_TYPE), "big")


def element(ident: int, content: bytes) -> bytes:
    name = ident.to_bytes((ident.bit_length() + 7) // 8, "big")
    size = len(content)
    length = next(n for n in range(1, 9) if size < (1 << (7 * n)) - 1)
    return name + (size | 1 << (7 * length)).to_bytes(length, "big") + content


def number(value: int) -> bytes:
    """Return the content of an element with an unsigned integer."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def void(size: int) -> bytes:
    """Return an empty element of exactly `size` bytes."""
    if size == 0:
        return b""
    for length in range(1, 9):
        content = size - 1 - length
        if 0 <= content < (1 << (7 * length)) - 1:
            return bytes([VOID]) + (content | 1 << (7 * length)).to_bytes(length, "big") + bytes(content)
    raise AssertionError(f"no empty element has {size} bytes: the filler is too short")

"""MP4 and QuickTime: boxes with a size and four letters.

The silent loss: FFmpeg passes over a fragment or a table whose box lost its name or its length, and plays the rest.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from libranet.video.structure.breaks import Breaks, FileBytes
from libranet.video.structure.sample_tables import check_track

_PARENTS = (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"edts", b"mvex", b"moof", b"traf")
"""Boxes that hold nothing but boxes."""
_NEEDED = {
    b"moov": (b"mvhd",),
    b"trak": (b"tkhd", b"mdia"),
    b"mdia": (b"mdhd", b"hdlr", b"minf"),
    b"stbl": (b"stsd", b"stts", b"stsc"),
    b"moof": (b"mfhd", b"traf"),
    b"traf": (b"tfhd", b"trun"),
}
"""Without these a reader passes over a track or a fragment, or guesses its times."""
_NO_SAMPLES = 0x010000
"""In the header of a fragment: it holds nothing but a pause."""
_MOST = 64 << 20
"""Bytes of the index that are read. That of a day of video is shorter."""


@dataclass(frozen=True)
class Box:
    """A box inside of another."""

    name: bytes
    content: int
    """Where its content begins."""
    end: int


def walk_boxes(file: FileBytes, breaks: Breaks) -> None:
    """Follow the boxes of the file, and those of its index down to the tables of samples."""
    at = 0
    while at < file.size:
        head = file.read(at, 16)
        if len(head) < 8 or not head[4:8].isalnum():
            if not (head[4:8].strip(b" ").isalnum() or file.only_zeros(at)):
                breaks.add(file.size - at)
                return
            if file.only_zeros(at):
                return
        size, begin = struct.unpack(">I", head[:4])[0], 8
        if size == 1 and len(head) == 16:
            size, begin = struct.unpack(">Q", head[8:])[0], 16
        if size == 0:  # to the end of the file
            return
        if size < 8:
            breaks.add(file.size - at)
            return
        if head[4:8] in (b"moov", b"moof") and at + size <= file.size and size <= _MOST:
            _walk_index(file.read(at + begin, size - begin), head[4:8], file.size, breaks)
        at += size
    breaks.cut |= at > file.size


def _walk_index(data: bytes, name: bytes, file_size: int, breaks: Breaks) -> None:
    """Follow the boxes inside of an index, and compare the tables of each track."""
    movie = Box(name, 0, len(data))
    boxes = _children(data, movie, breaks)
    header = next((data[box.content : box.end] for box in boxes if box.name == b"mvhd"), b"")
    for box in boxes:
        found: dict[bytes, bytes] = {}
        _collect(data, box, found, breaks)
        if box.name == b"trak":
            breaks.contradictions += not check_track(found, header, file_size)


def _collect(data: bytes, parent: Box, found: dict[bytes, bytes], breaks: Breaks) -> None:
    """Gather the contents of all boxes inside of another that hold no further boxes."""
    if parent.name not in _PARENTS:
        found.setdefault(parent.name, data[parent.content : parent.end])
        return
    for box in _children(data, parent, breaks):
        _collect(data, box, found, breaks)


def _children(data: bytes, parent: Box, breaks: Breaks) -> list[Box]:
    boxes = list(_follow(data, parent, breaks))
    names = {box.name for box in boxes}
    lacking = set(_NEEDED.get(parent.name, ())) - names
    if lacking == {b"trun"}:
        header = next(box.content for box in boxes if box.name == b"tfhd")
        lacking = set() if int.from_bytes(data[header : header + 4], "big") & _NO_SAMPLES else lacking
    breaks.contradictions += bool(lacking)
    return boxes


def _follow(data: bytes, parent: Box, breaks: Breaks) -> Iterator[Box]:
    at = parent.content
    while at < parent.end:
        if parent.end - at < 8 or data[at : at + 8] == bytes(8):
            if any(data[at : parent.end]):  # QuickTime may end a list with zeros
                breaks.add(parent.end - at)
            return
        size, name = struct.unpack_from(">I4s", data, at)
        begin = 8
        if size == 1 and parent.end - at >= 16:
            size, begin = struct.unpack_from(">Q", data, at + 8)[0], 16
        if size < begin or at + size > parent.end or not _is_name(name):
            breaks.add(parent.end - at)
            return
        yield Box(name, at + begin, at + size)
        at += size


def _is_name(name: bytes) -> bool:
    """Return whether four bytes may be a name: letters of Latin-1, as in those of Apple."""
    return all(32 <= byte < 127 or byte >= 160 for byte in name)

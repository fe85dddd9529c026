"""MP4 and QuickTime: boxes with a size and four letters.

The silent losses: FFmpeg passes over a fragment or a table whose box lost its name or its length, and plays the rest;
it also plays what is left where the header of a fragment is gone and its data stand alone.
"""

import struct
from collections.abc import Iterator

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


def walk_boxes(file: FileBytes, breaks: Breaks) -> None:
    """Follow the boxes of the file, and those of its index down to the tables of samples."""
    at, fragments = 0, _Fragments()
    while at < file.size:
        head = file.read(at, 16)
        if len(head) < 8 or not head[4:8].strip(b" ").isalnum():
            if not file.only_zeros(at):
                breaks.add(file.size - at)
            return
        size, begin = struct.unpack(">I", head[:4])[0], 8
        if size == 1 and len(head) == 16:
            size, begin = struct.unpack(">Q", head[8:])[0], 16
        if size == 0:  # to the end of the file
            break
        if size < 8:
            breaks.add(file.size - at)
            return
        fragments.take(head[4:8], file.read(at + begin, 16))
        if head[4:8] in (b"moov", b"moof") and at + size <= file.size and size <= _MOST:
            _walk_index(head[4:8], memoryview(file.read(at + begin, size - begin)), file.size, breaks)
        at += size
    breaks.cut |= at > file.size
    breaks.contradictions += fragments.orphans


class _Fragments:
    """Headers of fragments and their data, in turn. A header may have its data in several boxes: then numbers go on."""

    def __init__(self) -> None:
        self._number = 0
        """Of the last header."""
        self._data = 0
        """Boxes of data since then."""
        self.orphans = 0
        """How often data have no header."""

    def take(self, name: bytes, begin: bytes) -> None:
        """Take the next box: its name and the beginning of what is in it."""
        if name == b"moof" and begin[4:8] == b"mfhd":
            number = int.from_bytes(begin[12:16], "big")
            self.orphans += self._number > 0 and self._data > 1 and number != self._number + 1
            self._number, self._data = number, 0
        self._data += name == b"mdat"


def _walk_index(name: bytes, data: memoryview, file_size: int, breaks: Breaks) -> None:
    """Follow the boxes inside of an index, and compare the tables of each track."""
    boxes = _children(name, data, breaks)
    header = next((bytes(content) for kind, content in boxes if kind == b"mvhd"), b"")
    for kind, content in boxes:
        found: dict[bytes, bytes] = {}
        _collect(kind, content, found, breaks)
        if kind == b"trak":
            breaks.contradictions += not check_track(found, header, file_size)


def _collect(name: bytes, data: memoryview, found: dict[bytes, bytes], breaks: Breaks) -> None:
    """Gather the contents of all boxes inside of another that hold no further boxes."""
    if name not in _PARENTS:
        found.setdefault(name, bytes(data))
        return
    for kind, content in _children(name, data, breaks):
        _collect(kind, content, found, breaks)


def _children(name: bytes, data: memoryview, breaks: Breaks) -> list[tuple[bytes, memoryview]]:
    """Return the boxes inside of one of this name. What it needs has to be there."""
    boxes = list(_follow(data, breaks))
    lacking = set(_NEEDED.get(name, ())) - {kind for kind, _ in boxes}
    if lacking == {b"trun"}:
        flags = int.from_bytes(next(content for kind, content in boxes if kind == b"tfhd")[:4], "big")
        lacking = set() if flags & _NO_SAMPLES else lacking
    breaks.contradictions += bool(lacking)
    return boxes


def _follow(data: memoryview, breaks: Breaks) -> Iterator[tuple[bytes, memoryview]]:
    at = 0
    while at < len(data):
        if len(data) - at < 8 or data[at : at + 8] == bytes(8):
            if any(data[at:]):  # QuickTime may end a list with zeros
                breaks.add(len(data) - at)
            return
        size, name = struct.unpack_from(">I4s", data, at)
        begin = 8
        if size == 1 and len(data) - at >= 16:
            size, begin = struct.unpack_from(">Q", data, at + 8)[0], 16
        if size < begin or at + size > len(data) or not _is_name(name):
            breaks.add(len(data) - at)
            return
        yield name, data[at + begin : at + size]
        at += size


def _is_name(name: bytes) -> bool:
    """Return whether four bytes may be a name: letters of Latin-1, as in those of Apple."""
    return all(32 <= byte < 127 or byte >= 160 for byte in name)

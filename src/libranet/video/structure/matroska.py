"""Matroska and WebM: elements with an identifier and a size, inside of each other.

The silent loss: behind a damaged size or identifier FFmpeg goes on at the next cluster, and a block of an unknown track
is left out. The header's duration shows it only where seconds are lost at the end.
"""

import re
from dataclasses import dataclass

from libranet.video.structure.breaks import Breaks, FileBytes

_HEADER, _SEGMENT, _CLUSTER, _TRACKS = 0x1A45DFA3, 0x18538067, 0x1F43B675, 0x1654AE6B
_VOID, _CRC = 0xEC, 0xBF
_SIMPLE_BLOCK, _BLOCK_GROUP, _BLOCK = 0xA3, 0xA0, 0xA1
_TRACK_ENTRY, _TRACK_NUMBER, _TRACK_TYPE, _IS_VIDEO = 0xAE, 0xD7, 0x83, 1
_TOP = {_CLUSTER, _TRACKS, 0x114D9B74, 0x1549A966, 0x1C53BB6B, 0x1941A469, 0x1043A770, 0x1254C367, _VOID, _CRC}
"""Children of a segment: cluster, tracks, seek head, info, cues, attachments, chapters, tags."""
_NUMBERS = {0xE7, 0xA7, 0xAB, _CRC}
"""Timestamp, position, size of the cluster before, checksum: at most eight bytes. A longer one was a block once."""
_IN_CLUSTER = {_SIMPLE_BLOCK, _BLOCK_GROUP, 0x5854, _VOID, *_NUMBERS}
"""Block, group, silent tracks, and the numbers."""
_ANY_TOP = re.compile(
    b"|".join(re.escape(ident.to_bytes(4, "big")) for ident in sorted(_TOP | {_SEGMENT}) if ident > 0xFFFFFF)
)


@dataclass(frozen=True)
class _Element:
    ident: int
    content: int
    """Where the content begins."""
    end: int | None
    """Where it ends; None where the file does not say, as in live recordings."""


def walk_matroska(file: FileBytes, breaks: Breaks) -> None:
    """Follow the elements of a file down to its blocks."""
    _Walk(file, breaks).run()


class _Walk:
    def __init__(self, file: FileBytes, breaks: Breaks) -> None:
        self._file, self._breaks = file, breaks
        self._tracks: set[int] = set()
        self._video: int | None = None
        """Number of the first video track."""

    def run(self) -> None:
        at = 0
        while at < self._file.size:
            found = self._element(at)
            if found is not None and found.ident in (_HEADER, _VOID) and found.end is not None:
                at = found.end
            elif found is not None and found.ident == _SEGMENT:
                end = self._file.size if found.end is None else found.end
                self._breaks.cut |= end > self._file.size
                at = self._segment(found.content, min(end, self._file.size))
            elif (further := self._file.find(_ANY_TOP, at)) is None:
                return  # what other programs append after the end
            else:
                self._breaks.add(further - at)
                at = self._segment(further, self._file.size)

    def _element(self, at: int) -> _Element | None:
        head = self._file.read(at, 12)
        if len(head) < 2 or head[0] < 0x10:  # an identifier has at most four bytes
            return None
        length = 9 - head[0].bit_length()
        ident = int.from_bytes(head[:length], "big")
        if len(head) <= length or head[length] == 0:
            return None
        digits = 9 - head[length].bit_length()
        value = int.from_bytes(head[length : length + digits], "big") & ((1 << (7 * digits)) - 1)
        content = at + length + digits
        if ident in _NUMBERS and value > 8:
            return None
        return _Element(ident, content, None if value == (1 << (7 * digits)) - 1 else content + value)

    def _segment(self, at: int, end: int) -> int:
        while at < end:
            found = self._element(at)
            if found is not None and found.ident in (_HEADER, _SEGMENT):
                return at  # another recording, appended to one without a size
            if found is None or found.ident not in _TOP or (found.end is None and found.ident != _CLUSTER):
                at = self._resume(at, end)
            elif found.ident == _CLUSTER:
                at = self._cluster(found, end)
            else:
                assert found.end is not None
                if found.end > end:
                    self._breaks.cut = True
                    return end
                if found.ident == _TRACKS:
                    self._read_tracks(found)
                at = found.end
        return at

    def _cluster(self, cluster: _Element, limit: int) -> int:
        """Follow the blocks of a cluster. Return where the next element of the segment begins."""
        end = limit if cluster.end is None else min(cluster.end, limit)
        if cluster.end is not None and cluster.end > limit:
            self._breaks.cut = True
        at = cluster.content
        while at < end:
            found = self._element(at)
            if found is not None and found.ident in _IN_CLUSTER and found.end is not None and found.end <= end:
                if self._tracks and found.ident in (_SIMPLE_BLOCK, _BLOCK_GROUP):
                    self._count(self._track_of(found))
                at = found.end
            elif found is not None and cluster.end is None and found.ident in _TOP | {_HEADER, _SEGMENT}:
                return at
            elif end == limit and found is not None and found.ident in _IN_CLUSTER and found.end is not None:
                self._breaks.cut = True
                return limit
            else:
                return self._resume(at, limit)
        return at

    def _resume(self, at: int, end: int) -> int:
        """Count bytes that belong to no element, and return where one begins again."""
        further = self._file.find(_ANY_TOP, at + 1, end)
        stop = end if further is None else further
        self._breaks.add(stop - at)
        return stop

    def _read_tracks(self, tracks: _Element) -> None:
        assert tracks.end is not None
        for entry in self._children(tracks):
            if entry.ident != _TRACK_ENTRY:
                continue
            values = {
                child.ident: int.from_bytes(self._file.read(child.content, child.end - child.content), "big")
                for child in self._children(entry)
                if child.ident in (_TRACK_NUMBER, _TRACK_TYPE) and child.end is not None
            }
            number = values.get(_TRACK_NUMBER, 0)
            self._tracks.add(number)
            if values.get(_TRACK_TYPE) == _IS_VIDEO and self._video is None:
                self._video, self._breaks.video_packets = number, 0

    def _children(self, parent: _Element) -> list[_Element]:
        found, at = [], parent.content
        while parent.end is not None and at < parent.end:
            child = self._element(at)
            if child is None or child.end is None or child.end > parent.end:
                self._breaks.add(parent.end - at)
                break
            found.append(child)
            at = child.end
        return found

    def _count(self, track: int) -> None:
        self._breaks.strays += track not in self._tracks
        if track == self._video and self._breaks.video_packets is not None:
            self._breaks.video_packets += 1

    def _track_of(self, block: _Element) -> int:
        """Return the number of a block's track, or -1."""
        if block.ident == _BLOCK_GROUP:
            inner = [child for child in self._children(block) if child.ident == _BLOCK]
            if not inner:
                return -1
            block = inner[0]
        head = self._file.read(block.content, 8)
        if not head or head[0] == 0:
            return -1
        digits = 9 - head[0].bit_length()
        return int.from_bytes(head[:digits], "big") & ((1 << (7 * digits)) - 1)

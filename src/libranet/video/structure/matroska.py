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
_TOP = {_HEADER, _SEGMENT, _CLUSTER, _TRACKS, 0x114D9B74, 0x1549A966, 0x1C53BB6B, 0x1941A469, 0x1043A770, 0x1254C367}
"""File and segment, and children of a segment: cluster, tracks, seek head, info, cues, attachments, chapters, tags."""
_NUMBERS = {0xE7, 0xA7, 0xAB, _CRC}
"""Timestamp, position, size of the cluster before, checksum: at most eight bytes. A longer one was a block once."""
_KNOWN = {_SIMPLE_BLOCK, _BLOCK_GROUP, 0x5854, _VOID, *_NUMBERS, *_TOP}
"""Also blocks, groups and silent tracks, which are inside of clusters."""
_ANY_TOP = re.compile(b"|".join(re.escape(ident.to_bytes(4, "big")) for ident in sorted(_TOP)))


@dataclass(frozen=True)
class _Element:
    ident: int
    content: int
    """Where the content begins."""
    end: int | None
    """Where it ends; None where the file does not say, as in live recordings."""


def walk_matroska(file: FileBytes, breaks: Breaks) -> None:
    """Follow the elements of a file down to its blocks.

    Segments and clusters are entered, and their own ends do not matter: where one is wrong, FFmpeg leaves blocks out,
    and there are more of them than packets.
    """
    tracks = set[int]()
    video: int | None = None
    at = segment_end = 0
    while at < file.size:
        found = _element(file, at)
        if found is not None and found.ident in (_SEGMENT, _CLUSTER):
            if found.ident == _SEGMENT:
                segment_end = file.size if found.end is None else found.end
            breaks.cut |= found.end is not None and found.end > file.size
            at = found.content
        elif found is None or found.ident not in _KNOWN or found.end is None:
            further = file.find(_ANY_TOP, at + 1)
            if further is None and at >= segment_end:
                return  # what other programs append
            stop = file.size if further is None else further
            breaks.add(stop - at)
            at = stop
        elif found.end > file.size:
            breaks.cut = True
            return
        else:
            if found.ident == _TRACKS:
                tracks, video = _read_tracks(file, found, breaks)
                breaks.video_packets = None if video is None else breaks.video_packets or 0
            elif tracks and found.ident in (_SIMPLE_BLOCK, _BLOCK_GROUP):
                track = _track_of(file, found, breaks)
                breaks.strays += track not in tracks
                if track == video and breaks.video_packets is not None:
                    breaks.video_packets += 1
            at = found.end


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number whose first bit that is set says how many bytes it has, without that bit, and its bytes."""
    size = 9 - data[at].bit_length()
    return int.from_bytes(data[at : at + size], "big") & ((1 << (7 * size)) - 1), size


def _element(file: FileBytes, at: int) -> _Element | None:
    head = file.read(at, 12)
    if len(head) < 2 or head[0] < 0x10:  # an identifier has at most four bytes
        return None
    length = 9 - head[0].bit_length()
    ident = int.from_bytes(head[:length], "big")
    if len(head) <= length or head[length] == 0:
        return None
    value, digits = _number(head, length)
    content = at + length + digits
    if ident in _NUMBERS and value > 8:
        return None
    return _Element(ident, content, None if value == (1 << (7 * digits)) - 1 else content + value)


def _children(file: FileBytes, parent: _Element, breaks: Breaks) -> list[_Element]:
    found, at = [], parent.content
    while parent.end is not None and at < parent.end:
        child = _element(file, at)
        if child is None or child.end is None or child.end > parent.end:
            breaks.add(parent.end - at)
            break
        found.append(child)
        at = child.end
    return found


def _read_tracks(file: FileBytes, parent: _Element, breaks: Breaks) -> tuple[set[int], int | None]:
    """Return the numbers of all tracks, and that of the first video."""
    kinds: dict[int, int] = {}
    for entry in _children(file, parent, breaks):
        if entry.ident == _TRACK_ENTRY:
            values = {
                child.ident: int.from_bytes(file.read(child.content, child.end - child.content), "big")
                for child in _children(file, entry, breaks)
                if child.ident in (_TRACK_NUMBER, _TRACK_TYPE) and child.end is not None
            }
            kinds.setdefault(values.get(_TRACK_NUMBER, 0), values.get(_TRACK_TYPE, 0))
    return set(kinds), next((number for number, kind in kinds.items() if kind == _IS_VIDEO), None)


def _track_of(file: FileBytes, block: _Element, breaks: Breaks) -> int:
    """Return the number of a block's track, or -1."""
    if block.ident == _BLOCK_GROUP:
        inner = [child for child in _children(file, block, breaks) if child.ident == _BLOCK]
        if not inner:
            return -1
        block = inner[0]
    head = file.read(block.content, 8)
    return _number(head, 0)[0] if head and head[0] else -1

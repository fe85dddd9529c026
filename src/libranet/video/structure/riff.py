"""AVI: chunks with four letters and a size, in lists.

The silent loss: FFmpeg searches for the next chunk that looks like a frame, and numbers frames as they come, so that
the times behind a lost one are wrong, too.
"""

import re
import struct

from libranet.video.structure.breaks import Breaks, FileBytes

_NAME = re.compile(rb"[0-9A-Za-z][0-9A-Za-z_ ]{3}")
_CHUNK = re.compile(rb"(?:\d\d(?:dc|db|wb|pc|tx|sb)|ix\d\d|idx1|LIST|RIFF)")
_FRAMES = re.compile(rb"LIST....movi", re.DOTALL)
_HEAD = 8
_UNKNOWN = (0, 0xFFFFFFFF)
"""Sizes that programs write before they know them."""


def walk_riff(file: FileBytes, breaks: Breaks) -> None:
    """Follow the chunks of the file, and those of its lists of frames."""
    at = 0
    while at < file.size:
        head = file.read(at, 12)
        if head[:4] != b"RIFF" or len(head) < 12:
            if file.find(_CHUNK, at) is not None:
                breaks.add(file.size - at)
            return  # what other programs append
        size = struct.unpack("<I", head[4:8])[0]
        end = at + _HEAD + size + size % 2
        if size in _UNKNOWN or end > file.size:
            # Without a size, a recording was not finished. With one, it was, and the file was cut afterwards.
            breaks.cut |= size not in _UNKNOWN and end > file.size + 1
            end = file.size
        if file.find(_FRAMES, at, end) is None:
            breaks.add(end - at)  # its list of frames has lost its name, and FFmpeg looks for frames as best it can
        at = _chunks(file, breaks, at + 12, end)


def _chunks(file: FileBytes, breaks: Breaks, at: int, end: int) -> int:
    while at < end:
        head = file.read(at, 12)
        if len(head) >= _HEAD and not _NAME.fullmatch(head[:4]) and _NAME.fullmatch(file.read(at - 1, 4)):
            at -= 1  # some programs do not fill up odd sizes
            head = file.read(at, 12)
        if len(head) < _HEAD:
            breaks.cut |= len(head) > 1
            return file.size
        if head[:4] == b"RIFF":
            return at
        size = struct.unpack("<I", head[4:8])[0]
        if head[:4] == b"LIST" and head[8:12] in (b"movi", b"rec ") and (size == 0 or at + _HEAD + size > file.size):
            at += 12  # not finished: up to the end
            continue
        if not _NAME.fullmatch(head[:4]) or at + _HEAD + size > max(end, file.size):
            if at + _HEAD + size > file.size and _CHUNK.fullmatch(head[:4]):
                breaks.cut = True
                return file.size
            further = file.find(_CHUNK, at + 1)
            stop = file.size if further is None else further
            if not file.only_zeros(at):
                breaks.add(stop - at)
            at = stop
            continue
        if head[:4] == b"LIST" and head[8:12] in (b"movi", b"rec "):
            at = _chunks(file, breaks, at + 12, at + _HEAD + size)
            at += at % 2
            continue
        at += _HEAD + size + size % 2
    return at

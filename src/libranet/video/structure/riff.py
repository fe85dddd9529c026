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
    """Follow the chunks of the file. Its lists of frames are entered, and their own ends do not matter."""
    at = riff_end = 0
    while at < file.size:
        head = file.read(at, 12)
        if at and len(head) >= _HEAD and not _NAME.fullmatch(head[:4]) and _NAME.fullmatch(file.read(at - 1, 4)):
            at -= 1  # some programs do not fill up odd sizes
            head = file.read(at, 12)
        if at >= riff_end and head[:4] != b"RIFF":
            if file.find(_CHUNK, at) is not None:
                breaks.add(file.size - at)
            return  # what other programs append
        if len(head) < _HEAD:
            breaks.cut |= len(head) > 1
            return
        name, size = head[:4], struct.unpack("<I", head[4:8])[0]
        end = at + _HEAD + size + size % 2
        if name == b"RIFF":
            # Without a size, a recording was not finished. With one, it was, and the file was cut afterwards.
            breaks.cut |= size not in _UNKNOWN and end > file.size + 1
            riff_end = file.size if size in _UNKNOWN else min(end, file.size)
            if file.find(_FRAMES, at, riff_end) is None:
                breaks.add(riff_end - at)  # the list of frames lost its name; FFmpeg looks for frames as best it can
            at += 12
        elif name == b"LIST" and head[8:] in (b"movi", b"rec "):
            at += 12
        elif _NAME.fullmatch(name) and at + _HEAD + size <= file.size:
            at = end
        elif _CHUNK.fullmatch(name):
            breaks.cut = True
            return
        else:
            further = file.find(_CHUNK, at + 1)
            stop = file.size if further is None else further
            if not file.only_zeros(at):
                breaks.add(stop - at)
            at = stop

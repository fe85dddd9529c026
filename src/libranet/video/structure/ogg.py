"""Ogg: pages with a number of their own in each stream.

The silent loss: FFmpeg drops a page whose checksum is wrong, with all frames and sound in it.
"""

import re
import struct

from libranet.video.structure.breaks import Breaks, FileBytes, is_sound

_PAGE = re.compile(rb"OggS")
_HEAD = struct.Struct("<4sBBqIIIB")
_CONTINUED, _FIRST = 1, 2
_CHECKSUM = 22
"""Where the checksum of a page stands. It counts as zero in its own sum."""


def walk_ogg(file: FileBytes, breaks: Breaks) -> None:
    """Follow the pages and their numbers."""
    at, last = 0, dict[int, int]()
    while at < file.size:
        head = file.read(at, _HEAD.size + 255)
        if not head.startswith(b"OggS"):
            further = file.find(_PAGE, at)
            stop = file.size if further is None else further
            if not file.only_zeros(at):
                breaks.add(stop - at)
            at = stop
            continue
        if len(head) < _HEAD.size:
            breaks.cut = True
            return
        _, _, flags, _, serial, number, _, pieces = _HEAD.unpack_from(head)
        if serial in last and not flags & _FIRST and number != last[serial] + 1:
            breaks.gaps += 1
        last[serial] = number
        size = _HEAD.size + pieces + sum(head[_HEAD.size : _HEAD.size + pieces])
        page = file.read(at, size)
        if len(page) == size and not is_sound(
            page[:_CHECKSUM] + bytes(4) + page[_HEAD.size - 1 :] + head[_CHECKSUM : _CHECKSUM + 4][::-1]
        ):
            breaks.add(size)  # readers pass over such a page
        at += size
    breaks.cut |= at > file.size

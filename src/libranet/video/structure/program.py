"""MPEG program streams (.mpg, .vob): packs and packets, each with a start code and most with a length.

The silent loss: FFmpeg looks for the next start code. Sound that was in between is gone, and MPEG-2 decoders fill up
frames that lack a piece.
"""

import re

from libranet.video.structure.breaks import Breaks, FileBytes

_CODE = re.compile(rb"\x00\x00\x01[\xb9-\xff]")
_END, _PACK = 0xB9, 0xBA
_MPEG2 = 1
"""First two bits behind the start code of a pack. That of MPEG-1 has no filling."""
_LONGEST = 1 << 16


def walk_program(file: FileBytes, breaks: Breaks) -> None:
    """Follow packs and packets."""
    at = file.find(_CODE, 0, 1 << 16)
    while at is not None and at < file.size:
        head = file.read(at, 14)
        if not _CODE.match(head):
            further = file.find(_CODE, at)
            stop = file.size if further is None else further
            if any(file.read(at, min(stop - at, _LONGEST))):  # zeros fill up sectors
                breaks.add(stop - at)
            at = further
        elif head[3] == _END:
            at += 4
        elif head[3] == _PACK:
            at += 14 + (head[13] & 7) if len(head) == 14 and head[4] >> 6 == _MPEG2 else 12
        else:
            at += 6 + int.from_bytes(head[4:6], "big")
    breaks.cut |= at is not None and at > file.size

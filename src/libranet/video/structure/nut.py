"""NUT: packets with a start code, a length and a checksum; frames between them, whose size stands in their header.

The silent loss: behind a header that it cannot read, FFmpeg goes on at the next start code that it likes, or ends.
The frames themselves need not be followed: what lies between two that came must be packets of headers and of the index.
"""

import re
from collections.abc import Sequence

from libranet.video.decoding import LONGEST_NUT_HEAD
from libranet.video.structure.breaks import Breaks, FileBytes, is_sound

_NAME = b"nut/multimedia container\0"
_INDEX = b"NX\xdd\x67\x2f\x23\xe6\x4e"
_CODES = b"NM\x7a\x56\x1f\x5f\x04\xad", b"NS\x11\x40\x5b\xf2\xf9\xdb", b"NK\xe4\xad\xee\xca\x45\x69", _INDEX
_START = re.compile(b"|".join(re.escape(code) for code in (*_CODES, b"NI\xab\x68\xb5\x96\xba\x78")))
_MOST_ELIDED = 16
_LONG = 4096
"""A packet longer than this has a checksum of its header."""


def walk_nut(file: FileBytes, breaks: Breaks, gaps: Sequence[tuple[int, int]]) -> None:
    """Follow the packets in the gaps between frames; the last gap goes to the end of the file.

    Without gaps nothing was read, and all of the file is unknown. A file ends with its index or its headers, not with a
    frame: FFmpeg gives a frame that is cut off without a mark.
    """
    for begin, end in gaps or [(0, file.size)]:
        # The first bytes of a frame may be left out of the file, so a frame may seem to end too late.
        at = len(_NAME) if begin == 0 else file.find(_START, begin - _MOST_ELIDED, begin + 8) or begin
        breaks.cut |= at >= file.size
        while at < end:
            is_packet, size = _START.match(file.read(at, 8)), _packet_size(file, at)
            if size is None and not is_packet and end < file.size and end - at <= LONGEST_NUT_HEAD:
                break  # the head of a frame
            if size is None:
                breaks.add(end - at)
                break
            at, code = at + size, file.read(at, 8)
            breaks.cut |= at > file.size
            if code == _INDEX:
                break  # other programs may append to it


def _packet_size(file: FileBytes, at: int) -> int | None:
    """Return the bytes of a packet, also where the file ends before it does; None where its checksum is wrong."""
    head = file.read(at, LONGEST_NUT_HEAD)
    if not _START.match(head):
        return None
    size, begin = 0, 8
    while begin < len(head):
        size, begin = size << 7 | head[begin] & 0x7F, begin + 1
        if head[begin - 1] < 0x80:
            break
    if size > _LONG:
        begin += 4
        if not is_sound(head[:begin]):
            return None
    whole = at + begin + size <= file.size
    return begin + size if not whole or is_sound(file.read(at + begin, size)) else None

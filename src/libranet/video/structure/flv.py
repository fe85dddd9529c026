"""FLV: tags, one after another, each with its size before it and again behind it.

The silent loss: where the two sizes differ, or a tag names another codec, FFmpeg leaves out the tag, and all up to the
next one that it finds.
"""

import re
import struct

from libranet.video.structure.breaks import Breaks, FileBytes

_FLV_TAGS = (8, 9, 18)
"""Sound, video, script."""
_FLV_VIDEO, _FLV_COMMAND = 9, 5
_FLV_PACKETS = {7: (1, 5), 12: (1, 5)}
"""H.264 and HEVC: what the second byte of a frame is, and the size of its header."""


def walk_flv(file: FileBytes, breaks: Breaks) -> None:
    """Follow the tags."""
    at = struct.unpack(">I", file.read(5, 4).rjust(4, b"\0"))[0] + 4
    if not 13 <= at < file.size:
        at = 13
    codec: int | bytes | None = None
    exact = 0
    """Tags so far whose size stood behind them as well. Some programs write something else there, in every tag."""
    while at < file.size:
        head = file.read(at, 11)
        if len(head) < 11:
            breaks.cut |= not file.only_zeros(at)
            return
        size = int.from_bytes(head[1:4], "big")
        again = file.read(at + 11 + size, 4) == struct.pack(">I", size + 11)
        known = head[0] & 0x1F in _FLV_TAGS and head[8:11] == b"\0\0\0"
        if known and at + 11 + size + (4 if exact else 0) > file.size:
            breaks.cut = True
            return
        if not known or (exact > 2 and not again):
            further = _next_flv_tag(file, at + 1)
            if known or not file.only_zeros(at):
                breaks.add(further - at)
            at = further
            continue
        if head[0] == _FLV_VIDEO and size:
            codec = _count_flv_video(file.read(at + 11, 5), size, codec, breaks)
        exact += again
        at += 15 + size


def _count_flv_video(head: bytes, size: int, codec: int | bytes | None, breaks: Breaks) -> int | bytes | None:
    """Count a tag of the video, which has one codec from its beginning to its end. Return that codec."""
    kind, named = head[0] >> 4 & 7, bool(head[0] & 0x80)
    if kind == _FLV_COMMAND:
        return codec
    own: int | bytes = head[1:5] if named else head[0] & 0x0F
    if codec is None:
        codec, breaks.video_packets = own, 0
    if own != codec:
        breaks.strays += 1
    elif not named:
        packet, header = _FLV_PACKETS.get(head[0] & 0x0F, (head[1] if len(head) > 1 else 0, 1))
        breaks.video_packets = (breaks.video_packets or 0) + (size > header and head[1] == packet)
    return codec


def _next_flv_tag(file: FileBytes, at: int) -> int:
    """Return where a tag begins whose size stands behind it, too."""
    pattern = re.compile(rb"[\x08\x09\x12].{7}\0\0\0", re.DOTALL)
    while (found := file.find(pattern, at)) is not None:
        size = int.from_bytes(file.read(found + 1, 3), "big")
        if file.read(found + 11 + size, 4) == struct.pack(">I", size + 11):
            return found
        at = found + 1
    return file.size

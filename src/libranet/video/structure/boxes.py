"""MP4 and QuickTime: boxes with a size and four letters."""

import struct

from libranet.video.structure.breaks import Breaks, FileBytes


def walk_boxes(file: FileBytes, breaks: Breaks) -> None:
    """Follow the boxes of the file. Those inside of them are the business of FFmpeg, which refuses broken ones."""
    at = 0
    while at < file.size:
        head = file.read(at, 16)
        if len(head) < 8 or not head[4:8].isalnum():
            if not (head[4:8].strip(b" ").isalnum() or file.only_zeros(at)):
                breaks.add(file.size - at)
                return
            if file.only_zeros(at):
                return
        size = struct.unpack(">I", head[:4])[0]
        if size == 1 and len(head) == 16:
            size = struct.unpack(">Q", head[8:])[0]
        if size == 0:  # to the end of the file
            return
        if size < 8:
            breaks.add(file.size - at)
            return
        at += size
    breaks.cut |= at > file.size

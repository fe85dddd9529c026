"""MXF: a key of sixteen bytes, a length, a value."""

import re

from libranet.video.structure.breaks import Breaks, FileBytes

_KEY = re.compile(rb"\x06\x0e\x2b\x34")


def walk_mxf(file: FileBytes, breaks: Breaks) -> None:
    """Follow keys and lengths."""
    at = file.find(_KEY, 0, 1 << 16)
    while at is not None and at < file.size:
        head = file.read(at, 25)
        if not _KEY.match(head):
            further = file.find(_KEY, at)
            breaks.add((file.size if further is None else further) - at)
            at = further
            continue
        size, digits = head[16] if len(head) > 16 else 0, 1
        if size > 0x80:
            digits += size & 0x7F
            size = int.from_bytes(head[17 : 16 + digits], "big")
        at += 16 + digits + size
        breaks.cut |= at > file.size

"""MXF: a key of sixteen bytes, a length, a value.

The silent loss: FFmpeg passes over keys that it does not know, also over a frame whose key has one wrong byte.
"""

import re
from collections import Counter

from libranet.video.structure.breaks import Breaks, FileBytes

_KEY = re.compile(rb"\x06\x0e\x2b\x34")
_ESSENCE = bytes.fromhex("060e2b34010201010d010301")
"""Beginning of the keys of frames and sound."""
_MANY = 3
_MOST_KEYS = 1000


def walk_mxf(file: FileBytes, breaks: Breaks) -> None:
    """Follow keys and lengths."""
    at = file.find(_KEY, 0, 1 << 16)
    keys = Counter[bytes]()
    while at is not None and at < file.size:
        head = file.read(at, 25)
        if not _KEY.match(head):
            further = file.find(_KEY, at)
            breaks.add((file.size if further is None else further) - at)
            at = further
            continue
        if len(keys) < _MOST_KEYS:
            keys[head[:16]] += 1
        size, digits = head[16] if len(head) > 16 else 0, 1
        if size > 0x80:
            digits += size & 0x7F
            size = int.from_bytes(head[17 : 16 + digits], "big")
        at += 16 + digits + size
        breaks.cut |= at > file.size
    breaks.strays += sum(count == 1 and _is_misspelt(key, keys) for key, count in keys.items())


def _is_misspelt(key: bytes, keys: Counter[bytes]) -> bool:
    """Return whether a key differs in one byte from that of many frames. Readers pass over unknown keys."""
    many = (other for other, count in keys.items() if count >= _MANY and other.startswith(_ESSENCE))
    return any(sum(a != b for a, b in zip(key, other, strict=False)) == 1 for other in many)

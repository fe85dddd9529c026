"""Settings of glibc's allocator for the large short-lived arrays of a video run. Without glibc they do nothing.

Every frame allocates and frees the same hundred arrays of 1 to 250 MB. By default, glibc asks the system for the large
ones each time, and the system clears every page of them. Kept on the heap, they are ready for the next frame.

This earns its place by measurement (research/lab-notes.md, run 11): together with the reused arrays of `FrameRestorer`,
a frame of 3840x2160 on one CPU thread takes 3.9 s instead of 7.0 s, and one of 1920x1080 1.04 s instead of 1.34 s.
"""

import ctypes
import sys
from functools import cache

LARGEST = 512 << 20
"""Bytes up to which a freed array is kept. The largest arrays of a 3840x2160 frame have 253 MB."""
LARGEST_BEFORE = 32 << 20  # the largest value that older versions of glibc accept
RETURN_SECONDS = 30.0
"""Seconds between two calls of `return_free_memory`. The heap settles at a size that is partly chance; this lets it
settle again. Getting the pages back takes 0.1 s at 1080p.
"""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_MOST = 2**31 - 1


def keep_large_arrays() -> None:
    """Keep freed arrays in the process from now on. Call it at the beginning of a run; the setting stays."""
    if (libc := glibc()) is not None:
        if not libc.mallopt(_M_MMAP_THRESHOLD, LARGEST):
            libc.mallopt(_M_MMAP_THRESHOLD, LARGEST_BEFORE)
        libc.mallopt(_M_TRIM_THRESHOLD, _MOST)


def return_free_memory() -> None:
    """Return unused memory to the system. Call it rarely: the next frame has to get its pages again."""
    if (libc := glibc()) is not None:
        libc.malloc_trim(0)


@cache
def glibc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "gnu_get_libc_version") else None  # musl has none

"""Settings of the C library's allocator for the large short-lived arrays of a video run. Without glibc they do nothing.

Every frame takes and frees the same hundred arrays of 1 to 250 MB. Left to itself, glibc asks the system for the large
ones each time, and the system clears every page of them; kept on the heap, they are there for the next frame.
"""

import ctypes
import sys
from functools import cache

LARGEST = 512 << 20
"""Bytes up to which an array is kept for the next one: the largest of a frame of 3840x2160 have 253 MB."""
LARGEST_BEFORE = 32 << 20
"""What older versions of glibc take at most."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_MOST = 2**31 - 1


def keep_large_arrays() -> None:
    """From now on, freed arrays stay with the process. It lasts, so the beginning of a run calls it."""
    if (libc := _glibc()) is not None:
        if not libc.mallopt(_M_MMAP_THRESHOLD, LARGEST):
            libc.mallopt(_M_MMAP_THRESHOLD, LARGEST_BEFORE)
        libc.mallopt(_M_TRIM_THRESHOLD, _MOST)


def return_free_memory() -> None:
    """Give the system back what is kept and not in use. The next frame has to ask for its pages again: rarely, then."""
    if (libc := _glibc()) is not None:
        libc.malloc_trim(0)


@cache
def _glibc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "gnu_get_libc_version") else None  # musl has none

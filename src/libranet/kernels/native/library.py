"""Find the C library of the CPU kernels, and call it at the best level of instructions that this CPU has."""

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from libranet.errors import MissingDependencyError

LEVELS = ("avx512bf16", "avx512", "avx2", "portable")
"""What kernels are compiled for, best first. `portable` needs nothing beyond the architecture, so NEON is in it."""
LIBRARY = "libranet_kernels"  # the file's name, without the system's ending
REMEDY = "install a C compiler (gcc or clang), then install libranet again from its source"


@cache
def open_library() -> ctypes.CDLL | str:
    """The library, or in one sentence why there is none."""
    file = next(iter(sorted(Path(__file__).parent.glob(f"{LIBRARY}.*"))), None)
    if file is None:
        return f"this installation was built without a C compiler and has no CPU kernels: {REMEDY}"
    try:
        return ctypes.CDLL(str(file))
    except OSError as error:
        return f"the CPU kernels were built for another machine ({error}): {REMEDY}"


def why_no_library() -> str | None:
    """Say in one sentence why there are no kernels here, or None."""
    found = open_library()
    return found if isinstance(found, str) else None


@cache
def levels() -> tuple[str, ...]:
    """The levels that the library has and this CPU runs, best first; empty without the library."""
    library = open_library()
    if isinstance(library, str):
        return ()
    return tuple(
        name
        for name in LEVELS
        if hasattr(library, f"convolve_{name}") and library.libranet_supports(ctypes.c_char_p(name.encode()))
    )


def level() -> str | None:
    """The level at which kernels run; None without the library."""
    return next(iter(levels()), None)


def has_bfloat16() -> bool:
    """Whether kernels may store numbers in bfloat16."""
    return level() == LEVELS[0]


_LENT = threading.local()


@contextmanager
def torch_threads() -> Iterator[None]:
    """Give torch's threads to the kernels; torch computes on one meanwhile.

    What torch has to do between kernels is small, and after each operation its threads keep their cores busy for
    milliseconds, waiting for the next: the kernels and the codecs want those cores.
    """
    if hasattr(_LENT, "count"):  # already, by a caller
        yield
        return
    _LENT.count = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(_LENT.count)
        del _LENT.count


def thread_count() -> int:
    return getattr(_LENT, "count", None) or torch.get_num_threads()


def call(name: str, *arguments: np.ndarray | ctypes.Structure | float | None) -> None:
    """Call a kernel.

    Args:
        name: Without its level.
        arguments: Contiguous arrays and structures, which go as addresses; whole numbers as 64 bits, others as floats.
    """
    _function(name, level())(ctypes.c_int64(thread_count()), *map(_convert, arguments))


@cache
def _function(name: str, level: str | None) -> Any:
    library = open_library()
    if isinstance(library, str):
        raise MissingDependencyError(library)
    function = getattr(library, f"{name}_{level}")
    function.restype = None
    return function


def _convert(value: np.ndarray | ctypes.Structure | float | None) -> Any:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(address(value))
    if isinstance(value, ctypes.Structure):
        return ctypes.byref(value)
    if value is None:
        return ctypes.c_void_p(None)
    return ctypes.c_float(value) if isinstance(value, float) else ctypes.c_int64(value)


def address(array: np.ndarray) -> int:
    """Where an array's numbers begin."""
    if not array.flags.c_contiguous:
        raise ValueError(f"kernels take contiguous arrays, got shape {array.shape} with strides {array.strides}")
    return array.ctypes.data

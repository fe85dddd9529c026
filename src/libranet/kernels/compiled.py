"""`compiled`: numba for the CPU kernels; code on disk counts while all of their sources are the same."""

import hashlib
import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
import torch
from numba import njit
from numba.core import event

logger = logging.getLogger(__name__)


def compiled(
    *, fastmath: bool | set[str] = False, parallel: bool = False, nogil: bool = False
) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function on its first call and keep the code on disk, as `numba.njit(cache=True)` does.

    numba takes code from disk while the file of the function itself is the same. Our kernels are made of functions of
    several files, so here the code counts only while all of these are the same.

    Args:
        fastmath: What the compiler may do with floats, as for `numba.njit`.
        parallel: Whether `prange` runs on several threads.
        nogil: Whether other Python threads run meanwhile.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher: Any = njit(fastmath=fastmath, parallel=parallel, nogil=nogil)(function)
        try:
            dispatcher.enable_caching()
        except RuntimeError:  # no folder that may be written to: compiled anew in every process
            return dispatcher
        dispatcher._cache._cache_file._source_stamp = digest_sources(Path(__file__).parent)
        return dispatcher

    return decorate


@cache
def digest_sources(folder: Path) -> str:
    """A hash of the Python files in a folder and below it, without those for GPUs."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        if path.name not in ("triton.py", "gluon.py"):
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def share_threads() -> None:
    """Let kernels run on as many threads as torch does.

    numba's first use of its threads gives as many as the CPU has cores to everything that runs by OpenMP, torch too.
    """
    threads = torch.get_num_threads()
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


@cache
def announce_compiling() -> None:
    """Log one line, once in a process, before the first of our kernels is compiled: others are loaded from disk."""
    event.register("numba:compile", _Announcement())


class _Announcement(event.Listener):
    def __init__(self) -> None:
        self._said = False

    def on_start(self, event: event.Event) -> None:
        ours = str(event.data["dispatcher"].py_func.__module__).startswith("libranet.")
        if ours and not self._said:
            self._said = True
            logger.info("compiling the kernels for this CPU and kind of frame, once: up to half a minute")

    def on_end(self, event: event.Event) -> None:
        """The frames that follow show that it is done."""

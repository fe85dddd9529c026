"""Processes that were forked after frames were restored: the threads of their parent are not there to help them."""

import os
from functools import cache

from libranet.errors import InputError


@cache
def _first_process() -> int:
    """The process that made the first backend. A forked one inherits the answer, a spawned one has its own."""
    return os.getpid()


def check_process() -> None:
    """Refuse to restore frames where OpenMP would wait for ever, or CUDA fail."""
    if _first_process() != os.getpid():
        raise InputError(
            "this process was forked from one that had a network at work, whose threads do not survive a fork: fork "
            "before the first frame, or start processes with multiprocessing.get_context('spawn')"
        )

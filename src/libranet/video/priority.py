"""Encoders run with the priority of the program that opens them."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_THREADS = Path("/proc/self/task")


@contextmanager
def kept_priority() -> Iterator[None]:
    """Take back a real-time priority that appears within.

    SVT-AV1 gives its threads, and the thread that opens it, the highest real-time priority of the system where it may,
    which is as root. Everything else on the machine then waits for it, and so does every process that is started later,
    because it inherits the priority.
    """
    if sys.platform != "linux" or os.sched_getscheduler(0) != os.SCHED_OTHER:  # real time was wanted
        yield
        return
    before = {thread.name for thread in _THREADS.iterdir()} - {str(threading.get_native_id())}
    try:
        yield
    finally:
        for name in {thread.name for thread in _THREADS.iterdir()} - before:
            with suppress(OSError):  # a thread that ended meanwhile
                if os.sched_getscheduler(int(name)) == os.SCHED_FIFO:
                    os.sched_setscheduler(int(name), os.SCHED_OTHER, os.sched_param(0))

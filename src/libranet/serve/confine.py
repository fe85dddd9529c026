"""Limits and priorities of our processes. Where the system has none (Windows), the server's own watch remains."""

import math
import os
import signal
import time
from contextlib import suppress
from pathlib import Path


def limit_address_space(extra: int) -> None:
    """Refuse memory beyond what is in use now by more than `extra` bytes."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        total = extra + (_pages(os.getpid(), 0) or 0)
        resource.setrlimit(resource.RLIMIT_AS, (total, total))


def limit_time(seconds: float) -> None:
    """End this process after so much more processor time, or twice that by the clock: others may go first.

    A process that ends so leaves no core file.
    """
    with suppress(ImportError, AttributeError, OSError, ValueError):
        import resource

        whole = math.ceil(time.process_time() + seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (whole, whole))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.setitimer(signal.ITIMER_REAL, 2 * seconds)


def lower_priority(process: int, steps: int) -> None:
    """Let others go before a process that has just begun: the server's own answers take little time and must not wait.

    The system counts priorities within a session, so the process has to be in the session of the server.
    """
    with suppress(AttributeError, OSError):
        os.setpriority(os.PRIO_PROCESS, process, os.getpriority(os.PRIO_PROCESS, 0) + steps)


def resident_bytes(process: int) -> int | None:
    """Memory that a process has in use, or None where the system does not say."""
    return _pages(process, 1)


def _pages(process: int, column: int) -> int | None:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[column]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return None

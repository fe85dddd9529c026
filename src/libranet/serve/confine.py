"""Limits that a process sets to itself. Where the system has none (Windows), the server's own watch remains."""

import math
import os
from contextlib import suppress
from pathlib import Path


def limit_address_space(extra: int) -> None:
    """Refuse memory beyond what is in use now by more than `extra` bytes."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        total = extra + (_pages(os.getpid(), 0) or 0)
        resource.setrlimit(resource.RLIMIT_AS, (total, total))


def limit_processor_time(seconds: float) -> None:
    """End this process after so much processor time, and leave no core file."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        whole = math.ceil(seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (whole, whole))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def step_back() -> None:
    """Let the server's own process go first: its answers take little time and should not wait."""
    with suppress(AttributeError, OSError):
        os.nice(10)


def resident_bytes(process: int) -> int | None:
    """Memory that a process has in use, or None where the system does not say."""
    return _pages(process, 1)


def _pages(process: int, column: int) -> int | None:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[column]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return None

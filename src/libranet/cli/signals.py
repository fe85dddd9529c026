"""SIGTERM as a request to stop: it ends a run as Ctrl-C does, with what was computed kept."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """The process was asked to end."""


@contextmanager
def stop_on_sigterm() -> Iterator[None]:
    """Raise `Terminated` in the main thread when SIGTERM comes. Elsewhere this changes nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

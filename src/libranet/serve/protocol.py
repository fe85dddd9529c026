"""The other end of `child.py`: how our processes read requests and write answers."""

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue
from typing import Any, TextIO

from libranet.errors import LibraNetError
from libranet.serve.media import without_paths


class Channel:
    """Lines of JSON on standard input and output. Whatever else prints goes to standard error."""

    def __init__(self, on_urgent: Callable[[dict[str, Any]], bool] = lambda _: False) -> None:
        """Take over the standard streams. The process ends when its input ends.

        Args:
            on_urgent: Called on the reading thread with every message; true keeps it out of the queue.
        """
        self._out: TextIO = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)
        self._lock = threading.Lock()
        self._queue: Queue[dict[str, Any]] = Queue()
        self._on_urgent = on_urgent
        threading.Thread(target=self._read, daemon=True).start()

    def send(self, message: dict[str, Any]) -> None:
        """Write one line."""
        with self._lock:
            self._out.write(json.dumps(message) + "\n")
            self._out.flush()

    def requests(self) -> Iterator[dict[str, Any]]:
        """Every request, in order."""
        while True:
            yield self._queue.get()

    def _read(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if not self._on_urgent(message):
                self._queue.put(message)
        os._exit(0)  # the server has gone; unfinished runs are safe on disk at any moment


def sentence_for_visitors(error: BaseException, path: str, name: str) -> str:
    """Say what went wrong without saying where the server keeps its files. The log gets what nobody expected."""
    if isinstance(error, LibraNetError):
        return without_paths(str(error), Path(path).parent, name) if path else str(error)
    traceback.print_exception(error, file=sys.stderr)
    if isinstance(error, MemoryError):
        return f"{name} takes more memory than the server gives to one file"
    return f"{name} could not be processed: the server's log says more"

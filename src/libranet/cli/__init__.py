"""The command line: one short file per command, each a plain function that `main.py` lists."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

EXIT_BUG = 1
EXIT_USER_ERROR = 2
EXIT_PARTIAL = 3
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import without looking for garbage: packages make a million objects that stay, which takes a tenth of a start."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # nor later, among these
        gc.enable()

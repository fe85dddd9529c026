"""A source that must stay what it is while a run reads it: frames first, then sound and everything else."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from libranet.atomic import FileMark
from libranet.errors import InputError, LibraNetError
from libranet.video.reader import SourceFrame
from libranet.video.source import Source

_EVERY = 1.0  # seconds between two looks


class SourceWatch:
    """Remembers the files of a source at the start of a run."""

    def __init__(self, source: Source) -> None:
        files = [path for _, path in source.files] or ([source.path] if source.path is not None else [])
        self._marks = {path: FileMark.of(path) for path in files}

    def check(self) -> None:
        for path, before in self._marks.items():
            now = FileMark.of(path)
            if now == before:
                continue
            if now.identity is None:
                raise InputError(
                    f"{path} was moved or deleted during the run: put it back and run the same command with --resume"
                )
            raise InputError(
                f"{path} changed during the run, so frames and sound would not belong together: "
                "run the same command again when nothing writes to it"
            )

    def frames(self, frames: Iterator[SourceFrame]) -> Iterator[SourceFrame]:
        """Yield frames, and see now and then that the source is what it was."""
        last = time.monotonic()
        with self.explaining():
            for frame in frames:
                if time.monotonic() - last > _EVERY:
                    self.check()
                    last = time.monotonic()
                yield frame

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Raise the error of a changed source in the place of one that it led to."""
        try:
            yield
        except (OSError, LibraNetError):
            self.check()
            raise

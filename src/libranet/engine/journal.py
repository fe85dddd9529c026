"""Restored frames of unfinished segments, as they went to the encoder: a stopped run loses none of them.

A segment has a fixed number of frames, so that a resumed run writes the same bytes as an uninterrupted one. On a slow
machine a segment takes minutes. The journal keeps its frames on disk until it is finished; a resumed run only encodes
them again. Fast runs write no journal: their segments take seconds.
"""

import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

import numpy as np

from libranet.video.pixels import plane_views
from libranet.video.reader import SourceFrame

KEEP_SECONDS = 5.0
"""A segment that takes longer than this is journalled."""
_TRIAL_FRAMES = 4
"""Frames before the pace of a run is known."""
_HEADER = struct.Struct("<qII")  # time of the frame, size, checksum
_PATTERN = "journal-*.frames"


class FrameJournal:
    """Writes the frames of each unfinished segment to a file, where a segment of `length` frames takes long."""

    def __init__(self, folder: Path, *, length: int) -> None:
        self._folder, self._length = folder, length
        self._file: IO[bytes] | None = None
        self._segment: int | None = None
        self._begin: float | None = None
        self._frames = 0
        self._needed = True

    def add(self, segment: int, frame: SourceFrame) -> None:
        """Keep a frame. A disk that does not take it ends the journal, not the run."""
        self._judge()
        if not self._needed:
            return
        planes = [np.ascontiguousarray(view) for view in plane_views(frame.image)]  # copies only where rows are padded
        checksum = 0
        for plane in planes:
            checksum = zlib.crc32(plane.data, checksum)
        try:
            if self._file is None or self._segment != segment:
                self.close()
                self._file, self._segment = _path(self._folder, segment).open("ab", buffering=0), segment
            self._file.write(_HEADER.pack(frame.pts, sum(plane.nbytes for plane in planes), checksum))
            for plane in planes:
                rest = plane.data.cast("B")
                while rest:  # an unbuffered file may take a part at a time
                    rest = rest[self._file.write(rest) :]
        except OSError:
            self._give_up()

    def clear(self, segment: int) -> None:
        """Forget a segment: it is finished."""
        if segment == self._segment:
            self.close()
        with suppress(OSError):
            _path(self._folder, segment).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file. What is in it stays."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None

    def _give_up(self) -> None:
        self._needed = False
        self.close()
        for path in self._folder.glob(_PATTERN):
            with suppress(OSError):
                path.unlink()

    def _judge(self) -> None:
        """Find out whether a segment takes long enough to be worth it."""
        now = time.monotonic()
        self._begin = now if self._begin is None else self._begin
        self._frames += 1
        if self._frames > _TRIAL_FRAMES and self._needed:
            pace = (now - self._begin) / (self._frames - 1)
            if pace * self._length <= KEEP_SECONDS:
                self._give_up()


def has_journal(folder: Path) -> bool:
    """Return whether a folder holds journalled frames."""
    return any(folder.glob(_PATTERN))


def journalled_frames(folder: Path, segment: int, *, length: int) -> Iterator[tuple[int, bytes]]:
    """Yield time and samples of the frames that a stopped run had restored, from the first unfinished segment on.

    A journal of fewer than `length` frames is the last one.
    """
    full = True
    while full:
        records = 0
        for record in _records(_path(folder, segment)):
            records += 1
            yield record
        full, segment = records == length, segment + 1


def _records(path: Path) -> Iterator[tuple[int, bytes]]:
    with suppress(OSError), path.open("rb") as file:
        while len(head := file.read(_HEADER.size)) == _HEADER.size:
            pts, size, checksum = _HEADER.unpack(head)
            data = file.read(size)
            if len(data) < size or zlib.crc32(data) != checksum:
                return
            yield pts, data


def _path(folder: Path, segment: int) -> Path:
    return folder / f"journal-{segment:06d}.frames"


def write_samples(views: list[np.ndarray], data: bytes) -> bool:
    """Write the samples of a journal to the planes of a frame. Return False where they do not fit."""
    if len(data) != sum(view.nbytes for view in views):
        return False
    at = 0
    for view in views:
        view[...] = np.frombuffer(data, view.dtype, view.size, at).reshape(view.shape)
        at += view.nbytes
    return True

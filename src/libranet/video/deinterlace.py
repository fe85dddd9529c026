"""Deinterlacing on request, by FFmpeg's bwdif."""

from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction

import av
import av.filter


class Deinterlacer:
    """bwdif, one frame out per frame in, timestamps kept."""

    def __init__(self, time_base: Fraction) -> None:
        self._graph = av.filter.Graph()
        self._time_base = time_base
        self._ready = False

    def push(self, frame: av.VideoFrame | None) -> list[av.VideoFrame]:
        """Take a frame, or None at the end, and return those that are ready."""
        if not self._ready:
            if frame is None:
                return []
            source = self._graph.add_buffer(
                width=frame.width, height=frame.height, format=frame.format, time_base=self._time_base
            )
            bwdif, sink = self._graph.add("bwdif", "mode=send_frame:deint=all"), self._graph.add("buffersink")
            source.link_to(bwdif)
            bwdif.link_to(sink)
            self._graph.configure()
            self._ready = True
        self._graph.push(frame)
        return list(self._ready_frames())

    def _ready_frames(self) -> Iterator[av.VideoFrame]:
        with suppress(av.BlockingIOError, av.EOFError):
            while True:
                frame = self._graph.pull()
                assert isinstance(frame, av.VideoFrame)
                yield frame

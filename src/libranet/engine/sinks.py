"""Where finished frames go: into segments of a resumable run, straight into a file, or to another program."""

import errno
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import av

from libranet.engine.allocator import return_free_memory
from libranet.engine.options import OutputError
from libranet.engine.run_folder import RunFolder, Segment
from libranet.video.encoder import EncoderSettings, open_encoder
from libranet.video.frames import SourceFrame
from libranet.video.mux import Excerpt, OutputFile
from libranet.video.packets import PacketLog

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def writing(path: Path | str, hint: str = "") -> Iterator[None]:
    """Turn the operating system's refusals into a sentence."""
    try:
        yield
    except (OSError, av.FFmpegError) as error:
        code = getattr(error, "errno", None)
        if code in _FULL:
            raise OutputError(f"the disk is full while writing {path}: free some space{hint}") from None
        if code == errno.EPIPE:
            raise OutputError(f"the program that reads {path} has gone: nothing more can be written") from None
        raise OutputError(f"cannot write {path} ({error}): choose another place{hint}") from None


class SegmentSink:
    """Encodes frames into segments of a fixed length, each with an encoder of its own.

    Because a segment depends on nothing but its own frames and the settings, a resumed run writes the same ones.
    """

    def __init__(self, folder: RunFolder, settings: EncoderSettings, *, length: int, origin: int, step: int) -> None:
        """`origin` is subtracted from every presentation time; `step` is the length of a frame that does not say."""
        self._folder, self._settings = folder, settings
        self._length, self._origin, self._step = length, origin, step
        self._encoder: av.VideoCodecContext | None = None
        self._log: PacketLog | None = None
        self._durations: dict[int, int] = {}
        self._frames = self._first = self._end = 0

    def write(self, frame: SourceFrame) -> None:
        """Encode a frame."""
        with writing(self._folder.path, " and run it again with --resume"):
            if self._encoder is None:
                self._encoder = open_encoder(self._settings)
                self._log = PacketLog(self._folder.next_segment())
                self._frames, self._first, self._durations = 0, frame.pts, {}
            image = prepare_for_encoder(frame, self._settings, self._origin)
            self._durations[frame.pts - self._origin] = frame.duration
            self._store(self._encoder.encode(image))
            self._frames += 1
            self._end = frame.pts + (frame.duration or self._step)
            if self._frames == self._length:
                self._close_segment()

    def finish(self) -> None:
        """Close the last segment."""
        with writing(self._folder.path, " and run it again with --resume"):
            if self._encoder is not None:
                self._close_segment()

    def discard(self) -> None:
        """Forget the unfinished segment."""
        if self._log is not None:
            self._log.discard()

    def _store(self, packets: list[Any]) -> None:
        assert self._log is not None
        for packet in packets:
            self._log.add(packet, self._durations.pop(packet.pts, 0))

    def _close_segment(self) -> None:
        assert self._encoder is not None
        assert self._log is not None
        self._store(self._encoder.encode(None))
        self._log.finish()
        name = self._log.path.name
        self._encoder = self._log = None
        return_free_memory()  # the next encoder's arrays may not fit where this one's were
        self._folder.add(Segment(name, self._frames, self._first, self._end))


class LiveSink:
    """Encodes straight into a container; packets of other streams may arrive from another thread."""

    def __init__(self, path: Path, settings: EncoderSettings, source: Any, excerpt: Excerpt) -> None:
        self._path, self._settings, self._excerpt = path, settings, excerpt
        self._output = OutputFile(path, settings, source)
        self._output.write_header()
        self._lock = threading.Lock()
        self._origin = round(excerpt.start / settings.time_base)
        self._delays: deque[int] = deque()
        self.left_out = tuple(self._output.left_out)

    def write(self, frame: SourceFrame) -> None:
        """Encode a frame."""
        image = prepare_for_encoder(frame, self._settings, self._origin)
        with writing(self._path):
            packets = self._output.video.encode(image)
            with self._lock:
                self._output.container.mux(packets)

    def copy(self, packet: av.Packet) -> None:
        """Pass a packet of another stream on."""
        stream = self._output.copies.get(packet.stream.index)
        if stream is None or packet.size == 0:
            return
        copied = stream.packet(packet, self._excerpt)
        if copied is not None:
            with writing(self._path), self._lock:
                self._output.container.mux(copied)

    def finish(self) -> None:
        """Drain the encoder and close the file."""
        with writing(self._path), self._lock:
            self._output.container.mux(self._output.video.encode(None))
            self._output.close()


def prepare_for_encoder(frame: SourceFrame, settings: EncoderSettings, origin: int) -> av.VideoFrame:
    """Give the frame its time in the output, and no wish of what kind of picture it should become."""
    image = frame.image
    image.pts, image.time_base = frame.pts - origin, settings.time_base
    image.pict_type = 0
    return image

"""Segments encoded side by side. Each has an encoder of its own, so their number does not change the result."""

import contextlib
import os
import queue
import threading
import time
from dataclasses import dataclass, field

import av

from libranet.engine.allocator import RETURN_SECONDS, return_free_memory
from libranet.engine.options import translate_io_errors
from libranet.engine.segments import RESUME_HINT, FrameJournal, OutputClock, RunFolder, Segment, prepare_for_encoder
from libranet.video.encoder import EncoderSettings, is_hardware, open_encoder
from libranet.video.packets import PacketLog
from libranet.video.pixels import layout_of
from libranet.video.reader import SourceFrame

CORES_PER_ENCODER = 8
"""An encoder of 4K frames keeps about this many cores busy; more cores get more encoders."""
MOST_THREADS = 24
"""Threads of one encoder: as many as x264 takes by itself on 16 cores. All encoders together have more threads than
there are cores, so that the last segment, or the only one of a short clip, has the whole machine to itself."""
SHARE_OF_MEMORY = 0.25  # of the machine's memory, for frames that wait for the other encoders
SHORT_QUEUE = 2  # frames that wait for a single encoder


def encoder_threads(settings: EncoderSettings, *, cores: int | None = None) -> int:
    """Return the threads of each encoder. They decide its bits, so they depend on the cores alone.

    Args:
        cores: Write the bits of a machine with this many cores; None for this machine.

    Returns:
        0 leaves the number to a single encoder.
    """
    here, cores = cores is None, cores or machine_cores()
    if cores < 2 * CORES_PER_ENCODER or is_hardware(settings.codec):
        if here and settings.encoder != "libx265":  # whose own choice no number can ask for again
            return 0
        return cores if settings.encoder in ("libx264", "libx264rgb", "libx265", "libsvtav1") else 0
    if settings.codec == "h264":  # x264's own rule
        return min(MOST_THREADS, cores * 3 // 2, max(1, settings.height // 32))
    return min(MOST_THREADS, cores)


def encoder_count(settings: EncoderSettings, *, length: int, most: int | None = None) -> int:
    """Return how many segments are encoded at once, with frames of all of them in a share of the memory.

    Args:
        length: Frames of a segment.
        most: The largest number, where other processes share this machine; None for as many as fit.
    """
    wanted = machine_cores() // CORES_PER_ENCODER
    if wanted < 2 or is_hardware(settings.codec):
        return 1
    layout = layout_of(settings.pixel_format)
    samples = settings.width * settings.height * (1 + (layout.colour_planes - 1) / (layout.sub_x * layout.sub_y))
    room = int(SHARE_OF_MEMORY * _memory() / (samples * layout.dtype.itemsize * length))
    return max(1, min(wanted, 1 + room, most or wanted))


def machine_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _memory() -> int:
    """Bytes of the machine's memory; a few where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 4 << 30


@dataclass
class _Worker:
    """A segment under way. Frames and their durations come through a queue; None is its end."""

    number: int
    first_pts: int
    frames: queue.Queue[tuple[av.VideoFrame, int] | None]
    count: int = 0
    end_pts: int = 0
    moved: float = 0.0
    error: BaseException | None = None
    thread: threading.Thread = field(init=False)
    log: PacketLog | None = None
    encoded: threading.Event = field(default_factory=threading.Event)
    """Its encoder is done, well or not. The file may still be on its way to the disk."""


class SegmentSink:
    """Encodes frames into segments of a fixed length, several at once.

    A segment depends only on its own frames and the settings. So a resumed run writes the same segments. They are
    recorded in order: after a crash, a segment counts only where all before it are complete.
    """

    def __init__(
        self,
        folder: RunFolder,
        settings: EncoderSettings,
        clock: OutputClock,
        *,
        length: int,
        encoders: int = 1,
        limit: int | None = None,
    ) -> None:
        """Write to a run's folder.

        Args:
            encoders: Segments that are encoded at once; frames of all of them are in memory.
            limit: Frames of a part: those behind them are look-ahead, which the next part restores, and nothing is
                journalled. None takes all.
        """
        self._folder, self._settings, self._clock, self._length = folder, settings, clock, length
        self._encoders, self._left = encoders, limit
        self._next = len(folder.segments)
        self._workers: list[_Worker] = []  # oldest first
        self._open: _Worker | None = None
        self._stop = threading.Event()
        self._journal = FrameJournal(folder.path, length=length) if limit is None else None
        self._returned = time.monotonic()

    def write(self, frame: SourceFrame, *, replayed: bool = False) -> None:
        """Take a frame. It waits where all encoders are busy. One that is `replayed` is in the journal already."""
        if self._left is not None:
            if self._left == 0:
                return
            self._left -= 1
        with translate_io_errors(self._folder.path, RESUME_HINT):
            if self._open is None:
                self._wait_for_encoder()
                self._open = self._start(frame.pts)
            worker = self._open
            if self._journal is not None and not replayed:
                self._journal.add(worker.number, frame)
            image = prepare_for_encoder(frame, self._settings, self._clock)
            self._put(worker, (image, self._clock.duration(frame)))
            worker.count += 1
            worker.end_pts, worker.moved = self._clock.end(frame), self._clock.moved
            if worker.count == self._length:
                self._put(worker, None)
                self._open = None

    def finish(self) -> None:
        """Close the last segment and wait for all of them."""
        with translate_io_errors(self._folder.path, RESUME_HINT):
            if self._open is not None:
                self._put(self._open, None)
                self._open = None
            while self._workers:
                self._record_oldest()

    def discard(self) -> None:
        """Stop. Segments that have all their frames are finished, the rest is deleted. The journal keeps its frames."""
        with contextlib.suppress(Exception):
            while self._workers and self._workers[0] is not self._open:
                self._record_oldest()
        self._stop.set()
        for worker in self._workers:
            worker.thread.join()
            if worker.log is not None:
                worker.log.discard()
        self._workers.clear()
        if self._journal is not None:
            self._journal.close()

    def _start(self, first_pts: int) -> _Worker:
        waiting = SHORT_QUEUE if self._encoders == 1 else self._length
        worker = _Worker(self._next, first_pts, queue.Queue(waiting))
        worker.thread = threading.Thread(target=self._run, args=(worker,), name=f"encode-{worker.number}", daemon=True)
        worker.thread.start()
        self._next += 1
        self._workers.append(worker)
        return worker

    def _put(self, worker: _Worker, item: tuple[av.VideoFrame, int] | None) -> None:
        while True:
            self._raise_failure()
            with contextlib.suppress(queue.Full):
                return worker.frames.put(item, timeout=0.1)

    def _wait_for_encoder(self) -> None:
        """Wait until fewer encoders than there may be are at work. Record what is on disk meanwhile."""
        while len(busy := [worker for worker in self._workers if not worker.encoded.is_set()]) >= self._encoders:
            busy[0].encoded.wait(0.1)
            self._raise_failure()
        while self._workers and not self._workers[0].thread.is_alive():
            self._record_oldest()

    def _record_oldest(self) -> None:
        worker = self._workers[0]
        while worker.thread.is_alive():
            worker.thread.join(0.1)
            self._raise_failure()
        self._raise_failure()
        self._workers.pop(0)
        name = self._folder.segment_file(worker.number).name
        self._folder.add(Segment(name, worker.count, worker.first_pts, worker.end_pts, worker.moved))
        if self._journal is not None:
            self._journal.clear(worker.number)
        if time.monotonic() - self._returned > RETURN_SECONDS:
            return_free_memory()  # the next encoder's arrays may not fit where this one's were
            self._returned = time.monotonic()

    def _raise_failure(self) -> None:
        for worker in self._workers:
            if worker.error is not None:
                raise worker.error

    def _run(self, worker: _Worker) -> None:
        try:
            encoder = open_encoder(self._settings)
            worker.log = log = PacketLog(self._folder.segment_file(worker.number))
            complete = self._encode(worker, encoder, log)
            worker.encoded.set()  # the next encoder begins while this segment goes to the disk
            if complete:
                log.finish()
                worker.log = None
        except BaseException as error:
            worker.error = error
        finally:
            worker.encoded.set()

    def _encode(self, worker: _Worker, encoder: av.VideoCodecContext, log: PacketLog) -> bool:
        """Encode one segment. Return whether it has all its frames."""
        durations: dict[int, int] = {}
        while True:
            try:
                item = worker.frames.get(timeout=0.1)
            except queue.Empty:
                if self._stop.is_set():
                    return False
                continue
            if item is not None:
                durations[item[0].pts or 0] = item[1]
            for packet in encoder.encode(item and item[0]):
                log.add(packet, durations.pop(packet.pts or 0, 0))
            if item is None or self._stop.is_set():
                return item is None

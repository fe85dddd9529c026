"""Three stages that work at the same time: decoding, the network, encoding. Bounded queues hold them together."""

import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from libranet.engine.allocator import keep_large_arrays, return_free_memory
from libranet.engine.frames import FrameRestorer
from libranet.video.frames import SizeChangeError, SourceFrame
from libranet.video.pixels import plane_views
from libranet.video.scenes import SceneCutDetector

QUEUE_FRAMES = 4
"""Frames that may wait between two stages. Together with the look-ahead, this bounds the memory of a run."""


RETURN_EVERY = 30
"""Frames between two times that free memory is given back: the heap settles at a size that is partly chance, and this
lets it settle anew. Getting the pages again takes 0.1 s at 1080p.
"""


class FrameSink(Protocol):
    """Where finished frames go."""

    def write(self, frame: SourceFrame) -> None:
        """Take the next frame."""
        ...

    def finish(self) -> None:
        """There are no more frames."""
        ...


@dataclass
class Clock:
    """Busy seconds of each stage."""

    seconds: dict[str, float] = field(default_factory=lambda: {"decode": 0.0, "network": 0.0, "encode": 0.0})

    @property
    def slowest(self) -> str:
        """The stage that the others wait for."""
        return max(self.seconds, key=lambda stage: self.seconds[stage])


@dataclass
class PipelineResult:
    """What passed through."""

    frames: int = 0
    """Frames that reached the sink."""
    cuts: int = 0
    dropped: int = 0
    """Frames of a live source that the network had no time for."""
    clock: Clock = field(default_factory=Clock)
    size_change: str = ""
    """Why reading ended early, or nothing."""


class _End:
    """The last thing in a queue: a reason to stop."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


class Stopped(Exception):  # noqa: N818
    """Another stage has ended; this one has nothing more to do."""


class _Channel:
    """A bounded queue that gives up when the run is stopped."""

    def __init__(self, stop: threading.Event) -> None:
        self._queue: queue.Queue[Any] = queue.Queue(QUEUE_FRAMES)
        self._stop = stop

    def put(self, item: Any) -> None:
        while True:
            if self._stop.is_set():
                raise Stopped
            try:
                return self._queue.put(item, timeout=0.1)
            except queue.Full:
                continue

    @property
    def full(self) -> bool:
        return self._queue.full()

    def get(self) -> Any:
        while True:
            if self._stop.is_set():
                raise Stopped
            try:
                return self._queue.get(timeout=0.1)
            except queue.Empty:
                continue


def run_pipeline(
    frames: Iterable[SourceFrame],
    restorer: FrameRestorer,
    sink: FrameSink,
    *,
    skip: int = 0,
    warm_up: int = 0,
    detect_cuts: bool = True,
    drop_late: bool = False,
    on_frame: Callable[[PipelineResult], None] | None = None,
) -> PipelineResult:
    """Carry frames through the stages until they end, or one of the stages fails.

    `skip` frames are decoded and forgotten; the next `warm_up` frames are restored, for the memory of the network, but
    not written. `drop_late` drops frames that come faster than the network takes them.
    The caller's thread runs the network; Ctrl-C there ends all stages.
    """
    keep_large_arrays()
    stop = threading.Event()
    decoded, finished = _Channel(stop), _Channel(stop)
    result = PipelineResult()
    decoder = threading.Thread(
        target=_decode,
        args=(frames, decoded, result),
        kwargs={"skip": skip, "detect_cuts": detect_cuts, "drop_late": drop_late},
        name="decode",
        daemon=True,
    )
    failures: list[BaseException] = []
    encoder = threading.Thread(
        target=_encode,
        args=(finished, restorer, sink, result, failures, stop),
        kwargs={"on_frame": on_frame},
        name="encode",
        daemon=True,
    )
    decoder.start()
    encoder.start()
    try:
        _restore(decoded, finished, restorer, result, warm_up)
        encoder.join()
    except Stopped:
        pass
    finally:
        stop.set()
        encoder.join()
        decoder.join()
    if failures:
        raise failures[0]
    return result


def _decode(
    frames: Iterable[SourceFrame],
    out: _Channel,
    result: PipelineResult,
    *,
    skip: int,
    detect_cuts: bool,
    drop_late: bool,
) -> None:
    detector = SceneCutDetector()
    end: _End = _End()
    try:
        begin = time.perf_counter()
        for index, frame in enumerate(frames):
            if index >= skip:
                cut = detect_cuts and _is_cut(detector, frame)
                result.clock.seconds["decode"] += time.perf_counter() - begin
                if drop_late and out.full:
                    result.dropped += 1
                else:
                    out.put((frame, cut))
                begin = time.perf_counter()
    except Stopped:
        return
    except BaseException as error:
        end = _End(error)
    try:
        out.put(end)
    except Stopped:
        return


def _is_cut(detector: SceneCutDetector, frame: SourceFrame) -> bool:
    name = frame.image.format.name
    luma = plane_views(frame.image)[0]  # the green plane of RGB frames serves as well
    bits = frame.image.format.components[0].bits
    return detector.is_cut(luma, (1 << bits) - 1) if not name.startswith("pal") else False


def _restore(
    decoded: _Channel, finished: _Channel, restorer: FrameRestorer, result: PipelineResult, warm_up: int
) -> None:
    drop = warm_up
    for count in itertools.count(1):
        item = decoded.get()
        begin = time.perf_counter()
        if isinstance(item, _End):
            if item.error is not None and not isinstance(item.error, SizeChangeError):
                raise item.error
            result.size_change = "" if item.error is None else str(item.error)
            ready = restorer.flush()
        else:
            frame, cut = item
            result.cuts += cut and drop == 0
            ready = restorer.push(frame, cut=cut)
        result.clock.seconds["network"] += time.perf_counter() - begin
        for finished_frame in ready:
            if drop:
                drop -= 1
            else:
                finished.put(finished_frame)
        if isinstance(item, _End):
            finished.put(item)
            return
        if count % RETURN_EVERY == 0:
            return_free_memory()


def _encode(
    finished: _Channel,
    restorer: FrameRestorer,
    sink: FrameSink,
    result: PipelineResult,
    failures: list[BaseException],
    stop: threading.Event,
    *,
    on_frame: Callable[[PipelineResult], None] | None,
) -> None:
    try:
        while True:
            item = finished.get()
            begin = time.perf_counter()
            if isinstance(item, _End):
                sink.finish()
            else:
                sink.write(restorer.pack(item))
                result.frames += 1
            result.clock.seconds["encode"] += time.perf_counter() - begin
            if isinstance(item, _End):
                return
            if on_frame is not None:
                on_frame(result)
    except Stopped:
        return
    except BaseException as error:
        failures.append(error)
        stop.set()

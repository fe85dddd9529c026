"""Three concurrent stages: decoding, the network, encoding. Bounded queues connect them."""

import queue
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

from libranet.engine.allocator import RETURN_SECONDS, keep_large_arrays, return_free_memory
from libranet.engine.restorer import FrameRestorer
from libranet.video.pixels import plane_views
from libranet.video.reader import FormatChangeError, SourceFrame
from libranet.video.shots import ShotDetector

QUEUE_FRAMES = 4
"""Frames that may wait between two stages. Together with the look-ahead, this bounds the memory of a run."""
STAGED_FRAMES = QUEUE_FRAMES + 2
"""Frames between the decoder's and the network's stage: those that wait, and one in the hands of each."""
BLOCKED_SECONDS = 2.0
"""How long a stopped run waits for the decoder."""


class FrameSink(Protocol):
    """Where finished frames go."""

    def write(self, frame: SourceFrame) -> None:
        """Take the next frame."""
        ...

    def finish(self) -> None:
        """Finish: there are no more frames."""
        ...


@dataclass
class PipelineResult:
    """Counts and times of a run so far."""

    frames: int = 0
    """Frames that reached the sink."""
    cuts: int = 0
    """Cuts found by shot detection."""
    dropped: int = 0
    """Frames of a live source that came too fast for the network."""
    seconds: dict[str, float] = field(default_factory=lambda: {"decode": 0.0, "network": 0.0, "encode": 0.0})
    """Busy time of each stage, without the start."""
    start_seconds: float = 0.0
    """Until the network's stage had taken its first frame: buffers, compiling, a first comparison."""
    format_change: str = ""
    """Why reading ended early, or nothing."""

    @property
    def slowest_stage(self) -> str:
        """The stage that the others wait for."""
        return max(self.seconds, key=lambda stage: self.seconds[stage])

    def rounded_seconds(self) -> dict[str, float]:
        """Return the busy times to three decimals, for reports."""
        return {stage: round(seconds, 3) for stage, seconds in self.seconds.items()}


class _End:
    """The last item in a queue, with the error that ended the stage, if any."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


class _Halt:
    """The last item in the encoder's queue when a run is stopped: nothing is finished, nothing is lost."""


@dataclass(frozen=True)
class LateFrames:
    """When a live source loses frames, so that the delay does not grow."""

    time_base: Fraction
    """Of the frames' times."""
    allowed: float
    """Seconds that the network may be behind the source's clock. Sources that send in bursts, such as HLS, are ahead of
    it most of the time."""


class Stopped(Exception):  # noqa: N818
    """Another stage has ended; this one has nothing more to do."""


class _Channel:
    """A bounded queue that raises `Stopped` when the run is stopped."""

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
    detect_shots: bool = True,
    late: LateFrames | None = None,
    on_frame: Callable[[PipelineResult], None] | None = None,
) -> PipelineResult:
    """Run all stages until the frames end, or one of the stages fails.

    The caller's thread runs the network. Ctrl-C there stops decoding; what is restored still goes to the sink, which is
    not finished.

    Args:
        frames: Decoded frames.
        restorer: The network stage.
        sink: The encoding stage.
        skip: Frames to decode and ignore.
        warm_up: Frames after those to restore, for the memory of the network, but not to write.
        detect_shots: Find cuts and reset the network's memory there.
        late: When to drop frames that come faster than the network takes them; None drops none.
        on_frame: Called on the encoder's thread after each frame.
    """
    keep_large_arrays()
    stop = threading.Event()
    decoded, finished = _Channel(stop), _Channel(stop)
    result = PipelineResult()
    decoder = threading.Thread(
        target=_decode,
        args=(frames, decoded, restorer, result),
        kwargs={"skip": skip, "detect_shots": detect_shots, "late": late},
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
    except KeyboardInterrupt:
        with suppress(Stopped):
            finished.put(_Halt())
        encoder.join()
        raise
    finally:
        stop.set()
        encoder.join()
        decoder.join(BLOCKED_SECONDS)  # it may wait for a network or a pipe, which nothing can interrupt
    if failures:
        raise failures[0]
    return result


def _decode(
    frames: Iterable[SourceFrame],
    out: _Channel,
    restorer: FrameRestorer,
    result: PipelineResult,
    *,
    skip: int,
    detect_shots: bool,
    late: LateFrames | None,
) -> None:
    detector = ShotDetector()
    end: _End = _End()
    lateness = _Lateness(late)
    try:
        begin = time.perf_counter()
        for index, frame in enumerate(frames):
            if index >= skip:
                cut = detect_shots and is_cut(detector, frame)
                result.seconds["decode"] += time.perf_counter() - begin
                if lateness.too_late(frame) and out.full:
                    result.dropped += 1
                    begin = time.perf_counter()
                    continue
                begin = time.perf_counter()
                staged = restorer.stage(frame)
                result.seconds["decode"] += time.perf_counter() - begin
                out.put((staged, cut))
                begin = time.perf_counter()
    except Stopped:
        return
    except BaseException as error:
        end = _End(error)
    try:
        out.put(end)
    except Stopped:
        return


class _Lateness:
    """How far the wall clock is ahead of the source's clock."""

    def __init__(self, late: LateFrames | None) -> None:
        self._late = late
        self._begin: tuple[float, float] | None = None

    def too_late(self, frame: SourceFrame) -> bool:
        if self._late is None:
            return False
        now, shown = time.monotonic(), frame.time(self._late.time_base)
        self._begin = self._begin or (now, shown)
        return (now - self._begin[0]) - (shown - self._begin[1]) >= self._late.allowed


def is_cut(detector: ShotDetector, frame: SourceFrame) -> bool:
    """Return whether a decoded frame begins a new shot."""
    luma = plane_views(frame.image)[0]  # the green plane of RGB frames serves as well
    return detector.is_cut(luma, (1 << frame.image.format.components[0].bits) - 1)


def _restore(
    decoded: _Channel, finished: _Channel, restorer: FrameRestorer, result: PipelineResult, warm_up: int
) -> None:
    drop, returned, started = warm_up, time.perf_counter(), not restorer.prepares_with_first_frame
    while True:
        item = decoded.get()
        begin = time.perf_counter()
        if isinstance(item, _End):
            if item.error is not None and not isinstance(item.error, FormatChangeError):
                raise item.error
            result.format_change = "" if item.error is None else str(item.error)
            ready = restorer.flush()
        else:
            staged, cut = item
            result.cuts += cut and drop == 0
            ready = restorer.push(staged, cut=cut)
        spent = time.perf_counter() - begin
        if started:
            result.seconds["network"] += spent
        else:  # backends prepare for a format when they see its first frame
            result.start_seconds += spent
            started = True
        for finished_frame in ready:
            if drop:
                drop -= 1
            else:
                finished.put(finished_frame)
        if isinstance(item, _End):
            finished.put(item)
            return
        if time.perf_counter() - returned > RETURN_SECONDS:
            return_free_memory()
            returned = time.perf_counter()


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
            if isinstance(item, _Halt):
                return
            if isinstance(item, _End):
                sink.finish()
            else:
                restorer.wait(item)
                result.seconds["network"] += time.perf_counter() - begin
                begin = time.perf_counter()
                sink.write(restorer.pack(item))
                result.frames += 1
            result.seconds["encode"] += time.perf_counter() - begin
            if isinstance(item, _End):
                return
            if on_frame is not None:
                on_frame(result)
    except Stopped:
        return
    except BaseException as error:
        failures.append(error)
        stop.set()

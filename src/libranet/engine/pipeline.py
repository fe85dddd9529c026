"""Three concurrent stages: decoding, the network, encoding. Bounded queues connect them."""

import queue
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from libranet.engine.allocator import RETURN_SECONDS, keep_large_arrays, return_free_memory
from libranet.video.pixels import plane_views
from libranet.video.reader import FormatChangeError, SourceFrame
from libranet.video.shots import ShotDetector

if TYPE_CHECKING:
    from libranet.engine.restorer import FrameRestorer

QUEUE_FRAMES = 4
"""Frames that may wait between two stages. Together with the look-ahead, this bounds the memory of a run."""
STAGED_FRAMES = QUEUE_FRAMES + 2
"""Frames between the decoder's and the network's stage: those that wait, and one in the hands of each."""
BLOCKED_SECONDS = 2.0  # how long a stopped run waits for the decoder


class FrameSink(Protocol):
    """Where finished frames go."""

    def write(self, frame: SourceFrame) -> None:
        """Take the next frame."""

    def finish(self) -> None:
        """Finish: there are no more frames."""


@dataclass
class PipelineResult:
    """Counts and times of a run so far."""

    frames: int = 0  # frames that reached the sink
    cuts: int = 0  # cuts found by shot detection
    dropped: int = 0  # frames of a live source that came too fast for the network
    seconds: dict[str, float] = field(default_factory=lambda: {"decode": 0.0, "network": 0.0, "encode": 0.0})
    """Busy time of each stage, without the start."""
    start_seconds: float = 0.0
    """Until the network's stage had taken its first frame: buffers, compiling, a first comparison."""
    format_change: str = ""  # why reading ended early, or nothing
    backend: str = ""  # which backend restored the frames

    @property
    def slowest_stage(self) -> str:
        """The stage that the others wait for."""
        return max(self.seconds, key=lambda stage: self.seconds[stage])

    def facts(self, begin: float) -> dict[str, Any]:
        return {
            "seconds": time.perf_counter() - begin,
            "stage_seconds": {stage: round(seconds, 3) for stage, seconds in self.seconds.items()},
            "start_seconds": round(self.start_seconds, 3),
            "cuts": self.cuts,
            "backend": self.backend,
        }


class Stopped(Exception):  # noqa: N818
    """Another stage has ended; this one has nothing more to do."""


@dataclass(frozen=True)
class _End:
    """The last item in a queue, with the error that ended the stage, if any."""

    error: BaseException | None = None


_HALT = object()
"""The last item in the encoder's queue when a run is stopped: nothing is finished, nothing is lost."""


class Channel:
    """A bounded queue that raises `Stopped` when the run is stopped."""

    def __init__(self, stop: threading.Event, size: int = QUEUE_FRAMES) -> None:
        self._queue: queue.Queue[Any] = queue.Queue(size)
        self._stop, self.full = stop, self._queue.full

    def put(self, item: Any) -> None:
        self._tried(lambda: self._queue.put(item, timeout=0.1))

    def replace(self, frame: SourceFrame, cut: bool) -> bool:
        """Put a frame in the place of one that still waits. Return whether there was one."""
        replaced = False
        while not self._stop.is_set():
            with suppress(queue.Full):
                self._queue.put_nowait((frame, cut))
                return replaced
            with suppress(queue.Empty):
                cut |= self._queue.get_nowait()[1]  # a cut counts, though its first frame is left out
                replaced = True
        raise Stopped

    def get(self) -> Any:
        return self._tried(lambda: self._queue.get(timeout=0.1))

    def _tried(self, call: Callable[[], Any]) -> Any:
        while not self._stop.is_set():
            with suppress(queue.Full, queue.Empty):
                return call()
        raise Stopped


def run_pipeline(
    frames: Iterable[SourceFrame],
    restorer: "FrameRestorer",
    sink: FrameSink,
    *,
    skip: int = 0,
    warm_up: int = 0,
    detect_shots: bool = True,
    late: Callable[[SourceFrame], bool] | None = None,
    newest: bool = False,
    on_frame: Callable[[PipelineResult], None] | None = None,
) -> PipelineResult:
    """Run all stages until the frames end, or one of the stages fails.

    The caller's thread runs the network. Ctrl-C there stops decoding; what is restored still goes to the sink, which is
    not finished.

    Args:
        skip: Frames to decode and ignore.
        warm_up: Frames after those to restore, for the memory of the network, but not to write.
        late: Whether a frame that arrives now is dropped, if the network has not taken those before it.
        newest: For live outputs: the network always takes the newest frame. No other one waits.
        on_frame: Called on the encoder's thread after each frame.
    """
    keep_large_arrays()
    run = _Run(restorer, sink, newest=newest)
    decoding = (islice(frames, skip, None), ShotDetector() if detect_shots else None, late)
    decoder = threading.Thread(target=run.decode, args=decoding, name="decode", daemon=True)
    encoder = threading.Thread(target=run.encode, args=(on_frame,), name="encode", daemon=True)
    decoder.start()
    encoder.start()
    try:
        run.restore(warm_up)
        encoder.join()
    except Stopped:
        pass
    except KeyboardInterrupt:
        with suppress(Stopped):
            run.finished.put(_HALT)
        encoder.join()
        raise
    finally:
        run.stop.set()
        encoder.join()
        decoder.join(BLOCKED_SECONDS)  # it may wait for a network or a pipe, which nothing can interrupt
    if run.failure is not None:
        raise run.failure
    run.result.backend = restorer.backend_name  # only now: a fused backend that distrusts its kernels turns plain
    return run.result


class _Run:
    """What the three stages share. Each method is one of them, on a thread of its own."""

    def __init__(self, restorer: "FrameRestorer", sink: FrameSink, *, newest: bool) -> None:
        self._restorer, self._sink, self._newest = restorer, sink, newest
        self.stop = threading.Event()
        self.decoded, self.finished = Channel(self.stop, 1 if newest else QUEUE_FRAMES), Channel(self.stop)
        self.result = PipelineResult()
        self.failure: BaseException | None = None

    def decode(
        self, frames: Iterable[SourceFrame], detector: ShotDetector | None, late: Callable[[SourceFrame], bool] | None
    ) -> None:
        """Decode, detect shots, and copy frames to where the network takes them."""
        end = _End()
        begin = time.perf_counter()
        try:
            for frame in frames:
                cut = detector is not None and is_cut(detector, frame)
                if self._newest:
                    self.result.seconds["decode"] += time.perf_counter() - begin
                    self.result.dropped += self.decoded.replace(frame, cut)
                    begin = time.perf_counter()
                    continue
                dropped = late is not None and late(frame) and self.decoded.full()
                staged = None if dropped else self._restorer.stage(frame)
                self.result.seconds["decode"] += time.perf_counter() - begin
                self.result.dropped += dropped
                if not dropped:
                    self.decoded.put((staged, cut))
                begin = time.perf_counter()
        except Stopped:
            return
        except BaseException as error:
            end = _End(error)
        with suppress(Stopped):
            self.decoded.put(end)

    def restore(self, warm_up: int) -> None:
        """Restore frames. The first ones of a resumed run only warm up the network's memory."""
        result, returned = self.result, time.perf_counter()
        started = not self._restorer.prepares_with_first_frame
        end: _End | None = None
        while end is None:
            item = self.decoded.get()
            begin = time.perf_counter()
            if isinstance(item, _End):
                end = item
                if end.error is not None and not isinstance(end.error, FormatChangeError):
                    raise end.error
                result.format_change = "" if end.error is None else end.error.sentence
                ready = self._restorer.flush()
            else:
                staged, cut = item
                if self._newest:  # not before: frames that wait may still be replaced
                    staged = self._restorer.stage(staged)
                result.cuts += cut and warm_up == 0
                ready = self._restorer.push(staged, cut=cut)
            spent = time.perf_counter() - begin
            if started:
                result.seconds["network"] += spent
            else:  # backends prepare for a format when they see its first frame
                result.start_seconds += spent
                started = True
            for frame in ready:
                if warm_up:
                    warm_up -= 1
                else:
                    self.finished.put(frame)
            if time.perf_counter() - returned > RETURN_SECONDS:
                return_free_memory()
                returned = time.perf_counter()
        self.finished.put(end)

    def encode(self, on_frame: Callable[[PipelineResult], None] | None) -> None:
        seconds = self.result.seconds
        try:
            while (item := self.finished.get()) is not _HALT:
                begin = time.perf_counter()
                if isinstance(item, _End):
                    self._sink.finish()
                    seconds["encode"] += time.perf_counter() - begin
                    return
                self._restorer.wait(item)
                arrived = time.perf_counter()
                seconds["network"] += arrived - begin
                self._sink.write(self._restorer.pack(item))
                self.result.frames += 1
                seconds["encode"] += time.perf_counter() - arrived
                if on_frame is not None:
                    on_frame(self.result)
        except Stopped:
            return
        except BaseException as error:
            self.failure = error
            self.stop.set()


def is_cut(detector: ShotDetector, frame: SourceFrame) -> bool:
    luma = plane_views(frame.image)[0]  # the green plane of RGB frames serves as well
    return detector.is_cut(luma, (1 << frame.image.format.components[0].bits) - 1)

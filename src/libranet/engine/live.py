"""`dehaze_live`: a camera or a stream in, a live output out, at once, and a recording beside it."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO

import av

from libranet.engine.latency import LatencyMeter, LiveReport
from libranet.engine.live_output import LiveSink, live_plan
from libranet.engine.options import DehazeOptions, DehazeReport, Progress
from libranet.engine.pipeline import PipelineResult, run_pipeline
from libranet.engine.plan import RunPlan, expected_frames, make_plan
from libranet.engine.recording import Recording, check_recording, recording_excerpt
from libranet.engine.restorer import FrameRestorer
from libranet.engine.video import describe_partial, describe_times
from libranet.errors import InputError, LibraNetError
from libranet.network import Network
from libranet.video.arrival import Arrivals
from libranet.video.live_address import live_address
from libranet.video.pixels import plane_views
from libranet.video.reader import SourceFrame, VideoReader, open_video
from libranet.video.reconnect import reconnecting
from libranet.video.source import Source

_STATUS_SECONDS = 0.5
"""Between two looks at the latency: it is a statistic over thousands of frames."""


def dehaze_live(
    source: Source | IO[bytes],
    output: str,
    network: Network,
    *,
    options: DehazeOptions,
    overwrite: bool = False,
    progress: Callable[[Progress], None] | None = None,
    on_plan: Callable[[RunPlan], None] | None = None,
) -> DehazeReport:
    """Dehaze to a live output until the source ends, or until Ctrl-C or SIGTERM.

    The network always takes the newest frame, so the delay does not grow where it is slower than the source. Files are
    sent at their own pace.

    Raises:
        InputError: The source, an option or the address cannot be used.
        OutputError: The output cannot be reached, or is lost for too long, and nothing is recorded.
    """
    address = live_address(output)
    options = replace(options, live=True)
    origin = source if isinstance(source, Source) else None
    name = origin.name if origin is not None else str(getattr(source, "name", "the stream"))
    is_file = origin is not None and origin.can_reopen
    _check(origin or name, options, overwrite=overwrite)
    begin, arrivals = time.perf_counter(), None if is_file else Arrivals()
    with (
        open_video(source, deinterlace=options.deinterlace, start=options.start, arrivals=arrivals) as reader,
        contextlib.ExitStack() as stack,
    ):
        plan = live_plan(reader, address, network, options)
        if on_plan is not None:
            on_plan(plan)
        if options.reconnect and origin is not None and origin.kind == "url":
            reader.demuxed = reconnecting(reader, options.reconnect)
        meter = LatencyMeter(came := arrivals or Arrivals())
        sending = stack.enter_context(LiveSink(address, plan, reader, options, meter))
        sink: LiveSink | _Recorded = sending
        if options.record is not None:
            recording = stack.enter_context(_recording(reader, plan, network, options, overwrite=overwrite))
            sink = _Recorded(sending, recording)
        reader.on_packet = sink.copy
        status = _Status(reader, options, sending, meter, progress)
        frames = _arriving(reader.frames(start=options.start, end=options.end), reader, came, paced=is_file)
        restorer = FrameRestorer(reader, network, options, plan.settings)
        try:
            run_pipeline(
                frames, restorer, sink, detect_shots=options.shot_detection, newest=True, on_frame=status.update
            )
        except KeyboardInterrupt:
            if status.result.frames == 0:
                raise
            sink.finish()  # Ctrl-C is how a live video ends
        result, live = status.result, status.report()
        if result.frames == 0:
            raise InputError(f"{name} has no frame between --start and --end: choose another part")
        missing = (describe_partial(reader, result), *sink.problems)
        return DehazeReport(
            source=name,
            output=address.name,
            frames=meter.frames,
            resumed_frames=0,
            width=sending.size[0],
            height=sending.size[1],
            codec="v4l2" if address.is_camera else plan.settings.codec,
            pixel_format=plan.settings.pixel_format,
            copied_streams=plan.kept,
            partial="; ".join(text for text in missing if text),
            warnings=(*describe_times(reader), *_left_out(live), *plan.changed, *plan.notes, *reader.notes),
            files=tuple(map(str, sink.files)),
            weights=network.weights,
            **result.facts(begin),
            live=live,
        )


def _check(source: Source | str, options: DehazeOptions, *, overwrite: bool) -> None:
    """Refuse what makes no sense for live outputs, and a recording that cannot be written."""
    if options.two_pass:
        raise InputError("a live output is encoded once: leave out --two-pass")
    if options.record is not None:
        check_recording(source, Path(options.record), options, overwrite=overwrite)
    elif options.segment_time is not None:
        raise InputError("--segment-time makes files: add --record with a name such as record.mkv")


def _recording(
    reader: VideoReader, live: RunPlan, network: Network, options: DehazeOptions, *, overwrite: bool
) -> Recording:
    """Prepare the recording of a live output: the same frames, encoded on their own, so that it misses none."""
    assert options.record is not None
    target = Path(options.record)
    options = replace(options, pixel_format=live.settings.pixel_format, bitrate=None)
    if options.codec is None:
        options = replace(options, codec="h264", preset=options.preset or "veryfast")
    plan = make_plan(reader, target, network, options)
    excerpt = recording_excerpt(reader, target, options, live=True)
    return Recording(target, plan, reader, excerpt, options, overwrite=overwrite)


def _arriving(
    frames: Iterable[SourceFrame], reader: VideoReader, arrivals: Arrivals, *, paced: bool
) -> Iterator[SourceFrame]:
    """Note every frame that comes. Frames of a file come when their time has come."""
    begin: tuple[float, float] | None = None
    for frame in frames:
        shown = frame.time(reader.time_base)
        begin = begin or (time.monotonic(), shown)
        if paced:
            time.sleep(max(0.0, (shown - begin[1]) - (time.monotonic() - begin[0])))
        arrivals.decoded(frame.image.pts, frame.pts)
        yield frame


def _left_out(live: LiveReport) -> list[str]:
    notes = []
    if live.late:
        notes.append(f"{live.late} frames came faster than the network and were left out")
    if live.unsent:
        notes.append(f"{live.unsent} frames were left out, because the output did not take them")
    if live.reconnections:
        notes.append(f"the output was lost and came back {live.reconnections} times")
    return notes


class _Status:
    """What a user sees of a live output while it runs."""

    def __init__(
        self,
        reader: VideoReader,
        options: DehazeOptions,
        output: LiveSink,
        meter: LatencyMeter,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self._output, self._meter, self._progress = output, meter, progress
        self._total = expected_frames(reader, options)
        self._looked, self._frames, self._shown = time.monotonic(), 0, Progress(0, self._total, 0.0, "decode")
        self.result = PipelineResult()

    def report(self) -> LiveReport:
        output = self._output
        return self._meter.report(late=self.result.dropped, unsent=output.unsent, reconnections=output.reconnections)

    def update(self, now: PipelineResult) -> None:
        """Tell how it goes, twice a second."""
        self.result, at = now, time.monotonic()
        if self._progress is None or at - self._looked < _STATUS_SECONDS:
            return
        sent = self._meter.frames
        fps = (sent - self._frames) / (at - self._looked)
        self._looked, self._frames = at, sent
        line = self.report().line if self._output.is_connected else "the output does not take frames: trying again"
        self._progress(Progress(sent, self._total, fps, now.slowest_stage, live=line))


class _Recorded:
    """A live output and a recording of the same frames. Where the output is lost for good, the recording goes on."""

    def __init__(self, output: LiveSink, recording: Recording) -> None:
        self._output, self._recording = output, recording
        self._lost = ""

    @property
    def files(self) -> list[Path]:
        return self._recording.files

    @property
    def problems(self) -> list[str]:
        """What the live output or the recording lacks."""
        return [*([self._lost] if self._lost else []), *self._recording.problems]

    def write(self, frame: SourceFrame) -> None:
        if not self._lost:
            with self._going_on():
                self._output.write(replace(frame, image=_copy(frame.image)))
        self._recording.write(frame)

    def copy(self, packet: av.Packet) -> None:
        self._output.copy(packet)  # first: the recording takes the packet apart
        self._recording.copy(packet)

    def finish(self) -> None:
        with self._going_on():
            self._output.finish()
        self._recording.finish()

    @contextlib.contextmanager
    def _going_on(self) -> Iterator[None]:
        try:
            yield
        except LibraNetError as error:
            self._lost = error.sentence


def _copy(image: av.VideoFrame) -> av.VideoFrame:
    """Copy a frame: two encoders on two threads give it times of their own."""
    copy = av.VideoFrame(image.width, image.height, image.format.name)
    for source, target in zip(plane_views(image), plane_views(copy), strict=True):
        target[...] = source
    copy.color_range, copy.colorspace = image.color_range, image.colorspace
    copy.color_primaries, copy.color_trc = image.color_primaries, image.color_trc
    return copy

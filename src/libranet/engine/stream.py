"""Streams of unknown length: y4m from another program, cameras, network sources."""

import contextlib
import math
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import IO

import av

from libranet.atomic import atomic_file
from libranet.engine.options import DehazeOptions, DehazeReport, Progress, check_output, translate_io_errors
from libranet.engine.pipeline import LateFrames, PipelineResult, run_pipeline
from libranet.engine.plan import RunPlan, expected_frames, make_plan
from libranet.engine.segments import OutputClock, prepare_for_encoder
from libranet.engine.video import describe_partial, make_restorer
from libranet.engine.views import side_size
from libranet.errors import InputError
from libranet.models import Network
from libranet.video.copied_stream import Excerpt
from libranet.video.mux import JoinReport, OutputFile, copy_chapters
from libranet.video.pixels import layout_of
from libranet.video.reader import SourceFrame, VideoReader, frame_duration, open_video
from libranet.video.source import Source, parse_source
from libranet.video.verify import verify
from libranet.video.y4m import write_y4m_frame, y4m_header

LIVE_DELAY = 1.0
"""Seconds that a live recording may be behind its source before frames are left out."""


class LiveSink:
    """Encodes straight into a container. Packets of other streams may arrive from another thread."""

    def __init__(self, path: Path, plan: RunPlan, reader: VideoReader, excerpt: Excerpt) -> None:
        self._path, self._settings, self._excerpt = path, plan.settings, excerpt
        suffix = Path(plan.output).suffix.lower()
        self._output = OutputFile(path, suffix, plan.settings, reader.container, plan.streams, excerpt)
        if reader.container is not None:
            copy_chapters(reader.container, self._output.container, excerpt)
        self._output.write_header()
        self._lock = threading.Lock()
        step = frame_duration(reader.rate, reader.time_base)
        origin = round(excerpt.start / reader.time_base)
        self._clock = OutputClock(reader.time_base, plan.settings.time_base, origin, step)

    def write(self, frame: SourceFrame) -> None:
        """Encode a frame."""
        image = prepare_for_encoder(frame, self._settings, self._clock)
        with translate_io_errors(self._path):
            packets = self._output.video.encode(image)
            with self._lock:
                self._output.write(packets)

    def copy(self, packet: av.Packet) -> None:
        """Copy a packet of another stream."""
        stream = self._output.copies.get(packet.stream.index)
        if stream is None or packet.size == 0:
            return
        with translate_io_errors(self._path), self._lock:
            self._output.write(stream.packets(packet, self._excerpt))

    def finish(self) -> None:
        """Drain the encoder and close the file."""
        with translate_io_errors(self._path), self._lock:
            self._output.write(self._output.video.encode(None))
            for stream in self._output.copies.values():
                self._output.write(stream.finish())
            self._output.close()

    def report(self) -> JoinReport:
        """Return what was written."""
        return self._output.report()


class Y4mSink:
    """Writes raw frames for another program."""

    def __init__(self, file: IO[bytes], reader: VideoReader, options: DehazeOptions) -> None:
        width, height = reader.width, reader.height
        if options.compare == "side":
            width, height = side_size(layout_of(reader.pixel_format), width, height, reader.tags.quarter_turns)
        self._file = file
        self._header: bytes | None = y4m_header(width, height, reader.rate, reader.pixel_format, reader.tags)

    def write(self, frame: SourceFrame) -> None:
        """Write a frame."""
        with translate_io_errors("standard output"):
            if self._header is not None:
                self._file.write(self._header)
                self._header = None
            write_y4m_frame(self._file, frame.image)

    def finish(self) -> None:
        """Flush the file."""
        with translate_io_errors("standard output"):
            self._file.flush()


def dehaze_stream(
    source: Source | str | Path | IO[bytes],
    output: str | Path | IO[bytes],
    network: Network,
    *,
    options: DehazeOptions | None = None,
    overwrite: bool = False,
    progress: Callable[[Progress], None] | None = None,
    on_plan: Callable[[RunPlan], None] | None = None,
) -> DehazeReport:
    """Dehaze until the source ends, or until Ctrl-C or SIGTERM with `live`.

    A live source that is faster than the network loses frames, so that the delay does not grow. The report counts them.

    Args:
        source: What `parse_source` takes or gives, or an open file with y4m.
        output: A file, or an open file for y4m.
        network: The network, on its device.
        options: How to restore and encode.
        overwrite: Replace an existing output.
        progress: Called after each frame.
        on_plan: Called with the plan of a file before the first frame.
    """
    options = options or DehazeOptions()
    if isinstance(source, str | Path):
        source = parse_source(source)
    name = source.name if isinstance(source, Source) else str(getattr(source, "name", "the stream"))
    live = options.live and isinstance(source, Source) and source.kind in ("url", "camera")
    target = Path(output) if isinstance(output, str | Path) else None
    if target is not None:
        check_output(source if isinstance(source, Source) else name, target, overwrite=overwrite)
    begin = time.perf_counter()
    with open_video(source, deinterlace=options.deinterlace) as reader:
        plan = make_plan(reader, target, network, options) if target is not None else None
        if plan is not None and on_plan is not None:
            on_plan(plan)
        result = PipelineResult()

        def report(now: PipelineResult) -> None:
            nonlocal result
            result = now
            if progress is not None:
                fps = now.frames / max(1e-9, time.perf_counter() - begin)
                progress(Progress(now.frames, expected_frames(reader, options), fps, now.slowest_stage))

        with contextlib.ExitStack() as stack:
            sink: LiveSink | Y4mSink
            if plan is not None and target is not None:
                temporary = stack.enter_context(atomic_file(target, suffix=target.suffix))
                sink = LiveSink(temporary, plan, reader, _excerpt(reader, options, live=live))
                reader.on_packet = sink.copy
            else:
                assert not isinstance(output, str | Path)
                sink = Y4mSink(output, reader, options)
            # A camera's frames are as old as their arrival: they are late as soon as the queue is full.
            allowed = -math.inf if reader.container is None else LIVE_DELAY
            late = LateFrames(reader.time_base, allowed) if live else None
            frames = reader.frames(start=options.start, end=options.end)
            restorer = make_restorer(reader, network, options, plan.settings if plan else None)
            try:
                result = run_pipeline(
                    frames, restorer, sink, detect_shots=options.shot_detection, late=late, on_frame=report
                )
            except KeyboardInterrupt:
                if not options.live or result.frames == 0:
                    raise
                sink.finish()  # Ctrl-C is how a live recording ends
            if result.frames == 0:
                raise InputError(f"{name} has no frame between --start and --end: choose another part")
            problems = verify(temporary, sink.report().written) if isinstance(sink, LiveSink) else []
        warnings = [f"{result.dropped} frames came faster than the network and were left out"] if result.dropped else []
        if isinstance(sink, LiveSink) and plan is not None:
            warnings += [*plan.left_out, *plan.notes, *sink.report().notes]
        return DehazeReport(
            source=name,
            output=str(target or "-"),
            frames=result.frames,
            resumed_frames=0,
            width=plan.settings.width if plan else reader.width,
            height=plan.settings.height if plan else reader.height,
            codec=plan.settings.codec if plan else "y4m",
            pixel_format=plan.settings.pixel_format if plan else reader.pixel_format,
            seconds=time.perf_counter() - begin,
            stage_seconds=result.rounded_seconds(),
            cuts=result.cuts,
            copied_streams=plan.kept if plan else 0,
            partial="; ".join([text for text in (describe_partial(reader, result),) if text] + problems),
            warnings=tuple(warnings),
            weights=network.weights,
        )


def _excerpt(reader: VideoReader, options: DehazeOptions, *, live: bool) -> Excerpt:
    """Return which part of the source's clock the output covers. A live recording begins at zero."""
    start = reader.first_time + Fraction(options.start).limit_denominator(1_000_000)
    end = None
    if options.end is not None:
        end = reader.first_time + Fraction(options.end).limit_denominator(1_000_000)
    return Excerpt(start if live or options.start > 0 else Fraction(0), end)

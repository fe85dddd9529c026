"""Streams of unknown length: y4m from another program, cameras, network sources."""

import contextlib
import math
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import IO

from libranet.engine.options import DehazeOptions, DehazeReport, Progress
from libranet.engine.pipeline import LateFrames, PipelineResult, run_pipeline
from libranet.engine.plan import RunPlan, expected_frames, make_plan
from libranet.engine.sinks import Recording, Y4mSink, check_recording
from libranet.engine.video import describe_partial, make_restorer
from libranet.errors import InputError
from libranet.network import Network
from libranet.video.copied_stream import Excerpt
from libranet.video.reader import VideoReader, open_video
from libranet.video.reconnect import reconnecting
from libranet.video.source import Source, parse_source

LIVE_DELAY = 1.0
"""Seconds that a live recording may be behind its source before frames are left out."""


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
        origin = source if isinstance(source, Source) else name
        check_recording(origin, target, parts=options.segment_time is not None, overwrite=overwrite)
    elif options.segment_time is not None:
        raise InputError("--segment-time makes files: give -o a name such as record.mkv")
    if options.two_pass:
        raise InputError(f"{name} is read only once: leave out --two-pass")
    if options.reconnect and not (isinstance(source, Source) and source.kind == "url"):
        raise InputError(f"--reconnect is for network sources, and {name} is none: leave it out")
    begin = time.perf_counter()
    with open_video(source, deinterlace=options.deinterlace) as reader:
        plan = make_plan(reader, target, network, options) if target is not None else None
        if plan is not None and on_plan is not None:
            on_plan(plan)
        if options.reconnect:
            reader.demuxed = reconnecting(reader, options.reconnect)
        result = PipelineResult()

        def report(now: PipelineResult) -> None:
            nonlocal result
            result = now
            if progress is not None:
                fps = now.frames / max(1e-9, time.perf_counter() - begin)
                progress(Progress(now.frames, expected_frames(reader, options), fps, now.slowest_stage))

        with contextlib.ExitStack() as stack:
            sink: Recording | Y4mSink
            if plan is not None and target is not None:
                excerpt = _excerpt(reader, options, live=live)
                recording = Recording(target, plan, reader, excerpt, seconds=options.segment_time, overwrite=overwrite)
                sink = stack.enter_context(recording)
                reader.on_packet = sink.copy
            else:
                assert not isinstance(output, str | Path)
                sink = Y4mSink(output, reader, options)
            # A camera's frames are as old as their arrival: they are late as soon as the queue is full.
            allowed = -math.inf if reader.container is None else LIVE_DELAY
            late = LateFrames(reader.time_base, allowed) if live else None
            frames = reader.frames(start=options.start, end=options.end)
            settings = plan.settings if plan else None
            restorer = make_restorer(reader, network, options, settings, size=sink.size)
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
        problems = sink.problems if isinstance(sink, Recording) else []
        warnings = [f"{result.dropped} frames came faster than the network and were left out"] if result.dropped else []
        if isinstance(sink, Recording) and plan is not None:
            warnings += [*plan.left_out, *dict.fromkeys((*plan.notes, *reader.notes)), *sink.notes]
        return DehazeReport(
            source=name,
            output=str(target or "-"),
            frames=result.frames,
            resumed_frames=0,
            width=sink.size[0],
            height=sink.size[1],
            codec=plan.settings.codec if plan else "y4m",
            pixel_format=plan.settings.pixel_format if plan else reader.pixel_format,
            seconds=time.perf_counter() - begin,
            stage_seconds=result.rounded_seconds(),
            start_seconds=round(result.start_seconds, 3),
            cuts=result.cuts,
            copied_streams=plan.kept if plan else 0,
            partial="; ".join([text for text in (describe_partial(reader, result),) if text] + problems),
            warnings=tuple(warnings),
            files=tuple(map(str, sink.files)) if isinstance(sink, Recording) and options.segment_time else (),
            weights=network.weights,
        )


def _excerpt(reader: VideoReader, options: DehazeOptions, *, live: bool) -> Excerpt:
    """Return which part of the source's clock the output covers. A live recording begins at zero."""
    start = reader.first_time + Fraction(options.start).limit_denominator(1_000_000)
    end = None
    if options.end is not None:
        end = reader.first_time + Fraction(options.end).limit_denominator(1_000_000)
    return Excerpt(start if live or options.start > 0 else Fraction(0), end)

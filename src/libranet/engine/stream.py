"""Streams of unknown length: y4m from another program, cameras, network sources, and where their frames go."""

import contextlib
import math
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import IO

from libranet.engine.options import DehazeOptions, DehazeReport, Progress, translate_io_errors
from libranet.engine.pipeline import PipelineResult, run_pipeline
from libranet.engine.plan import RunPlan, drawn_size, expected_frames, make_plan, output_size
from libranet.engine.recording import Recording, check_recording, recording_excerpt
from libranet.engine.restorer import FrameRestorer
from libranet.engine.video import describe_partial, describe_times
from libranet.errors import InputError
from libranet.network import Network
from libranet.video.pixels import layout_of
from libranet.video.reader import SourceFrame, VideoReader, open_video
from libranet.video.reconnect import reconnecting
from libranet.video.scale import scaled_tags
from libranet.video.source import Source, is_live_output, parse_source
from libranet.video.y4m import write_y4m_frame, y4m_header

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
        output: A file, a live output such as rtmp://server/live, or an open file for y4m.
    """
    options = options or DehazeOptions()
    if isinstance(source, str | Path):
        source = parse_source(source)
    if isinstance(output, str) and is_live_output(output):
        from libranet.engine.live import dehaze_live

        return dehaze_live(
            source, output, network, options=options, overwrite=overwrite, progress=progress, on_plan=on_plan
        )
    if options.record is not None:
        raise InputError(f"--record is for live outputs such as rtmp://server/live, got -o {output}: leave it out")
    name = source.name if isinstance(source, Source) else str(getattr(source, "name", "the stream"))
    live = options.live and isinstance(source, Source) and source.kind in ("url", "camera")
    target = Path(output) if isinstance(output, str | Path) else None
    if target is not None:
        origin = source if isinstance(source, Source) else name
        check_recording(origin, target, options, overwrite=overwrite)
    elif options.segment_time is not None:
        raise InputError("--segment-time makes files: give -o a name such as record.mkv")
    if options.two_pass:
        raise InputError(f"{name} is read only once: leave out --two-pass")
    if options.reconnect and not (isinstance(source, Source) and source.kind == "url"):
        raise InputError(f"--reconnect is for network sources, and {name} is none: leave it out")
    begin = time.perf_counter()
    with open_video(source, deinterlace=options.deinterlace) as reader, contextlib.ExitStack() as stack:
        plan, result = None, PipelineResult()
        sink: Recording | _Y4mSink
        if target is not None:
            plan = make_plan(reader, target, network, options)
            if on_plan is not None:
                on_plan(plan)
        if options.reconnect:
            reader.demuxed = reconnecting(reader, options.reconnect)
        if plan is not None and target is not None:
            excerpt = recording_excerpt(reader, target, options, live=live)
            sink = stack.enter_context(Recording(target, plan, reader, excerpt, options, overwrite=overwrite))
            reader.on_packet = sink.copy
        else:
            assert not isinstance(output, str | Path)
            sink = _Y4mSink(output, reader, options)

        def report(now: PipelineResult) -> None:
            nonlocal result
            result = now
            if progress is not None:
                fps = now.frames / max(1e-9, time.perf_counter() - begin)
                progress(Progress(now.frames, expected_frames(reader, options), fps, now.slowest_stage))

        # A camera's frames are as old as their arrival: they are late as soon as the queue is full.
        late = LateFrames(reader.time_base, -math.inf if reader.container is None else LIVE_DELAY) if live else None
        frames = reader.frames(start=options.start, end=options.end)
        restorer = FrameRestorer(reader, network, options, plan.settings if plan else None, size=sink.size)
        try:
            result = run_pipeline(
                frames,
                restorer,
                sink,
                detect_shots=options.shot_detection,
                late=late,
                on_frame=report,
            )
        except KeyboardInterrupt:
            if not options.live or result.frames == 0:
                raise
            sink.finish()  # Ctrl-C is how a live recording ends
        if result.frames == 0:
            raise InputError(f"{name} has no frame between --start and --end: choose another part")
        warnings = describe_times(reader)
        if result.dropped:
            warnings.append(f"{result.dropped} frames came faster than the network and were left out")
        if plan is not None:
            warnings += [*plan.changed, *dict.fromkeys((*plan.notes, *reader.notes)), *sink.notes]
        return DehazeReport(
            source=name,
            output=str(sink.files[-1] if sink.files and not options.segment_time else target or "-"),
            frames=result.frames,
            resumed_frames=0,
            width=sink.size[0],
            height=sink.size[1],
            codec=plan.settings.codec if plan else "y4m",
            pixel_format=plan.settings.pixel_format if plan else reader.pixel_format,
            copied_streams=plan.kept if plan else 0,
            partial="; ".join([text for text in (describe_partial(reader, result), *sink.problems) if text]),
            warnings=tuple(warnings),
            files=tuple(map(str, sink.files)) if options.segment_time else (),
            weights=network.weights,
            **result.facts(begin),
        )


class LateFrames:
    """When a live source loses frames, so that the delay does not grow."""

    def __init__(self, time_base: Fraction, allowed: float) -> None:
        """Measure how far the wall clock is ahead of the source's clock.

        Args:
            allowed: Seconds that the network may be behind the source's clock. Sources that send in bursts, such as
                HLS, are ahead of it most of the time.
        """
        self._time_base, self._allowed = time_base, allowed
        self._begin: tuple[float, float] | None = None

    def __call__(self, frame: SourceFrame) -> bool:
        now, shown = time.monotonic(), frame.time(self._time_base)
        self._begin = self._begin or (now, shown)
        return (now - self._begin[0]) - (shown - self._begin[1]) >= self._allowed


class _Y4mSink:
    """Writes raw frames for another program. It has no files, and nothing to say about them."""

    files: tuple[Path, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __init__(self, file: IO[bytes], reader: VideoReader, options: DehazeOptions) -> None:
        layout = layout_of(reader.pixel_format)
        self.size = output_size(reader, options, layout)
        tags = scaled_tags(reader.tags, drawn_size(reader, options, layout), self.size)
        self._file = file
        self._header: bytes | None = y4m_header(*self.size, reader.rate, reader.pixel_format, tags)

    def write(self, frame: SourceFrame) -> None:
        with translate_io_errors("standard output"):
            if self._header is not None:
                self._file.write(self._header)
                self._header = None
            write_y4m_frame(self._file, frame.image)

    def finish(self) -> None:
        with translate_io_errors("standard output"):
            self._file.flush()

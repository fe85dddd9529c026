"""Streams without an end that is known: raw pictures from another program, cameras, network sources."""

import contextlib
import os
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import IO

from libranet.engine.frames import side_size
from libranet.engine.options import DehazeOptions, DehazeReport, Progress
from libranet.engine.pipeline import FrameSink, PipelineResult, run_pipeline
from libranet.engine.sinks import LiveSink, writing
from libranet.engine.video import check_output, encoder_settings, make_restorer
from libranet.models import LiBrANet
from libranet.video.camera import is_camera, open_camera
from libranet.video.frames import SourceFrame
from libranet.video.mux import Excerpt
from libranet.video.pixels import layout_of
from libranet.video.reader import VideoReader, open_video
from libranet.video.y4m import write_y4m_frame, y4m_header


class Y4mSink:
    """Raw pictures for another program."""

    def __init__(self, file: IO[bytes], reader: VideoReader, options: DehazeOptions) -> None:
        width, height = reader.width, reader.height
        if options.compare == "side":
            width, height = side_size(layout_of(reader.pixel_format), width, height, reader.tags.quarter_turns)
        self._file = file
        self._header: bytes | None = y4m_header(width, height, reader.rate, reader.pixel_format, reader.tags)

    def write(self, frame: SourceFrame) -> None:
        """Pass a picture on."""
        with writing("standard output"):
            if self._header is not None:
                self._file.write(self._header)
                self._header = None
            write_y4m_frame(self._file, frame.image)

    def finish(self) -> None:
        """Nothing is held back."""
        with writing("standard output"):
            self._file.flush()


def dehaze_stream(
    source: str | Path | IO[bytes],
    output: str | Path | IO[bytes],
    network: LiBrANet,
    *,
    options: DehazeOptions | None = None,
    overwrite: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> DehazeReport:
    """Dehaze until the source ends or Ctrl-C. Open files stand for y4m; a live source that outruns the network loses
    frames, which the report counts, so that the delay does not grow.
    """
    options = options or DehazeOptions()
    name = str(getattr(source, "name", source))
    live = options.live and isinstance(source, str) and ("://" in source or is_camera(source))
    target = Path(output) if isinstance(output, str | Path) else None
    if target is not None:
        check_output(name, target, overwrite=overwrite)
    begin = time.perf_counter()
    with _open(source, options) as reader:
        settings = encoder_settings(reader, target, options) if target is not None else None
        temporary = target.with_name(f".{target.name}.part{target.suffix}") if target is not None else None
        sink: FrameSink
        if temporary is not None and settings is not None:
            first = reader.stream.start_time if live and reader.stream is not None else None
            sink = LiveSink(temporary, settings, reader.container, Excerpt(Fraction(first or 0) * reader.time_base))
            reader.on_packet = sink.copy
        else:
            assert not isinstance(output, str | Path)
            sink = Y4mSink(output, reader, options)
        result = PipelineResult()

        def report(now: PipelineResult) -> None:
            nonlocal result
            result = now
            if progress is not None:
                fps = now.frames / max(1e-9, time.perf_counter() - begin)
                progress(Progress(now.frames, None, fps, now.clock.slowest))

        frames = reader.frames(start=options.start, end=options.end)
        restorer = make_restorer(reader, network, options, settings)
        try:
            result = run_pipeline(
                frames, restorer, sink, detect_cuts=options.scene_cuts, drop_late=live, on_frame=report
            )
        except KeyboardInterrupt:
            if not options.live or result.frames == 0:
                raise
            sink.finish()  # Ctrl-C is how a live recording ends
        finally:
            if temporary is not None and result.frames == 0:
                with contextlib.suppress(OSError):
                    temporary.unlink()
        if target is not None and temporary is not None:
            with writing(target):
                os.replace(temporary, target)
        damage = reader.damage
        warnings = [f"{result.dropped} frames came faster than the network and were left out"] if result.dropped else []
        if isinstance(sink, LiveSink):
            warnings += list(sink.left_out)
        return DehazeReport(
            source=name,
            output=str(target or "-"),
            frames=result.frames,
            resumed_frames=0,
            width=reader.width,
            height=reader.height,
            codec=settings.codec if settings else "y4m",
            pixel_format=settings.pixel_format if settings else reader.pixel_format,
            seconds=time.perf_counter() - begin,
            stage_seconds={stage: round(seconds, 3) for stage, seconds in result.clock.seconds.items()},
            scene_cuts=result.cuts,
            partial="; ".join(text for text in (damage.sentence() if damage else "", result.size_change) if text),
            warnings=tuple(warnings),
            weights=network.weights,
        )


def _open(source: str | Path | IO[bytes], options: DehazeOptions) -> VideoReader:
    if isinstance(source, str) and is_camera(source):
        return open_camera(source)
    return open_video(source, deinterlace=options.deinterlace)

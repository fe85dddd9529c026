"""Streams of unknown length: y4m from another program, cameras, network sources."""

import contextlib
import os
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

import av

from libranet.engine.options import DehazeOptions, DehazeReport, Progress, check_output, translate_io_errors
from libranet.engine.pipeline import FrameSink, PipelineResult, run_pipeline
from libranet.engine.segments import prepare_for_encoder
from libranet.engine.video import describe_partial, encoder_settings, make_restorer
from libranet.engine.views import side_size
from libranet.models import Network
from libranet.video.camera import is_camera, open_camera
from libranet.video.encoder import EncoderSettings
from libranet.video.mux import Excerpt, OutputFile, write_y4m_frame, y4m_header
from libranet.video.pixels import layout_of
from libranet.video.reader import SourceFrame, VideoReader, open_video


class LiveSink:
    """Encodes straight into a container. Packets of other streams may arrive from another thread."""

    def __init__(self, path: Path, settings: EncoderSettings, source: Any, excerpt: Excerpt) -> None:
        self._path, self._settings, self._excerpt = path, settings, excerpt
        self._output = OutputFile(path, settings, source)
        self._output.write_header()
        self._lock = threading.Lock()
        self._origin = round(excerpt.start / settings.time_base)
        self.left_out = tuple(self._output.left_out)

    def write(self, frame: SourceFrame) -> None:
        """Encode a frame."""
        image = prepare_for_encoder(frame, self._settings, self._origin)
        with translate_io_errors(self._path):
            packets = self._output.video.encode(image)
            with self._lock:
                self._output.container.mux(packets)

    def copy(self, packet: av.Packet) -> None:
        """Copy a packet of another stream."""
        stream = self._output.copies.get(packet.stream.index)
        if stream is None or packet.size == 0:
            return
        copied = stream.packet(packet, self._excerpt)
        if copied is not None:
            with translate_io_errors(self._path), self._lock:
                self._output.container.mux(copied)

    def finish(self) -> None:
        """Drain the encoder and close the file."""
        with translate_io_errors(self._path), self._lock:
            self._output.container.mux(self._output.video.encode(None))
            self._output.close()


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
    source: str | Path | IO[bytes],
    output: str | Path | IO[bytes],
    network: Network,
    *,
    options: DehazeOptions | None = None,
    overwrite: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> DehazeReport:
    """Dehaze until the source ends or Ctrl-C.

    A live source that is faster than the network loses frames, so that the delay does not grow. The report counts them.

    Args:
        source: A file, an address, a camera, or an open file with y4m.
        output: A file, or an open file for y4m.
        network: The network, on its device.
        options: How to restore and encode.
        overwrite: Replace an existing output.
        progress: Called after each frame.
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
                progress(Progress(now.frames, None, fps, now.slowest_stage))

        frames = reader.frames(start=options.start, end=options.end)
        restorer = make_restorer(reader, network, options, settings)
        try:
            result = run_pipeline(
                frames, restorer, sink, detect_shots=options.shot_detection, drop_late=live, on_frame=report
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
            with translate_io_errors(target):
                os.replace(temporary, target)
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
            stage_seconds=result.rounded_seconds(),
            cuts=result.cuts,
            partial=describe_partial(reader, result),
            warnings=tuple(warnings),
            weights=network.weights,
        )


def _open(source: str | Path | IO[bytes], options: DehazeOptions) -> VideoReader:
    if isinstance(source, str) and is_camera(source):
        return open_camera(source)
    return open_video(source, deinterlace=options.deinterlace)

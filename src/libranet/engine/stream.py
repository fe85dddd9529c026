"""Streams of unknown length: y4m from another program, cameras, network sources, and where their frames go."""

import contextlib
import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import IO

import av

from libranet.atomic import Claim, atomic_file
from libranet.engine.options import DehazeOptions, DehazeReport, Progress, check_output, translate_io_errors
from libranet.engine.pipeline import LateFrames, PipelineResult, run_pipeline
from libranet.engine.plan import RunPlan, drawn_size, expected_frames, make_plan, output_size
from libranet.engine.restorer import FrameRestorer
from libranet.engine.segments import OutputClock, prepare_for_encoder
from libranet.engine.video import describe_partial, describe_times
from libranet.errors import InputError
from libranet.network import Network
from libranet.video.excerpt import Excerpt
from libranet.video.mux import ZERO_BASED, OutputFile, zero_time
from libranet.video.pixels import layout_of
from libranet.video.reader import SourceFrame, VideoReader, frame_duration, open_video
from libranet.video.reconnect import reconnecting
from libranet.video.scale import scaled_tags
from libranet.video.source import Source, is_pattern, numbered_name, parse_source
from libranet.video.verify import verify
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
        sink: _Recording | _Y4mSink
        if target is not None:
            plan = make_plan(reader, target, network, options)
            if on_plan is not None:
                on_plan(plan)
        if options.reconnect:
            reader.demuxed = reconnecting(reader, options.reconnect)
        if plan is not None and target is not None:
            excerpt = _excerpt(reader, target, options, live=live)
            sink = stack.enter_context(_Recording(target, plan, reader, excerpt, options, overwrite=overwrite))
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
                frames, restorer, sink, detect_shots=options.shot_detection, late=late, on_frame=report
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
            seconds=time.perf_counter() - begin,
            stage_seconds=result.rounded_seconds(),
            start_seconds=round(result.start_seconds, 3),
            cuts=result.cuts,
            copied_streams=plan.kept if plan else 0,
            partial="; ".join([text for text in (describe_partial(reader, result), *sink.problems) if text]),
            warnings=tuple(warnings),
            files=tuple(map(str, sink.files)) if options.segment_time else (),
            weights=network.weights,
            backend=result.backend,
        )


def _excerpt(reader: VideoReader, target: Path, options: DehazeOptions, *, live: bool) -> Excerpt:
    """Return which part of the source's clock the output covers. A live recording begins at zero."""
    suffix, cut = target.suffix.lower(), live or options.start > 0
    start = reader.first_time + Fraction(options.start).limit_denominator(1_000_000)
    end = None
    if options.end is not None:
        end = reader.first_time + Fraction(options.end).limit_denominator(1_000_000)
    first = start if cut else reader.first_frame
    zero = zero_time(reader, suffix, first_frame=first, cut=cut)
    return Excerpt(zero, end, first if suffix in ZERO_BASED else None, chosen=options.start > 0)


class _Recording:
    """A recording in one file, or in parts that begin at a frame and a time of zero each.

    Frames are encoded straight into the container. Every part appears under its name when it is complete and read back,
    so a crash costs one part at most. Frames and packets of other streams may come from two threads. Packets that are
    ahead of the frames wait for the part that they belong to.
    """

    def __init__(
        self,
        target: Path,
        plan: RunPlan,
        reader: VideoReader,
        excerpt: Excerpt,
        options: DehazeOptions,
        *,
        overwrite: bool,
    ) -> None:
        """Begin the first part. Parts are numbered in the place of %04d in the target, or before its suffix."""
        self._target, self._plan, self._reader, self._overwrite = target, plan, reader, overwrite
        seconds = options.segment_time
        self._seconds = None if seconds is None else Fraction(seconds).limit_denominator(1000)
        self.size = (plan.settings.width, plan.settings.height)
        self._lock = threading.RLock()
        self._waiting: list[av.Packet] = []
        self._start: Fraction | None = None
        """Where the part begins in the source's clock."""
        self._number = 0
        self.files: list[Path] = []
        self.problems: list[str] = []
        self.notes: list[str] = []
        self._finished = False
        self._begin(excerpt)

    def __enter__(self) -> "_Recording":
        return self

    def __exit__(self, *_: object) -> None:
        if not self._finished:
            self._output.abandon()
            self._delete()

    def write(self, frame: SourceFrame) -> None:
        """Encode a frame."""
        time = frame.pts * self._reader.time_base
        with self._lock:
            if self._start is None:
                self._start = time
            if self._border is not None and time >= self._border:
                self._next_part(time)
        image = prepare_for_encoder(frame, self._plan.settings, self._clock)
        with translate_io_errors(self._temporary):
            packets = self._output.video.encode(image)  # packets of other streams may be written meanwhile
            with self._lock:
                self._output.write(packets)

    def copy(self, packet: av.Packet) -> None:
        """Copy a packet of another stream."""
        with self._lock:
            if self._border is not None and _packet_time(packet) >= self._border:
                self._waiting.append(packet)
            else:
                self._copy(packet)

    def finish(self) -> None:
        """Finish the last part."""
        with self._lock:
            for packet in self._waiting:
                self._copy(packet)
            self._end()
            self._finished = True

    @property
    def _border(self) -> Fraction | None:
        """The time from which on a frame begins the next part."""
        return None if self._seconds is None or self._start is None else self._start + self._seconds

    def _begin(self, excerpt: Excerpt) -> None:
        plan, reader, self._excerpt = self._plan, self._reader, excerpt
        self._path = self._target
        if self._seconds is not None:
            self._number, self._path = _free_part(self._target, self._number + 1, overwrite=self._overwrite)
        self._claim = Claim(self._path)
        self._atomic = atomic_file(self._path, suffix=self._path.suffix, claim=self._claim)
        self._temporary = self._atomic.__enter__()
        try:
            suffix = Path(plan.output).suffix.lower()
            self._output = OutputFile(self._temporary, suffix, plan.settings, reader.container, plan.streams, excerpt)
            if reader.container is not None:
                self._output.copy_chapters(reader.container)
            self._output.write_header()
        except BaseException:
            self._delete()
            raise
        origin, step = round(excerpt.start / reader.time_base), frame_duration(reader.rate, reader.time_base)
        self._clock = OutputClock(reader.time_base, plan.settings.time_base, origin, step)

    def _delete(self) -> None:
        """Delete the unfinished part."""
        with contextlib.suppress(Exception):
            self._atomic.__exit__(RuntimeError, RuntimeError(), None)

    def _copy(self, packet: av.Packet) -> None:
        stream = self._output.copies.get(packet.stream.index)
        if stream is not None and packet.size:
            with translate_io_errors(self._temporary):
                self._output.write(stream.packets(packet, self._excerpt), skip_invalid=True)

    def _next_part(self, time: Fraction) -> None:
        waiting, self._waiting = self._waiting, []
        for packet in waiting:
            if _packet_time(packet) < time:
                self._copy(packet)
        self._end()
        self._start = time
        self._begin(replace(self._excerpt, start=time, chosen=True))
        for packet in waiting:
            if _packet_time(packet) >= time:
                self.copy(packet)

    def _end(self) -> None:
        """Drain the encoder, close the file, read it back, and give it its name."""
        with translate_io_errors(self._temporary):
            self._output.write(self._output.video.encode(None))
            for stream in self._output.copies.values():
                self._output.write(stream.finish(self._excerpt))
            self._output.close()
        report = self._output.report()
        self.problems += verify(self._temporary, report.written)
        self.notes += report.notes
        if self._claim.is_free:
            self._atomic.__exit__(None, None, None)
        else:  # nobody can record it again
            taken, self._path = self._path, _free_part(self._path, 2, overwrite=False)[1]
            Claim(self._path).publish(self._temporary)
            self.notes.append(f"{taken} appeared or changed during the recording and stays: this is {self._path}")
        self.files.append(self._path)


def check_recording(source: Source | str, target: Path, options: DehazeOptions, *, overwrite: bool) -> None:
    """Refuse a recording that would replace a file, or cannot be written, before it begins."""
    if options.segment_time is not None:
        target = _free_part(target, 1, overwrite=overwrite)[1]
    check_output(source, target, overwrite=overwrite)


def _free_part(target: Path, number: int, *, overwrite: bool) -> tuple[int, Path]:
    """Return the next part whose file may be written: a recording that is started again goes on counting."""
    pattern = str(target if is_pattern(target) else target.with_name(f"{target.stem}-%04d{target.suffix}"))
    while not overwrite and numbered_name(pattern, number).exists():
        number += 1
    return number, numbered_name(pattern, number)


def _packet_time(packet: av.Packet) -> Fraction:
    stamp = packet.pts if packet.pts is not None else packet.dts
    return (stamp or 0) * (packet.time_base or Fraction(0))


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

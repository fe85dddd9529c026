"""Recordings: what is read once goes into one file, or into parts that begin at a frame and a time of zero each."""

import contextlib
import threading
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av

from libranet.atomic import Claim, atomic_file
from libranet.engine.options import DehazeOptions, check_output, translate_io_errors
from libranet.engine.plan import RunPlan
from libranet.engine.segments import OutputClock, prepare_for_encoder
from libranet.video.excerpt import Excerpt
from libranet.video.mux import ZERO_BASED, OutputFile, zero_time
from libranet.video.reader import SourceFrame, VideoReader, frame_duration
from libranet.video.source import Source, is_pattern, numbered_name
from libranet.video.verify import verify


def recording_excerpt(reader: VideoReader, target: Path, options: DehazeOptions, *, live: bool) -> Excerpt:
    """Return which part of the source's clock the output covers. A live recording begins at zero."""
    suffix, cut = target.suffix.lower(), live or options.start > 0
    start = reader.first_time + Fraction(options.start).limit_denominator(1_000_000)
    end = None
    if options.end is not None:
        end = reader.first_time + Fraction(options.end).limit_denominator(1_000_000)
    first = start if cut else reader.first_frame
    zero = zero_time(reader, suffix, first_frame=first, cut=cut)
    return Excerpt(zero, end, first if suffix in ZERO_BASED else None, chosen=options.start > 0)


class Recording:
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

    def __enter__(self) -> "Recording":
        return self

    def __exit__(self, *_: object) -> None:
        if not self._finished:
            self._output.abandon()
            self._delete()

    def write(self, frame: SourceFrame) -> None:
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
        with self._lock:
            if self._border is not None and _packet_time(packet) >= self._border:
                self._waiting.append(packet)
            else:
                self._copy(packet)

    def finish(self) -> None:
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

"""Where the frames of a stream go: a recording in one or more files, or y4m for another program."""

import threading
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import IO

import av

from libranet.atomic import atomic_file
from libranet.engine.options import DehazeOptions, check_output, translate_io_errors
from libranet.engine.plan import RunPlan, drawn_size, output_size
from libranet.engine.segments import OutputClock, prepare_for_encoder
from libranet.video.copied_stream import Excerpt
from libranet.video.mux import JoinReport, OutputFile, copy_chapters
from libranet.video.pixels import layout_of
from libranet.video.reader import SourceFrame, VideoReader, frame_duration
from libranet.video.scale import scaled_tags
from libranet.video.source import Source, is_pattern, numbered_name
from libranet.video.verify import verify
from libranet.video.y4m import write_y4m_frame, y4m_header


class LiveFile:
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

    def abandon(self) -> None:
        """Close after an error."""
        self._output.abandon()

    def report(self) -> JoinReport:
        """Return what was written."""
        return self._output.report()


class Recording:
    """A recording in one file, or in parts that begin at a frame and a time of zero each.

    Every part appears under its name when it is complete and read back, so a crash costs one part at most. Frames and
    packets may come from two threads. Packets that are ahead of the frames wait for the part that they belong to.
    """

    def __init__(
        self,
        target: Path,
        plan: RunPlan,
        reader: VideoReader,
        excerpt: Excerpt,
        *,
        seconds: float | None = None,
        overwrite: bool = False,
    ) -> None:
        """Begin the first part.

        Args:
            target: The file. Parts are numbered in the place of %04d, or before the suffix.
            plan: Of the run.
            reader: The source.
            excerpt: The part of the source's clock to record.
            seconds: Length of a part; None records into one file.
            overwrite: Replace existing files.
        """
        self._target, self._plan, self._reader, self._excerpt = target, plan, reader, excerpt
        self._seconds = None if seconds is None else Fraction(seconds).limit_denominator(1000)
        self._overwrite = overwrite
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
            self._file.abandon()
            self._delete()

    def write(self, frame: SourceFrame) -> None:
        """Encode a frame."""
        time = frame.pts * self._reader.time_base
        with self._lock:
            if self._start is None:
                self._start = time
            if self._border is not None and time >= self._border:
                self._next_part(time)
        self._file.write(frame)

    def copy(self, packet: av.Packet) -> None:
        """Copy a packet of another stream."""
        with self._lock:
            if self._border is not None and _packet_time(packet) >= self._border:
                self._waiting.append(packet)
            else:
                self._file.copy(packet)

    def finish(self) -> None:
        """Finish the last part."""
        with self._lock:
            for packet in self._waiting:
                self._file.copy(packet)
            self._end()
            self._finished = True

    @property
    def _border(self) -> Fraction | None:
        """The time from which on a frame begins the next part."""
        return None if self._seconds is None or self._start is None else self._start + self._seconds

    def _begin(self, excerpt: Excerpt) -> None:
        path = self._target if self._seconds is None else self._part()
        self._atomic = atomic_file(path, suffix=path.suffix)
        self._temporary = self._atomic.__enter__()
        self._path = path
        try:
            self._file = LiveFile(self._temporary, self._plan, self._reader, excerpt)
        except BaseException:
            self._delete()
            raise

    def _delete(self) -> None:
        """Delete the unfinished part."""
        with suppress(Exception):
            self._atomic.__exit__(RuntimeError, RuntimeError(), None)

    def _part(self) -> Path:
        self._number = _free_number(self._target, self._number + 1, overwrite=self._overwrite)
        return part_name(self._target, self._number)

    def _next_part(self, time: Fraction) -> None:
        waiting, self._waiting = self._waiting, []
        for packet in waiting:
            if _packet_time(packet) < time:
                self._file.copy(packet)
        self._end()
        self._start = time
        self._begin(replace(self._excerpt, start=time))
        for packet in waiting:
            if _packet_time(packet) >= time:
                self.copy(packet)

    def _end(self) -> None:
        self._file.finish()
        report = self._file.report()
        self.problems += verify(self._temporary, report.written)
        self.notes += report.notes
        self._atomic.__exit__(None, None, None)
        self.files.append(self._path)


def part_name(target: Path, number: int) -> Path:
    """Return the name of a part of a recording."""
    if is_pattern(target):
        return numbered_name(str(target), number)
    return target.with_name(f"{target.stem}-{number:04d}{target.suffix}")


def check_recording(source: Source | str, target: Path, *, parts: bool, overwrite: bool) -> None:
    """Refuse a recording that would replace a file, or cannot be written, before it begins."""
    first = part_name(target, _free_number(target, 1, overwrite=overwrite)) if parts else target
    check_output(source, first, overwrite=overwrite)


def _free_number(target: Path, number: int, *, overwrite: bool) -> int:
    """Return the next number whose file may be written: a recording that is started again goes on counting."""
    while not overwrite and part_name(target, number).exists():
        number += 1
    return number


def _packet_time(packet: av.Packet) -> Fraction:
    stamp = packet.pts if packet.pts is not None else packet.dts
    return (stamp or 0) * (packet.time_base or Fraction(0))


class Y4mSink:
    """Writes raw frames for another program."""

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

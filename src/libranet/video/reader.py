"""Decoding: frames in order with exact timestamps, past damage where that is possible."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal

import av
from av.stream import Disposition

from libranet.errors import InputError
from libranet.file_names import is_image_name
from libranet.frames.values import MAX_PIXELS
from libranet.video.clock import first_time, may_jump
from libranet.video.decoding import Damage, FrameDecoder, duration_from, from_key_frame, read_packets, shown_frames
from libranet.video.opening import CountedFile, decodes_on_gpu, open_on_gpu, open_source, open_y4m
from libranet.video.pixels import is_opaque, planar_name, to_planar
from libranet.video.pyav import deinterlaced, open_input, side_data_names
from libranet.video.source import Source, parse_source
from libranet.video.tags import VideoTags, read_tags

if TYPE_CHECKING:
    from libranet.video.arrival import Arrivals

DecoderName = Literal["cpu", "cuda"]
"""What decodes a file."""
MIN_SIDE = 16
DEFAULT_RATE = 25.0
"""Frames per second of images without times."""


@dataclass(frozen=True)
class SourceFrame:
    """A decoded frame in a planar format. It keeps every property that FFmpeg gave it."""

    image: av.VideoFrame
    pts: int
    """Presentation time in units of the reader's time base."""
    duration: int
    """In the same units; 0 where the file does not say."""

    def time(self, time_base: Fraction) -> float:
        """Presentation time in seconds."""
        return float(self.pts * time_base)


class FormatChangeError(InputError):
    """The frame size, the pixel format or the interlacing changes in the middle. The frames before are good."""


@dataclass
class VideoReader:
    """An opened video. Iterate `frames()` once; `damage` is complete afterwards."""

    name: str
    time_base: Fraction
    rate: Fraction
    tags: VideoTags
    pixel_format: str
    width: int
    height: int
    demuxed: Iterator[av.VideoFrame | av.Packet]
    """From the beginning: decoded frames, and packets of the other streams."""
    container: av.container.InputContainer | None = None
    """None for images and cameras."""
    stream: av.VideoStream | None = None
    codec: str = "rawvideo"
    """FFmpeg's name of the video codec."""
    duration: float | None = None
    """In seconds; None where the file does not say."""
    deinterlace: bool = False
    source: Source | None = None
    frame_count: int | None = None
    """Number of frames, or None where the file does not say."""
    first_frame: Fraction = Fraction(0)
    """Time of the first frame, in seconds."""
    first_time: Fraction = Fraction(0)
    """Where the source's clock begins, in seconds. `--start` and `--end` count from here."""
    damage: Damage = field(default_factory=Damage)
    notes: list[str] = field(default_factory=list)
    """What the user should know about this source."""
    on_packet: Callable[[av.Packet], None] | None = None
    """Called with each packet of the other streams. Set it before reading."""
    first_packets: tuple[av.Packet, ...] = ()
    """Packets of the other streams that came before the first frame."""
    counted: CountedFile | None = None
    """Where y4m from another program is read."""
    opaque: bool = False
    """The first frame has alpha, but nothing in it is transparent."""
    watch_alpha: bool = False
    """Alpha is dropped because it is opaque: count frames where it is not."""
    side_data: frozenset[str] = frozenset()
    """FFmpeg's types of side data that the first frame has."""
    further: list[av.container.InputContainer] = field(default_factory=list)
    """The source opened again, after it was lost."""
    closed: bool = False
    arrivals: "Arrivals | None" = None
    """When frames came, for live outputs."""
    _reading: bool = False

    def frames(self, *, start: float = 0.0, end: float | None = None) -> Iterator[SourceFrame]:
        """Decode from `start` (included) to `end` (excluded), in seconds since the beginning of the video.

        Raises:
            FormatChangeError: The frame size or the pixel format changes.
            InputError: The video is interlaced and `deinterlace` is off.
        """
        last_pts: int | None = None
        step = frame_duration(self.rate, self.time_base)
        begin = float(self.first_time) + start
        seen_end, longest = 0.0, step
        images = self._checked(self.images(begin if start > 0 else None), begin if start > 0 else None)
        for image in deinterlaced(images, self.time_base) if self.deinterlace else images:
            pts, duration = self._presentation_time(image, last_pts, step), int(image.duration or 0)
            longest = longest if last_pts is None else max(longest, pts - last_pts)
            last_pts, time = pts, float(pts * self.time_base)
            if end is not None and time >= float(self.first_time) + end:
                return
            seen_end = float((pts + (duration or step)) * self.time_base)
            if start == 0 or time >= begin:
                if image.is_corrupt:
                    self.damage.frames += 1
                planar = to_planar(image)
                if self.watch_alpha and not is_opaque(planar):
                    self.damage.transparent += 1
                yield SourceFrame(planar, pts, duration)
        from libranet.video.wholeness import note_losses

        note_losses(self, seen_end=seen_end, step=longest, whole=start == 0)

    def close(self) -> None:
        """Release the file. One that another thread still waits for is left to the end of the process."""
        self.closed = True
        if self.container is not None and not self._reading:
            for container in (self.container, *self.further):
                container.close()

    def __enter__(self) -> "VideoReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def images(self, begin: float | None) -> Iterator[av.VideoFrame]:
        """Decode from shortly before a time of the source's clock, unchecked, or from the beginning."""
        for item in self._marked(self.demuxed if begin is None else self._seek(begin)):
            if isinstance(item, av.VideoFrame):
                yield item
            elif self.on_packet is not None:
                self.on_packet(item)

    def _marked(self, items: Iterator[av.VideoFrame | av.Packet]) -> Iterator[av.VideoFrame | av.Packet]:
        """Note while FFmpeg reads: closing a container under its hands would crash."""
        while True:
            self._reading = True
            try:
                item = next(items, None)
            finally:
                self._reading = False
            if item is None:
                return
            yield item

    def _seek(self, begin: float) -> Iterator[av.VideoFrame | av.Packet]:
        """Begin shortly before a time. Where the clock may jump, read up to it, but decode only what is needed."""
        if self.container is None or self.stream is None or self.source is None or not self.source.can_reopen:
            return self.demuxed
        pts = int(begin / self.time_base)
        if may_jump(self.container):
            return self._from_beginning(pts)
        try:
            self.container.seek(pts, stream=self.stream, backward=True)
        except av.FFmpegError:
            return self.demuxed
        packets = read_packets(self.container, self.damage)
        return decode_packets(packets, self.stream, self.source, self.damage)

    def _from_beginning(self, pts: int) -> Iterator[av.VideoFrame | av.Packet]:
        assert self.source is not None
        assert self.stream is not None
        with open_input(self.source.location) as container:
            stream = container.streams[self.stream.index]
            assert isinstance(stream, av.VideoStream)
            packets = from_key_frame(read_packets(container, self.damage), stream.index, pts)
            yield from decode_packets(packets, stream, self.source, self.damage)

    def _presentation_time(self, image: av.VideoFrame, last_pts: int | None, step: int) -> int:
        pts = image.pts
        if pts is not None and image.time_base and image.time_base != self.time_base:
            pts = round(pts * image.time_base / self.time_base)
        if pts is None or (last_pts is not None and pts <= last_pts):
            pts = 0 if last_pts is None else last_pts + step
            self.damage.repaired_times += 1
        return pts

    def _checked(self, images: Iterator[av.VideoFrame], begin: float | None) -> Iterator[av.VideoFrame]:
        """Check the frames. Those of another format before the time `begin` belong to a part that nobody asked for."""
        for number, image in enumerate(images):
            if begin is not None and not self.fits(image) and _seconds(image, self.time_base) < begin:
                continue
            self._check(image, first=number == 0)
            yield image

    def fits(self, image: av.VideoFrame) -> bool:
        """Return whether a frame has the size and the pixel format that the reader is prepared for."""
        same_size = (image.width, image.height) == (self.width, self.height)
        return same_size and planar_name(image.format.name) == self.pixel_format

    def _check(self, image: av.VideoFrame, *, first: bool) -> None:
        when = max(0.0, float((image.pts or 0) * self.time_base - self.first_time))
        changes = []
        if (image.width, image.height) != (self.width, self.height):
            changes.append(f"its frame size from {self.width}x{self.height} to {image.width}x{image.height}")
        if (name := planar_name(image.format.name)) != self.pixel_format:
            changes.append(f"its pixel format from {self.pixel_format} to {name}")
        if changes:
            raise FormatChangeError(
                f"{self.name} changes {' and '.join(changes)} at {when:.3f} s: "
                f"dehaze the rest on its own with --start {when:.3f}"
            )
        if image.interlaced_frame and not self.deinterlace:
            if not first:
                raise FormatChangeError(
                    f"{self.name} is interlaced from {when:.3f} s on, which dehazing would smear: "
                    "dehaze it again with --deinterlace"
                )
            raise InputError(f"{self.name} is interlaced, which dehazing would smear: add --deinterlace")


def frame_duration(rate: Fraction, time_base: Fraction) -> int:
    """Return the usual duration of a frame in units of the time base."""
    return max(1, round(1 / (rate * time_base)))


def open_video(
    source: Source | str | Path | IO[bytes],
    *,
    deinterlace: bool = False,
    rate: float | None = None,
    decoder: DecoderName = "cpu",
    start: float = 0.0,
    arrivals: "Arrivals | None" = None,
) -> VideoReader:
    """Open a video and decode its first frame.

    Args:
        source: A parsed source, or what `parse_source` takes, or an open file with y4m.
        deinterlace: Deinterlace the frames. Without it, interlaced video is an error.
        rate: Frames per second of an image sequence.
        decoder: What decodes. Where an NVIDIA GPU (`cuda`) cannot, the CPU does, and `notes` says so.
        start: Where reading will begin, in seconds: frame size and pixel format may differ from those of the beginning.
        arrivals: Notes when frames come. The decoder then holds none back, as it does with several threads.

    Raises:
        InputError: The source cannot be read, or holds no video.
    """
    if isinstance(source, str | Path):
        source = parse_source(source)
    if isinstance(source, Source):
        if source.kind == "folder":
            raise InputError(f"{source.name} is a folder: give a file")
        if source.kind == "camera":
            from libranet.video.camera import open_camera

            return open_camera(source.name, arrivals)
        if (images := _as_images(source)) is not None:
            from libranet.video.image_reader import open_images

            rate = DEFAULT_RATE if rate is None else rate
            if not 0.001 <= rate <= 100_000:
                raise InputError(f"expected --fps from 0.001 to 100000, got {rate}")
            return open_images(source, images, rate=Fraction(rate).limit_denominator(100000))
    name = source.name if isinstance(source, Source) else str(getattr(source, "name", "the stream"))
    why = ""
    if isinstance(source, Source):
        opened, why = open_on_gpu(source) if decoder == "cuda" else (None, "")
        counted, container = None, opened or open_source(source)
    else:
        counted = CountedFile(source)
        container = open_y4m(counted, name)
    try:
        reader = _prepare(name, container, source if isinstance(source, Source) else None, deinterlace, arrivals)
        reader.counted = counted
        if decoder == "cuda" and not why and not decodes_on_gpu(reader.stream):
            why = f"it does not take {reader.codec} as {reader.pixel_format}"
        if why:
            reader.notes.append(f"the GPU cannot decode {name} ({why}): the CPU does")
        if reader.source is not None and reader.source.path is not None and is_image_name(reader.source.path):
            from libranet.video.image_reader import metadata_notes

            reader.notes += metadata_notes(reader.source.path)
        if start > 0 and reader.source is not None and reader.source.can_reopen:
            _take_format_at(reader, reader.source, start)
        return reader
    except BaseException:
        container.close()
        raise


def check_frame_size(name: str, frame: av.VideoFrame) -> None:
    """Refuse frames that are too small for the network, or too large for memory."""
    if min(frame.width, frame.height) < MIN_SIDE:
        raise InputError(f"{name} is {frame.width}x{frame.height}: expected at least {MIN_SIDE}x{MIN_SIDE} pixels")
    if frame.width * frame.height > MAX_PIXELS:
        raise InputError(
            f"{name} is {frame.width}x{frame.height}: frames of more than {MAX_PIXELS >> 20} million pixels do not fit "
            "into memory, make it smaller first"
        )


def main_video_stream(container: av.container.InputContainer) -> av.VideoStream | None:
    """Return the first video stream that is not cover art."""
    moving = [s for s in container.streams.video if not s.disposition & Disposition.attached_pic]
    return moving[0] if moving else None


def _prepare(
    name: str,
    container: av.container.InputContainer,
    source: Source | None,
    deinterlace: bool,
    arrivals: "Arrivals | None",
) -> VideoReader:
    stream = main_video_stream(container)
    if stream is None:
        kinds = ", ".join(sorted({s.type for s in container.streams})) or "no"
        raise InputError(f"{name} has no video stream (only {kinds} streams): give a file with video")
    if stream.codec_context is None:
        raise InputError(f"{name} uses a video codec that this FFmpeg cannot decode: convert it to H.264 first")
    damage = Damage()
    packets = read_packets(container, damage)
    packets = packets if arrivals is None else arrivals.noted(packets, stream)
    demuxed = decode_packets(packets, stream, source, damage)
    head: list[av.VideoFrame | av.Packet] = []
    for item in demuxed:
        head.append(item)
        if isinstance(item, av.VideoFrame):
            break
    if not head or not isinstance(frame := head[-1], av.VideoFrame):
        raise InputError(
            f"{name} has a video stream, but no frame of it can be decoded: it is damaged, or its server cannot seek"
        )
    check_frame_size(name, frame)
    rate = stream.average_rate or stream.guessed_rate or Fraction(25)
    time_base = stream.time_base or 1 / rate
    first_frame = Fraction(frame.pts or 0) * (frame.time_base or time_base)
    return VideoReader(
        name=name,
        container=container,
        stream=stream,
        codec=stream.codec_context.codec.canonical_name,
        time_base=time_base,
        rate=rate,
        tags=read_tags(frame, stream),
        pixel_format=to_planar(frame).format.name,
        width=frame.width,
        height=frame.height,
        duration=duration_from(container, stream, first_frame),
        deinterlace=deinterlace,
        demuxed=chain(head, demuxed),
        source=source,
        frame_count=shown_frames(stream) or None,
        first_frame=first_frame,
        first_time=first_time(container, (stream.start_time or 0) * time_base),
        first_packets=tuple(item for item in head if isinstance(item, av.Packet)),
        opaque=is_opaque(to_planar(frame)),
        side_data=side_data_names(frame),
        damage=damage,
        arrivals=arrivals,
    )


def _take_format_at(reader: VideoReader, source: Source, start: float) -> None:
    """Prepare for the frames from a time on, where they differ from the first ones."""
    begin = float(reader.first_time) + start
    with open_video(source) as again:
        assert again.stream is not None
        image = next((image for image in again.images(begin) if _seconds(image, again.time_base) >= begin), None)
        if image is None or again.fits(image):
            return
        reader.width, reader.height = image.width, image.height
        reader.pixel_format = to_planar(image).format.name
        reader.tags = read_tags(image, again.stream)
        reader.opaque = is_opaque(to_planar(image))


def _seconds(image: av.VideoFrame, time_base: Fraction) -> float:
    """Return the time of a frame; that of the end of time where it has none."""
    return float("inf") if image.pts is None else float(image.pts * (image.time_base or time_base))


def decode_packets(
    packets: Iterator[av.Packet], stream: av.VideoStream, source: Source | None, damage: Damage
) -> Iterator[av.VideoFrame | av.Packet]:
    """Yield the frames of `stream` and the packets of all other streams."""
    decoder, last = FrameDecoder(stream, damage), None
    counts = stream.container.format.name == "hls"
    corrupt = False  # the packet before: a recording may end in the middle of the last one
    for packet in packets:
        if packet.stream.index != stream.index:
            yield packet
            continue
        damage.video_packets += packet.size > 0
        if counts and packet.pts is not None and packet.size:
            damage.times.append(time := float(packet.pts * packet.time_base))
            damage.keys.extend([time] * packet.is_keyframe)
        damage.corrupt, corrupt = damage.corrupt + corrupt, packet.is_corrupt
        for frame in decoder.decode(packet):
            last = frame.pts
            yield frame
    for frame in decoder.drain():
        last = frame.pts
        yield frame
    recovered = 0
    if decoder.missing and last is not None and source is not None and source.can_reopen:
        for frame in _tail(source, stream.index, last):
            recovered += 1
            yield frame
    damage.lost += max(0, decoder.missing - recovered)


def _tail(source: Source, index: int, last: int) -> Iterator[av.VideoFrame]:
    """Decode what comes after time `last` once more, on one thread.

    A decoder with many threads still holds as many frames when the packets end, and gives up at the first damaged one.
    """
    unused = Damage()
    with open_input(source.location) as container:
        stream = container.streams[index]
        assert isinstance(stream, av.VideoStream)
        decoder = FrameDecoder(stream, unused, threads=False)
        for packet in from_key_frame(read_packets(container, unused), index, last):
            if packet.stream.index == index:
                yield from (frame for frame in decoder.decode(packet) if frame.pts is not None and frame.pts > last)
        yield from (frame for frame in decoder.drain() if frame.pts is not None and frame.pts > last)


def _as_images(source: Source) -> int | None:
    """Return the number of images that make up this video, or None where FFmpeg reads it."""
    if source.kind == "sequence":
        return len(source.files)
    if source.kind == "file" and source.path is not None and source.path.suffix.lower() in (".webp", ".tif", ".tiff"):
        from libranet.images import count_images  # only runs over images load their formats

        return count_images(source.path)
    return None

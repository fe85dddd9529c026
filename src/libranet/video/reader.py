"""Decoding: frames in order with exact timestamps, past damage where that is possible."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import IO

import av
from av.stream import Disposition

from libranet.errors import InputError
from libranet.video.pixels import to_planar
from libranet.video.pyav import deinterlaced, open_input
from libranet.video.tags import VideoTags, read_tags

MIN_SIDE = 16
NETWORK_TIMEOUT = 20.0
"""Seconds to wait for a network source."""


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


@dataclass
class Damage:
    """What went wrong while reading. The run continues; its exit code says that the output is partial."""

    packets: int = 0
    """Packets that could not be decoded."""
    frames: int = 0
    """Frames that the decoder marked as damaged."""
    truncated: str = ""
    """Why the video ended before its end, or nothing."""
    read_to: float = 0.0
    """Seconds up to which packets of any stream came."""
    repaired_times: int = 0
    """Frames without a usable timestamp. They got the next free one."""

    def __bool__(self) -> bool:
        return bool(self.packets or self.frames or self.truncated)

    def sentence(self) -> str:
        """One sentence for the user."""
        parts = []
        if self.packets or self.frames:
            parts.append(f"{self.packets} damaged packets were skipped and {self.frames} frames show damage")
        if self.truncated:
            parts.append(self.truncated)
        return "; ".join(parts)


class SizeChangeError(InputError):
    """The frame size changes in the middle. The frames before are good."""


@dataclass
class VideoReader:
    """An opened video. Iterate `frames()` once; `damage` is complete afterwards."""

    name: str
    container: av.container.InputContainer | None
    """None for a camera."""
    stream: av.VideoStream | None
    codec: str
    """FFmpeg's name of the video codec."""
    time_base: Fraction
    rate: Fraction
    tags: VideoTags
    pixel_format: str
    width: int
    height: int
    duration: float | None
    """In seconds; None where the file does not say."""
    deinterlace: bool
    demuxed: Iterator[av.VideoFrame | av.Packet]
    """From the beginning: decoded frames, and packets of the other streams."""
    damage: Damage = field(default_factory=Damage)
    on_packet: Callable[[av.Packet], None] | None = None
    """Called with each packet of the other streams. Set it before reading."""

    @property
    def frame_count(self) -> int | None:
        """Number of frames, or None where the file does not say."""
        return (self.stream.frames or None) if self.stream is not None else None

    def frames(self, *, start: float = 0.0, end: float | None = None) -> Iterator[SourceFrame]:
        """Decode from `start` (included) to `end` (excluded), in seconds of the video's own clock.

        Raises:
            SizeChangeError: The frame size changes.
            InputError: The video is interlaced and `deinterlace` is off.
        """
        last_pts: int | None = None
        step = frame_duration(self.rate, self.time_base)
        seen_end = 0.0
        images = self._images(start)
        for image in deinterlaced(images, self.time_base) if self.deinterlace else images:
            pts, duration = self._presentation_time(image, last_pts, step), int(image.duration or 0)
            last_pts, time = pts, float(pts * self.time_base)
            if end is not None and time >= end:
                return
            seen_end = float((pts + (duration or step)) * self.time_base)
            if time >= start:
                self._check(image)
                yield SourceFrame(to_planar(image), pts, duration)
        self._note_truncation(seen_end, step)

    def close(self) -> None:
        """Release the file."""
        if self.container is not None:
            self.container.close()

    def __enter__(self) -> "VideoReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _images(self, start: float) -> Iterator[av.VideoFrame]:
        demuxed = self.demuxed
        if start > 0 and self._seek(start):
            assert self.container is not None
            assert self.stream is not None
            demuxed = _demux(self.container, self.stream, self.damage)
        for item in demuxed:
            if isinstance(item, av.VideoFrame):
                yield item
            elif self.on_packet is not None:
                self.on_packet(item)

    def _seek(self, start: float) -> bool:
        if self.container is None:
            return False
        try:
            self.container.seek(int(start / self.time_base), stream=self.stream, backward=True)
        except av.FFmpegError:
            return False
        return True

    def _presentation_time(self, image: av.VideoFrame, last_pts: int | None, step: int) -> int:
        pts = image.pts
        if pts is not None and image.time_base and image.time_base != self.time_base:
            pts = round(pts * image.time_base / self.time_base)
        if pts is None or (last_pts is not None and pts <= last_pts):
            pts = 0 if last_pts is None else last_pts + step
            self.damage.repaired_times += 1
        return pts

    def _check(self, image: av.VideoFrame) -> None:
        if (image.width, image.height) != (self.width, self.height):
            when = float((image.pts or 0) * self.time_base)
            raise SizeChangeError(
                f"{self.name} changes its frame size from {self.width}x{self.height} to {image.width}x{image.height} "
                f"at {when:.3f} s: dehaze the rest on its own with --start {when:.3f}"
            )
        if image.is_corrupt:
            self.damage.frames += 1
        if image.interlaced_frame and not self.deinterlace:
            raise InputError(f"{self.name} is interlaced, which dehazing would smear: add --deinterlace")

    def _note_truncation(self, seen_end: float, step: int) -> None:
        if self.damage.truncated or self.stream is None or self.container is None:
            return
        stream_length = _stream_duration(self.stream)
        if stream_length is not None:
            start = float((self.stream.start_time or 0) * self.time_base)
            missing = start + stream_length - seen_end
            slack = max(1.6 * step * float(self.time_base), 0.02 * stream_length) + 0.005
        elif self.container.duration:  # of the longest stream
            length = self.container.duration / av.time_base
            missing = (self.container.start_time or 0) / av.time_base + length - self.damage.read_to
            slack = 0.5 + 0.02 * length
        else:
            return
        if missing > slack:
            self.damage.truncated = f"the video ends {missing:.2f} s before the end that its header gives"


def frame_duration(rate: Fraction, time_base: Fraction) -> int:
    """Return the usual duration of a frame in units of the time base."""
    return max(1, round(1 / (rate * time_base)))


def open_video(source: str | Path | IO[bytes], *, deinterlace: bool = False, rate: float | None = None) -> VideoReader:
    """Open a video and decode its first frame.

    Args:
        source: A file, an address, a numbered image sequence such as frame_%04d.png, or an open file with y4m.
        deinterlace: Deinterlace the frames. Without it, interlaced video is an error.
        rate: Frames per second of an image sequence.

    Raises:
        InputError: The source cannot be read, or holds no video.
    """
    name = str(source if isinstance(source, str | Path) else getattr(source, "name", "the stream"))
    if isinstance(source, str | Path):
        _refuse_hopeless(source)
    container = _open(source, name, {"framerate": str(rate)} if rate else {})
    try:
        return _prepare(name, container, deinterlace)
    except BaseException:
        container.close()
        raise


def main_video_stream(container: av.container.InputContainer) -> av.VideoStream | None:
    """Return the first video stream that is not cover art."""
    moving = [s for s in container.streams.video if not s.disposition & Disposition.attached_pic]
    return moving[0] if moving else None


def _prepare(name: str, container: av.container.InputContainer, deinterlace: bool) -> VideoReader:
    stream = main_video_stream(container)
    if stream is None:
        kinds = ", ".join(sorted({s.type for s in container.streams})) or "no"
        raise InputError(f"{name} has no video stream (only {kinds} streams): give a file with video")
    if stream.codec_context is None:
        raise InputError(f"{name} uses a video codec that this FFmpeg cannot decode: convert it to H.264 first")
    stream.thread_type = "AUTO"
    damage = Damage()
    demuxed = _demux(container, stream, damage)
    head: list[av.VideoFrame | av.Packet] = []
    for item in demuxed:
        head.append(item)
        if isinstance(item, av.VideoFrame):
            break
    if not head or not isinstance(frame := head[-1], av.VideoFrame):
        raise InputError(
            f"{name} has a video stream, but no frame of it can be decoded: it is damaged, or its server cannot seek"
        )
    if min(frame.width, frame.height) < MIN_SIDE:
        raise InputError(f"{name} is {frame.width}x{frame.height}: expected at least {MIN_SIDE}x{MIN_SIDE} pixels")
    rate = stream.average_rate or stream.guessed_rate or Fraction(25)
    time_base = stream.time_base or 1 / rate
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
        duration=_duration(container, stream),
        deinterlace=deinterlace,
        demuxed=chain(head, demuxed),
        damage=damage,
    )


def _demux(
    container: av.container.InputContainer, stream: av.VideoStream, damage: Damage
) -> Iterator[av.VideoFrame | av.Packet]:
    """Yield the frames of `stream` and the packets of all other streams."""
    packets = container.demux()
    while True:
        try:
            packet = next(packets, None)
        except (av.FFmpegError, OSError) as error:
            damage.truncated = f"the file cannot be read beyond this point ({_reason(error)})"
            packet = None
        if packet is None:
            break
        if packet.pts is not None and packet.time_base:
            damage.read_to = max(damage.read_to, float((packet.pts + (packet.duration or 0)) * packet.time_base))
        if packet.stream.index != stream.index:
            yield packet
            continue
        try:
            frames = stream.decode(packet)
        except av.FFmpegError:
            damage.packets += 1
            continue
        yield from frames
    if damage.truncated:
        try:
            yield from stream.decode(None)
        except (av.FFmpegError, EOFError):
            return


def _duration(container: av.container.InputContainer, stream: av.VideoStream) -> float | None:
    length = _stream_duration(stream)
    if length is None and container.duration:
        return container.duration / av.time_base
    return length


def _stream_duration(stream: av.VideoStream) -> float | None:
    if stream.duration and stream.time_base:
        return float(stream.duration * stream.time_base)
    if tag := stream.metadata.get("DURATION"):
        hours, minutes, seconds = tag.split(":")
        start = float((stream.start_time or 0) * (stream.time_base or 0))
        return int(hours) * 3600 + int(minutes) * 60 + float(seconds) - start
    return None


def _refuse_hopeless(source: str | Path) -> None:
    if "://" in str(source) or "%" in str(source) or str(source).startswith("/dev/"):
        return
    path = Path(source)
    if not path.exists():
        raise InputError(f"there is no file {path}: check the path")
    if path.is_dir():
        raise InputError(f"{path} is a folder: give a file")
    if path.is_file() and path.stat().st_size == 0:
        raise InputError(f"{path} is empty (0 bytes): copy or record it again")
    if not os.access(path, os.R_OK):
        raise InputError(f"{path} may not be read: change its permissions")


def _open(source: str | Path | IO[bytes], name: str, options: dict[str, str]) -> av.container.InputContainer:
    try:
        if not isinstance(source, str | Path):
            return open_input(source, format_name="yuv4mpegpipe")
        if "://" in name:
            options = {"rtsp_transport": "tcp"} if name.startswith("rtsp") else {}
            return open_input(name, options=options, timeout=NETWORK_TIMEOUT)
        return open_input(name, options=options)
    except (av.FFmpegError, OSError, ValueError) as error:
        head = _head(name)
        if b"ftyp" in head:
            raise InputError(
                f"{name} is an mp4 or mov file without its index ({_reason(error)}): the recording was cut off, "
                "repair it with a tool such as untrunc first"
            ) from None
        raise InputError(f"{name} is not a video that FFmpeg can read ({_reason(error)}): check the file") from None


def _head(name: str) -> bytes:
    try:
        with open(name, "rb") as file:
            return file.read(16)
    except OSError:
        return b""


def _reason(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return str(text).split("\n")[0]

"""Output containers: encoded frames from segments, all other streams copied packet by packet, and raw y4m."""

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

import av
from av.stream import Disposition

from libranet.errors import InputError
from libranet.video.encoder import EncoderSettings, configure
from libranet.video.packets import decode_times, read_packets, read_times, reorder_delay
from libranet.video.pixels import layout_of, plane_views
from libranet.video.pyav import open_input
from libranet.video.reader import frame_duration, main_video_stream
from libranet.video.tags import TITLE_FILLER, VideoTags, write_matroska_tags

_STALE_METADATA = ("major_brand", "minor_version", "compatible_brands", "encoder", "ENCODER", "DURATION")
"""Facts about the source file. The muxer writes its own."""
_REWRITTEN_HANDLERS = ("SubtitleHandler", "TimeCodeHandler", "Time Code Media Handler", "Core Media Time Code")
_MP4 = (".mp4", ".m4v", ".mov")
_MATROSKA = (".mkv", ".webm")
_PLAIN_MP4_KEYS = {
    "title", "artist", "album_artist", "album", "date", "comment", "genre", "copyright", "description", "synopsis",
    "composer", "encoder", "creation_time", "lyrics", "keywords", "show", "episode_id", "network", "rating",
}  # fmt: skip
_TEXT_CODEC = {".mp4": "mov_text", ".m4v": "mov_text", ".mov": "mov_text", ".mkv": "subrip", ".webm": "webvtt"}
_READABLE = ("subrip", "mov_text", "webvtt", "text")
_CHROMA = {(2, 2): "420", (2, 1): "422", (1, 1): "444", (4, 1): "411"}
_SITING = {"center": "420jpeg", "left": "420mpeg2", "topleft": "420paldv"}


@dataclass(frozen=True)
class Excerpt:
    """The part of the source that the output covers, in seconds."""

    start: Fraction = Fraction(0)
    """This time of the source becomes zero."""
    end: Fraction | None = None
    """Copied packets stop here; None copies to the end."""


@dataclass(frozen=True)
class JoinReport:
    """How many of the source's other streams were copied, and which were not."""

    copied: int
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class SubtitleCopy:
    """Repacks the packets of a plain-text subtitle stream for another codec."""

    source: str
    codec: str

    @staticmethod
    def between(stream: Any, suffix: str) -> "SubtitleCopy | None":
        """Return None where the container takes the stream as it is, or the stream is no plain text."""
        name = stream.codec_context.codec.canonical_name if stream.codec_context else ""
        target = _TEXT_CODEC.get(suffix)
        if target is None or name == target or name not in _READABLE:
            return None
        if suffix == ".mkv" and name != "mov_text":
            return None
        return SubtitleCopy(name, target)

    def packet(self, packet: av.Packet) -> av.Packet:
        """Repack a packet: the same text at the same time."""
        data = bytes(packet)
        if self.source == "mov_text":
            data = data[2 : 2 + int.from_bytes(data[:2], "big")]
        if self.codec == "mov_text":
            data = len(data).to_bytes(2, "big") + data
        repacked = av.Packet(data)
        repacked.pts, repacked.dts, repacked.duration = packet.pts, packet.dts, packet.duration
        repacked.time_base = packet.time_base
        repacked.is_keyframe = True
        return repacked


class CopiedStream:
    """A stream of the source and its copy in the output."""

    def __init__(self, source: Any, target: Any, subtitle: SubtitleCopy | None) -> None:
        self.source, self.target, self._subtitle = source, target, subtitle

    def packet(self, packet: av.Packet, excerpt: Excerpt) -> av.Packet | None:
        """Return the packet for the output, or None where it lies outside the excerpt."""
        if self.source.disposition & Disposition.attached_pic:
            packet.pts = packet.dts = 0  # cover art has no time
            packet.stream = self.target
            return packet
        time_base = packet.time_base
        stamp = packet.pts if packet.pts is not None else packet.dts
        time = (stamp or 0) * time_base
        if (excerpt.start and time < excerpt.start) or (excerpt.end is not None and time >= excerpt.end):
            return None
        if self._empty_text(packet):
            return None  # marks a pause, which the muxer writes itself
        if self._subtitle is not None:
            packet = self._subtitle.packet(packet)
        shift = round(excerpt.start / time_base)
        packet.pts = None if packet.pts is None else packet.pts - shift
        packet.dts = None if packet.dts is None else packet.dts - shift
        packet.stream = self.target
        return packet

    def _empty_text(self, packet: av.Packet) -> bool:
        context = self.source.codec_context
        return packet.size == 2 and context is not None and context.name == "mov_text" and bytes(packet) == b"\0\0"


class OutputFile:
    """An output container with its video stream and the copied streams."""

    def __init__(self, path: Path, settings: EncoderSettings, source: av.container.InputContainer | None) -> None:
        self._path, self._settings = path, settings
        self._suffix = path.suffix.lower()
        self.left_out: list[str] = []
        self.copies: dict[int, CopiedStream] = {}
        plain = source is None or set(source.metadata) <= _PLAIN_MP4_KEYS | set(_STALE_METADATA)
        self.container = av.open(str(path), "w", container_options=_options(self._suffix, settings, plain))
        main = main_video_stream(source) if source is not None else None
        if source is None or main is None:
            self.video = self._add_video(None)
            return
        self.container.metadata.update({k: v for k, v in source.metadata.items() if k not in _STALE_METADATA})
        for stream in source.streams:
            if stream.index == main.index:
                self.video = self._add_video(stream)
            else:
                self._add_copy(stream)

    def write_header(self) -> None:
        """Write the header. Streams that the container refuses only fail here."""
        try:
            self.container.start_encoding()
        except av.FFmpegError as error:
            raise InputError(
                f"the {self._suffix} container refuses these streams ({error}): write to .mkv, or change --codec"
            ) from None

    def close(self) -> None:
        """Finish the file, and write the tags that PyAV cannot pass to the Matroska muxer."""
        self.container.close()
        if self._needs_matroska_tags():
            write_matroska_tags(self._path, self._settings.tags, self._title)

    def _needs_matroska_tags(self) -> bool:
        tags = self._settings.tags
        odd_shape = tags.sample_aspect_ratio not in (None, Fraction(1))
        return self._suffix in _MATROSKA and (odd_shape or tags.mastering is not None or tags.light_level is not None)

    def _add_video(self, source: Any) -> Any:
        settings = self._settings
        video: Any = self.container.add_stream(settings.encoder, rate=settings.rate, time_base=settings.time_base)
        configure(video.codec_context, settings)
        if settings.codec.startswith("hevc") and self._suffix in _MP4:
            video.codec_context.codec_tag = "hvc1"  # Apple's players read no other tag
        if settings.tags.display_matrix is not None:
            video.set_display_matrix(settings.tags.display_matrix)
        if source is not None:
            _copy_metadata(source, video)
        self._title = video.metadata.get("title", "")
        if self._needs_matroska_tags():
            video.metadata["title"] = self._title + TITLE_FILLER
        return video

    def _add_copy(self, stream: Any) -> None:
        what = f"{stream.type} stream {stream.index} ({stream.codec_context.name if stream.codec_context else 'data'})"
        subtitle = None
        try:
            if stream.type == "subtitle" and (subtitle := SubtitleCopy.between(stream, self._suffix)):
                target: Any = self.container.add_mux_stream(subtitle.codec)
                target.time_base = stream.time_base
            elif stream.type == "data" and self._suffix != ".ts":
                # The muxer writes the tracks for chapters and timecode itself; other data it refuses.
                if stream.metadata.get("handler_name") not in _REWRITTEN_HANDLERS:
                    self.left_out.append(f"{what} has no place in {self._suffix}")
                return
            else:
                target = self.container.add_stream_from_template(stream, opaque=True)
        except (ValueError, av.FFmpegError):
            self.left_out.append(f"{what} has no place in {self._suffix}: write to .mkv to keep it")
            return
        _copy_metadata(stream, target)
        if stream.type != "attachment":
            self.copies[stream.index] = CopiedStream(stream, target, subtitle)


def join(
    path: Path,
    settings: EncoderSettings,
    segments: list[Path],
    *,
    source: Path | None,
    excerpt: Excerpt,
) -> JoinReport:
    """Write the output file from finished segments.

    Args:
        path: The file to write.
        settings: Those that the segments were encoded with.
        segments: Files written by `PacketLog`, in order.
        source: The file whose other streams are copied; None for an image sequence.
        excerpt: The part of the source that the segments cover.
    """
    origin = open_input(str(source)) if source is not None else None
    try:
        output = OutputFile(path, settings, origin)
        try:
            if origin is not None:
                _copy_chapters(origin, output.container, excerpt)
            output.write_header()
            video = _video_packets(output.video, settings, segments)
            others = _other_packets(origin, output.copies, excerpt) if origin is not None else iter(())
            for packet in heapq.merge(video, others, key=_time):
                output.container.mux(packet)
        finally:
            output.close()
    finally:
        if origin is not None:
            origin.close()
    return JoinReport(len(output.copies), tuple(output.left_out))


def y4m_header(width: int, height: int, rate: Fraction, pixel_format: str, tags: VideoTags) -> bytes:
    """Return the first line of a YUV4MPEG2 stream. More than 8 bits use FFmpeg's widely read extension."""
    layout = layout_of(pixel_format)
    if layout.model == "rgb" or (layout.sub_x, layout.sub_y) not in _CHROMA or layout.alpha:
        raise InputError(f"y4m cannot hold {pixel_format} frames: write to a file instead")
    if layout.model == "gray":
        chroma = "mono" if layout.bits == 8 else f"mono{layout.bits}"
    else:
        chroma = _CHROMA[layout.sub_x, layout.sub_y]
        if layout.bits > 8:
            chroma = f"{chroma}p{layout.bits} XYSCSS={chroma.upper()}P{layout.bits}"
        elif chroma == "420":
            chroma = _SITING.get(tags.chroma_location, "420jpeg")
    aspect = tags.sample_aspect_ratio or Fraction(0, 1)
    shape = f"A{aspect.numerator}:{aspect.denominator}" if aspect else "A0:0"
    levels = {1: " XCOLORRANGE=LIMITED", 2: " XCOLORRANGE=FULL"}.get(tags.color_range, "")
    text = f"YUV4MPEG2 W{width} H{height} F{rate.numerator}:{rate.denominator} Ip {shape} C{chroma}{levels}\n"
    return text.encode()


def write_y4m_frame(file: IO[bytes], frame: av.VideoFrame) -> None:
    """Write one frame."""
    file.write(b"FRAME\n")
    for view in plane_views(frame):
        file.write(view.tobytes())
    file.flush()


def _options(suffix: str, settings: EncoderSettings, plain_metadata: bool) -> dict[str, str]:
    if suffix not in _MP4:
        return {}
    flags = "+faststart" if plain_metadata else "+faststart+use_metadata_tags"
    return {"movflags": flags, "video_track_timescale": str(settings.time_base.denominator)}


def _copy_metadata(source: Any, target: Any) -> None:
    target.metadata.update({k: v for k, v in source.metadata.items() if k not in _STALE_METADATA})
    target.disposition = source.disposition


def _copy_chapters(source: Any, target: Any, excerpt: Excerpt) -> None:
    chapters = []
    for chapter in source.chapters():
        base = chapter["time_base"]
        start, end = chapter["start"] * base - excerpt.start, chapter["end"] * base - excerpt.start
        if end <= 0 or (excerpt.end is not None and start >= excerpt.end - excerpt.start):
            continue
        if excerpt.end is not None:
            end = min(end, excerpt.end - excerpt.start)
        chapters.append({**chapter, "start": round(max(start, Fraction(0)) / base), "end": round(end / base)})
    if chapters:
        target.set_chapters(chapters)


def _video_packets(video: Any, settings: EncoderSettings, segments: list[Path]) -> Iterator[av.Packet]:
    """Yield the packets of all segments, with decoding times that increase across their borders."""
    all_times = [read_times(path) for path in segments]
    delay = max((reorder_delay(times) for times in all_times), default=0)
    step = frame_duration(settings.rate, settings.time_base)
    before: list[int] = []
    for path, times in zip(segments, all_times, strict=True):
        decode = decode_times(times, delay, before, step)
        for stored, dts in zip(read_packets(path), decode, strict=True):
            packet = av.Packet(stored.data)
            packet.pts, packet.dts, packet.duration = stored.pts, dts, stored.duration
            packet.time_base = settings.time_base
            packet.is_keyframe = stored.key
            packet.stream = video
            yield packet
        before = (before + sorted(times))[-max(delay, 1) :]


def _other_packets(source: Any, copies: dict[int, CopiedStream], excerpt: Excerpt) -> Iterator[av.Packet]:
    if not copies:
        return
    packets = source.demux([copy.source for copy in copies.values()])
    while True:
        try:
            packet = next(packets, None)
        except av.FFmpegError:
            return  # the reader has reported the damage
        if packet is None:
            return
        if packet.size == 0:
            continue
        copied = copies[packet.stream.index].packet(packet, excerpt)
        if copied is not None:
            yield copied


def _time(packet: av.Packet) -> float:
    stamp = packet.dts if packet.dts is not None else packet.pts
    return -math.inf if stamp is None else float(stamp * packet.time_base)

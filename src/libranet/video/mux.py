"""The finished file: restored pictures from segments, and everything else copied packet by packet from the source."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
from av.stream import Disposition

from libranet.errors import InputError
from libranet.video.encoder import EncoderSettings, configure
from libranet.video.matroska import FILLER, describe_video
from libranet.video.packets import decode_times, read_packets, read_times, reorder_delay
from libranet.video.pyav import open_input
from libranet.video.reader import main_video_stream
from libranet.video.subtitles import SubtitleCopy

_STALE_METADATA = ("major_brand", "minor_version", "compatible_brands", "encoder", "ENCODER", "DURATION")
"""Facts about the old file, which the muxer states anew."""
_REWRITTEN_HANDLERS = ("SubtitleHandler", "TimeCodeHandler", "Time Code Media Handler", "Core Media Time Code")
_MP4 = (".mp4", ".m4v", ".mov")
_MATROSKA = (".mkv", ".webm")
_PLAIN_MP4_KEYS = {
    "title", "artist", "album_artist", "album", "date", "comment", "genre", "copyright", "description", "synopsis",
    "composer", "encoder", "creation_time", "lyrics", "keywords", "show", "episode_id", "network", "rating",
}  # fmt: skip


@dataclass(frozen=True)
class Excerpt:
    """Which part of the source's clock the output covers, in seconds, and where its clock begins."""

    start: Fraction = Fraction(0)
    """This moment of the source becomes zero."""
    end: Fraction | None = None
    """Copied packets stop here; None copies to the end."""


@dataclass(frozen=True)
class JoinReport:
    """What became of the source's other streams."""

    copied: int
    left_out: tuple[str, ...]


class CopiedStream:
    """A stream of the source and its twin in the output."""

    def __init__(self, source: Any, target: Any, subtitle: SubtitleCopy | None) -> None:
        self.source, self.target, self._subtitle = source, target, subtitle

    def packet(self, packet: av.Packet, excerpt: Excerpt) -> av.Packet | None:
        """The packet for the output, or None where it lies outside the excerpt."""
        if self.source.disposition & Disposition.attached_pic:
            packet.pts = packet.dts = 0  # a cover picture has no time
            packet.stream = self.target
            return packet
        time_base = packet.time_base
        stamp = packet.pts if packet.pts is not None else packet.dts
        time = (stamp or 0) * time_base
        if (excerpt.start and time < excerpt.start) or (excerpt.end is not None and time >= excerpt.end):
            return None
        if self._empty_text(packet):
            return None  # stands for a pause, which the muxer writes anew
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
    """An output container with its pictures' stream and the copied ones."""

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
        """Write the header now. A data stream that the container refuses only shows itself here."""
        try:
            self.container.start_encoding()
        except av.FFmpegError as error:
            raise InputError(
                f"the {self._suffix} container refuses these streams ({error}): write to .mkv, or change --codec"
            ) from None

    def close(self) -> None:
        """Finish the file, and write into it what FFmpeg's muxer was not able to be told."""
        self.container.close()
        if self._needs_description():
            describe_video(self._path, self._settings.tags, self._title)

    def _needs_description(self) -> bool:
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
            _copy_description(source, video)
        self._title = video.metadata.get("title", "")
        if self._needs_description():
            video.metadata["title"] = self._title + FILLER
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
        _copy_description(stream, target)
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
    """Write the output file from finished segments."""
    origin = open_input(str(source)) if source is not None else None
    try:
        output = OutputFile(path, settings, origin)
        try:
            if origin is not None:
                _copy_chapters(origin, output.container, excerpt)
            output.write_header()
            pictures = _pictures(output.video, settings, segments)
            others = _others(origin, output.copies, excerpt) if origin is not None else iter(())
            for packet in _by_time(pictures, others):
                output.container.mux(packet)
        finally:
            output.close()
    finally:
        if origin is not None:
            origin.close()
    return JoinReport(len(output.copies), tuple(output.left_out))


def _options(suffix: str, settings: EncoderSettings, plain_metadata: bool) -> dict[str, str]:
    if suffix not in _MP4:
        return {}
    flags = "+faststart" if plain_metadata else "+faststart+use_metadata_tags"
    return {"movflags": flags, "video_track_timescale": str(settings.time_base.denominator)}


def _copy_description(source: Any, target: Any) -> None:
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


def _pictures(video: Any, settings: EncoderSettings, segments: list[Path]) -> Iterator[av.Packet]:
    """The pictures of all segments, with decoding times that run on across their borders."""
    all_times = [read_times(path) for path in segments]
    delay = max((reorder_delay(times) for times in all_times), default=0)
    step = max(1, round(1 / (settings.rate * settings.time_base)))
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


def _others(source: Any, copies: dict[int, CopiedStream], excerpt: Excerpt) -> Iterator[av.Packet]:
    if not copies:
        return
    packets = source.demux([copy.source for copy in copies.values()])
    while True:
        try:
            packet = next(packets, None)
        except av.FFmpegError:
            return  # the reader has noticed the damage and said so
        if packet is None:
            return
        if packet.size == 0:
            continue
        copied = copies[packet.stream.index].packet(packet, excerpt)
        if copied is not None:
            yield copied


def _by_time(first: Iterator[av.Packet], second: Iterator[av.Packet]) -> Iterator[av.Packet]:
    a, b = next(first, None), next(second, None)
    while a is not None or b is not None:
        if b is None or (a is not None and _time(a) <= _time(b)):
            assert a is not None
            yield a
            a = next(first, None)
        else:
            yield b
            b = next(second, None)


def _time(packet: av.Packet) -> float:
    stamp = packet.dts if packet.dts is not None else packet.pts
    return -math.inf if stamp is None else float(stamp * packet.time_base)

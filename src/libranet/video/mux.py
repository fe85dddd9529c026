"""Output containers: encoded frames from segments, and the other streams as `StreamPlan` says."""

import heapq
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import av

from libranet.errors import InputError
from libranet.video.clock import may_jump
from libranet.video.copied_stream import CopiedStream, PacketLengths, StreamPlan
from libranet.video.decoding import Damage, read_packets
from libranet.video.encoder import EncoderSettings, configure, kept_priority
from libranet.video.excerpt import Excerpt
from libranet.video.file_facts import gif_loops, matroska_extras, mp4_boxes
from libranet.video.heard import HeardSound
from libranet.video.mp4_extras import Box, hdr_boxes
from libranet.video.packets import joined_packets
from libranet.video.pyav import open_input, track_title
from libranet.video.reader import VideoReader, frame_duration, main_video_stream
from libranet.video.source import Source
from libranet.video.tags import track_entry

if TYPE_CHECKING:
    from libranet.video.matroska_finish import MatroskaFinish

FORMATS = {
    ".mp4": "mp4", ".m4v": "ipod", ".mov": "mov", ".mkv": "matroska", ".webm": "webm", ".avi": "avi", ".ts": "mpegts",
    ".m2ts": "mpegts", ".mpg": "vob", ".mxf": "mxf", ".gif": "gif", ".nut": "nut",
}  # fmt: skip
"""FFmpeg's name of the format for each suffix. NUT goes to other processes, through pipes."""
AT_ONCE = {"flush_packets": "1", "max_interleave_delta": "100000"}
"""Options of live formats: packets leave at once, and frames wait a tenth of a second for late sound."""
ZERO_BASED = (".avi", ".gif", ".mxf")
"""Containers without start times: all streams begin at zero."""
_BROADCAST = (".ts", ".m2ts", ".mpg")
"""Containers whose clock may begin at any time, as that of a broadcast does."""
STALE_METADATA = (
    "major_brand", "minor_version", "compatible_brands", "encoder", "ENCODER", "DURATION", "alpha_mode", "ALPHA_MODE",
    "BPS", "NUMBER_OF_FRAMES", "NUMBER_OF_BYTES", "_STATISTICS_WRITING_APP", "_STATISTICS_WRITING_DATE_UTC",
    "_STATISTICS_TAGS", "BPS-eng", "DURATION-eng", "NUMBER_OF_FRAMES-eng", "NUMBER_OF_BYTES-eng", "variant_bitrate",
    "_STATISTICS_WRITING_APP-eng", "_STATISTICS_WRITING_DATE_UTC-eng", "_STATISTICS_TAGS-eng",
)  # fmt: skip
"""Facts about the source file. The muxer writes its own."""
_NONSTRICT = 0x20000
"""AVFMT_TS_NONSTRICT: formats where two packets of a stream may have one time."""
_LONGEST_REORDERING = 20
"""Seconds from decoding to showing a frame, at most."""
_MP4 = (".mp4", ".m4v", ".mov")
_MATROSKA = (".mkv", ".webm")
_HDR_IN_STREAM = ("hevc", "av1")
"""Codecs in whose streams every player looks for the mastering display; the others have it in boxes of .mp4."""
_PLAIN_MP4_KEYS = {
    "title", "artist", "album_artist", "album", "date", "comment", "genre", "copyright", "description", "synopsis",
    "composer", "encoder", "creation_time", "lyrics", "keywords", "show", "episode_id", "network", "rating",
}  # fmt: skip
_COVER_TYPES = {
    "mjpeg": ("cover.jpg", "image/jpeg"),
    "png": ("cover.png", "image/png"),
    "bmp": ("cover.bmp", "image/bmp"),
}


@dataclass
class Written:
    """What went into one stream of the output."""

    kind: str
    codec: str
    packets: int = 0
    bytes: int = 0
    moved: int = 0
    """Packets whose time went back and got the next free one."""
    times: list[Fraction] = field(default_factory=list)
    """Of the video: when each frame is shown, in seconds and in any order."""
    refused: int = 0
    """Packets that the container calls invalid: they are damaged in the source."""
    heard: HeardSound | None = None
    """Of sound: what the source gave to hear, or the finished file."""


@dataclass(frozen=True)
class JoinReport:
    """What the output holds."""

    written: tuple[Written, ...] = ()
    """The video first, then the other streams."""
    notes: tuple[str, ...] = field(default=())


class OutputFile:
    """An output container with its video stream and the planned streams."""

    def __init__(
        self,
        target: Path | io.BytesIO | IO[bytes],
        suffix: str,
        settings: EncoderSettings,
        source: av.container.InputContainer | None,
        plans: Sequence[StreamPlan],
        excerpt: Excerpt | None = None,
    ) -> None:
        """Create the file.

        Args:
            target: A path, memory for a trial, or a pipe.
            suffix: Names the container.
            settings: Of the video's encoder.
            source: The opened source of the other streams, chapters and metadata.
            plans: What happens to the source's other streams.
            excerpt: The part of the source that the file covers.
        """
        self._target = target
        self._settings, self.suffix = settings, suffix
        self._excerpt = excerpt or Excerpt()
        self._finish: MatroskaFinish | None = None
        self._boxes: tuple[Box, ...] = ()
        self.copies: dict[int, CopiedStream] = {}
        self.written: dict[int, Written] = {}
        self.places: dict[int, int] = {}
        """Where each stream of the source that was copied is in the file."""
        self._last: dict[int, int] = {}
        plain = source is None or set(source.metadata) <= _PLAIN_MP4_KEYS | set(STALE_METADATA)
        loops = gif_loops(source) if source is not None and suffix == ".gif" else None
        options = _options(suffix, settings, plain, loops, trial=isinstance(target, io.BytesIO))
        name = f"file:{target}" if isinstance(target, Path) else target
        self.container = av.open(name, "w", format=FORMATS[suffix], container_options=options)
        self._equal_times = bool(int(self.container.format.flags) & _NONSTRICT)
        main = main_video_stream(source) if source is not None else None
        if source is None or main is None:
            self.video = self._add_video(None)
            return
        kept = {plan.index: plan for plan in plans if plan.kept}
        for index in sorted([*kept, main.index]):  # streams stay in their order
            if index == main.index:
                self.video = self._add_video(main)
            else:
                self._add(source.streams[index], kept[index])
        self.container.metadata.update({k: v for k, v in source.metadata.items() if k not in STALE_METADATA})
        if excerpt is not None and excerpt.start:
            from libranet.video.timecode import shift_timecode

            frames = round((excerpt.start - (main.start_time or 0) * (main.time_base or 0)) * settings.rate)
            for metadata in (self.container.metadata, self.video.metadata):
                if "timecode" in metadata:
                    metadata["timecode"] = shift_timecode(metadata["timecode"], frames, settings.rate)

    def write_header(self) -> None:
        """Write the header. Streams that the container refuses only fail here."""
        with kept_priority():
            self.container.start_encoding()

    def write(self, packets: Iterable[av.Packet], *, skip_invalid: bool = False) -> None:
        """Write packets and count them. Times of a stream that go back get the next free one.

        With `skip_invalid`, packets of copied streams that the container calls invalid are counted and left out.
        """
        for packet in packets:
            written = self.written[packet.stream.index]
            self._count(packet)
            try:
                self.container.mux(packet)
            except (av.InvalidDataError, av.PatchWelcomeError):  # AAC whose header is gone: the rest of the file stays
                if not skip_invalid or packet.stream.index == self._video_index:
                    raise
                written.packets, written.refused = written.packets - 1, written.refused + 1

    def copy_chapters(self, source: Any) -> None:
        """Copy the chapters that lie in the excerpt."""
        chapters: list[Any] = []
        excerpt = self._excerpt
        for chapter in source.chapters():
            base = chapter["time_base"]
            start, end = chapter["start"] * base - excerpt.start, chapter["end"] * base - excerpt.start
            if end <= 0 or (excerpt.end is not None and start >= excerpt.end - excerpt.start):
                continue
            if excerpt.end is not None:
                end = min(end, excerpt.end - excerpt.start)
            chapters.append({**chapter, "start": round(max(start, Fraction(0)) / base), "end": round(end / base)})
        if chapters:
            self.container.set_chapters(chapters)

    def close(self) -> None:
        """Finish the file, and write what the Matroska muxer does not."""
        self.container.close()
        if self._finish is not None:
            with ExitStack() as opened:
                target = self._target
                file = opened.enter_context(target.open("r+b")) if isinstance(target, Path) else target
                self._finish.write(file, {**self.places, **self._main})
        if self._boxes:
            from libranet.video.mp4_finish import add_boxes  # only runs over files that know more load it

            add_boxes(self._target, self._boxes, self._video_index)

    def abandon(self) -> None:
        """Close after an error."""
        with suppress(Exception):
            self.container.close()

    def report(self) -> JoinReport:
        video = self.written[self._video_index]
        others = [written for written in self.written.values() if written is not video]
        moved = [
            f"{w.moved} packets of the {w.kind} went back in time and got the next free time"
            for w in self.written.values()
            if w.moved
        ]
        cut = [note for copy in self.copies.values() for note in copy.notes(self.suffix)]
        return JoinReport((video, *others), (*moved, *cut))

    def sampled(self, index: int) -> bool:
        """Return whether any packet of the source's stream `index` was written."""
        target = self.places.get(index)
        return target is not None and self.written[target].packets > 0

    def _count(self, packet: av.Packet) -> None:
        """Count a packet. A time that is not after the last one of its stream, as the muxer counts, moves behind it."""
        stream = packet.stream
        written = self.written[stream.index]
        if packet.size == 0:  # FLAC's last word: a new header
            return
        written.packets, written.bytes = written.packets + 1, written.bytes + packet.size
        if packet.dts is not None and packet.pts is not None:
            ahead = (packet.pts - packet.dts) * (packet.time_base or Fraction(0))
            if not 0 <= ahead <= _LONGEST_REORDERING:
                packet.dts = packet.pts  # x265 gives a single frame a random one
        stamp = packet.dts if packet.dts is not None else packet.pts
        if stamp is None or packet.time_base is None:
            return
        base = stream.time_base or packet.time_base
        at = _rescaled(stamp, packet.time_base, base)
        last = self._last.get(stream.index)
        if last is not None and at < last + (not self._equal_times) and written.kind != "cover":
            at = last + (not self._equal_times)
            before = None if packet.pts is None else _rescaled(packet.pts, packet.time_base, base)
            shown = at if before is None else max(at, before)
            packet.duration = _rescaled(packet.duration or 0, packet.time_base, base)
            packet.pts, packet.dts, packet.time_base = shown, at, base
            written.moved += shown != before  # a time of decoding alone is nothing that anyone sees
        self._last[stream.index] = at
        if stream.index == self._video_index:
            written.times.append((packet.pts if packet.pts is not None else stamp) * packet.time_base)

    def _matroska_finish(self, source: Any, title: str) -> "MatroskaFinish | None":
        """Return what is written into the finished file; None where the muxer writes all of it."""
        if self.suffix not in _MATROSKA:
            return None
        from libranet.video.matroska_finish import MatroskaFinish, video_elements  # only runs that write .mkv load it

        settings, extras = self._settings, None
        elements: tuple[tuple[int, bytes], ...] = ()
        if source is not None:
            extras = matroska_extras(source.container)
            own = extras is not None and source.index < len(extras.entries)
            entry = extras.entries[source.index] if extras is not None and own else track_entry(source)
            elements = video_elements(entry, same_size=self._same_size(source), own=own)
        tags = settings.tags
        odd_shape = tags.sample_aspect_ratio not in (None, Fraction(1))
        if not (odd_shape or tags.mastering or tags.light_level or elements or extras):
            return None
        return MatroskaFinish(tags, title, self._video_index, elements, extras)

    def _same_size(self, source: Any) -> bool:
        context = source.codec_context
        return (self._settings.width, self._settings.height) == (context.width, context.height)

    def _add_video(self, source: Any) -> Any:
        settings = self._settings
        video: Any = self.container.add_stream(settings.encoder, rate=settings.rate, time_base=settings.time_base)
        configure(video.codec_context, settings)
        if settings.codec.startswith("hevc") and self.suffix in _MP4:
            video.codec_context.codec_tag = "hvc1"  # Apple's players read no other tag
        if settings.tags.display_matrix is not None:
            video.set_display_matrix(settings.tags.display_matrix)
        if source is not None:
            _copy_metadata(source, video)
        if settings.pixel_format.startswith("yuva") and self.suffix in _MATROSKA and settings.codec == "vp9":
            video.metadata["alpha_mode"] = "1"
        self._video_index: int = video.index  # a closed container does not say
        self._main = {} if source is None else {source.index: video.index}
        title = video.metadata.get("title", "")
        self._finish = self._matroska_finish(source, title)
        if source is not None and self.suffix in _MP4:
            boxes = mp4_boxes(source.container, source.index)
            self._boxes = tuple(b for b in boxes if b.is_kept and (self._same_size(source) or not b.is_sized))
        if self.suffix in _MP4 and settings.codec not in _HDR_IN_STREAM:
            self._boxes += hdr_boxes(settings.tags)
        if self._finish is not None:
            video.metadata["title"] = title + self._finish.video_filler
        self.written[video.index] = Written("video", settings.codec)
        return video

    def _add(self, stream: Any, plan: StreamPlan) -> None:
        if plan.action == "attach":
            name, kind = _COVER_TYPES.get(plan.codec, ("cover", "application/octet-stream"))
            tags = stream.metadata
            attached = self.container.add_attachment(tags.get("filename", name), tags.get("mimetype", kind), plan.cover)
            attached.metadata.update({k: v for k, v in tags.items() if k in ("title", "comment")})
            return
        transcoder = converter = None
        target: Any
        if plan.action == "repack":
            from libranet.video.subtitles import SubtitleConverter  # only sources with subtitles load it

            converter = SubtitleConverter(stream, self.container, plan.target)
            target = converter.target
        elif plan.action == "transcode":
            from libranet.video.audio import AudioTranscoder  # only runs that give sound another codec load it

            transcoder = AudioTranscoder(stream, self.container, plan.target)
            target = transcoder.target
        else:
            target = self.container.add_stream_from_template(stream, opaque=True)
        _copy_metadata(stream, target)
        if stream.type != "attachment":
            heard, hides = HeardSound.of(stream, self._excerpt), self.suffix in _MP4
            copy = CopiedStream(stream, target, plan, transcoder, converter, heard=heard, hides=hides)
            self.copies[stream.index] = copy
            self.written[target.index] = Written(plan.kind, plan.target, heard=heard)
            self.places[stream.index] = target.index


def zero_time(reader: VideoReader, suffix: str, *, first_frame: Fraction, cut: bool) -> Fraction:
    """Return the time of the source, in seconds, that becomes zero in the output.

    Args:
        reader: The source.
        suffix: Of the output.
        first_frame: Time of the first frame in the output.
        cut: The output begins with a frame that the user chose.
    """
    if cut or suffix in ZERO_BASED:
        return first_frame
    if reader.container is not None and may_jump(reader.container) and suffix not in _BROADCAST:
        return reader.first_time  # a broadcast begins at any hour; players of files would wait for so long
    return min(reader.first_time, Fraction(0))  # players hide what comes before zero


def join(
    path: Path,
    settings: EncoderSettings,
    segments: list[Path],
    *,
    source: Source | None,
    plans: Sequence[StreamPlan] = (),
    excerpt: Excerpt,
) -> JoinReport:
    """Write the output file from finished segments.

    Args:
        path: The file to write.
        settings: Those that the segments were encoded with.
        segments: Files written by `PacketLog`, in order.
        source: The file whose other streams are copied; None for images.
        plans: What happens to those streams.
        excerpt: The part of the source that the segments cover.

    Raises:
        InputError: The container refuses the streams.
    """
    suffix = path.suffix.lower()
    with ExitStack() as opened:
        origin = opened.enter_context(open_input(source.location)) if source is not None else None
        output = OutputFile(path, suffix, settings, origin, plans, excerpt)
        try:
            if origin is not None:
                output.copy_chapters(origin)
            try:
                output.write_header()
            except (av.FFmpegError, ValueError) as error:
                raise InputError(
                    f"the {suffix} container refuses these streams ({error}): write to .mkv with --resume"
                ) from None
            step = frame_duration(settings.rate, settings.time_base)
            video = joined_packets(output.video, segments, settings.time_base, step, excerpt.start)
            others = _other_packets(origin, output.copies, excerpt) if origin is not None else iter(())
            output.write(heapq.merge(video, others, key=_time), skip_invalid=True)
        except BaseException:
            output.abandon()
            raise
        output.close()
    return output.report()


def _options(
    suffix: str, settings: EncoderSettings, plain_metadata: bool, loops: int | None, *, trial: bool
) -> dict[str, str]:
    if suffix == ".nut":
        return AT_ONCE
    if loops is not None:
        return {"loop": str(-1 if loops == 1 else loops)}
    if suffix == ".m2ts":
        return {"mpegts_m2ts_mode": "1"}
    if suffix not in _MP4:
        return {}
    flags = ([] if trial else ["faststart"]) + ([] if plain_metadata else ["use_metadata_tags"])
    scale = str(settings.time_base.denominator)  # also of edit lists: by default they count milliseconds
    return {"video_track_timescale": scale, "movie_timescale": scale, "strict": "experimental"} | (
        {"movflags": "".join(f"+{flag}" for flag in flags)} if flags else {}
    )


def _copy_metadata(source: Any, target: Any) -> None:
    target.metadata.update({k: v for k, v in source.metadata.items() if k not in (*STALE_METADATA, "name")})
    if title := track_title(source):
        target.metadata["title"] = title
    target.disposition = source.disposition


def _other_packets(source: Any, copies: dict[int, CopiedStream], excerpt: Excerpt) -> Iterator[av.Packet]:
    if not copies:
        return
    lengths = PacketLengths()
    # All streams are read: the clock of a joined recording needs them. The reader has reported any damage.
    for packet in read_packets(source, Damage()):
        copy = copies.get(packet.stream.index)
        if copy is not None:
            for ready in lengths.take(packet):
                yield from copy.packets(ready, excerpt)
    for last in lengths.rest():
        yield from copies[last.stream.index].packets(last, excerpt)
    for copy in copies.values():
        yield from copy.finish(excerpt)


def _rescaled(value: int, source: Fraction, target: Fraction) -> int:
    """Convert a time as FFmpeg does: to the nearest, halves away from zero."""
    exact = value * source / target
    nearest = int(abs(exact) + Fraction(1, 2))
    return nearest if exact >= 0 else -nearest


def _time(packet: av.Packet) -> float:
    stamp = packet.dts if packet.dts is not None else packet.pts
    return -math.inf if stamp is None else float(stamp * (packet.time_base or 0))

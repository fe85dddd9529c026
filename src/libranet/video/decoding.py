"""Packets and frames out of a container: past damage, in one continuous clock, and counted."""

import re
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import av
from av.codec.context import Flags

from libranet.video.clock import ContinuousClock, may_jump, pause_finder

ONE_FRAME_A_PACKET = (
    "h264", "hevc", "av1", "vp8", "vp9", "mpeg1video", "mpeg2video", "mpeg4", "prores", "dnxhd", "mjpeg", "ffv1", "png",
    "qtrle", "flv1", "huffyuv", "ffvhuff", "utvideo", "rawvideo", "v210", "msmpeg4v3", "wmv2", "h263",
)  # fmt: skip
"""Codecs whose packets hold one shown frame each. Other codecs may leave frames out on purpose."""
_FIELD_CODECS = ("h264", "mpeg2video")
"""A packet of interlaced video may hold one field: two packets make a frame."""
LENGTH_FROM_ZERO = ("matroska,webm", "flv")
"""Formats whose length counts from zero, and is that of the longest stream."""
_MOST_READ_ERRORS = 100
_PACKED_FILLER = 8
"""MPEG-4 in AVI: packets smaller than this stand for a frame that an earlier packet held."""
LONGEST_NUT_HEAD = 64
"""Bytes before a frame of NUT that belong to it, at most."""


@dataclass
class Damage:
    """What went wrong while reading. The run continues; its exit code says that the output is partial."""

    packets: int = 0
    """Packets that could not be decoded."""
    frames: int = 0
    """Frames that the decoder marked as damaged."""
    lost: int = 0
    """Packets that gave no frame, without an error."""
    unread: int = 0
    """Places of the file that could not be read."""
    truncated: str = ""
    """Why the video ended before its end, or nothing."""
    broken: str = ""
    """Where the file's own structure shows that parts of it are lost, or nothing."""
    video_packets: int = 0
    """Packets of the video so far."""
    times: "array[float]" = field(default_factory=lambda: array("d"))
    """Times of those packets in HLS, in seconds: its list says how long they last."""
    keys: "array[float]" = field(default_factory=lambda: array("d"))
    """Times of the key frames among them."""
    corrupt: int = 0
    """Those of them, but for the last one, that the container's reader marked: pieces of them are missing."""
    read_bytes: int = 0
    """Bytes of the file up to the end of the last packet."""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """In NUT: from where to where no packet came, but for heads of frames."""
    jumps: int = 0
    """Jumps of the clock, where recordings were joined."""
    closed: float = 0.0
    """Seconds that the clock leapt ahead at those jumps, which frames and sound go on without."""
    read_to: float = 0.0
    """Seconds up to which packets of any stream came."""
    covered: float = 0.0
    """Seconds for which packets of any stream came."""
    reached: float = 0.0
    """Seconds up to which they did, by the times of decoding: those of being shown leap back and forth."""
    transparent: int = 0
    """Frames with transparency that the output cannot hold."""
    repaired_times: int = 0
    """Frames without a usable timestamp. They got the next free one."""

    def __bool__(self) -> bool:
        counts = self.packets or self.frames or self.lost or self.unread or self.transparent
        return bool(counts or self.truncated or self.broken)

    def sentence(self) -> str:
        parts = []
        if self.packets:
            parts.append(f"{self.packets} damaged packets were skipped")
        if self.frames:
            parts.append(f"{self.frames} frames show damage")
        if self.lost:
            parts.append(f"{self.lost} packets of the video gave no frame")
        if self.unread and not self.truncated:
            parts.append(f"{self.unread} places of the file could not be read")
        if self.transparent:
            parts.append(f"{self.transparent} frames are transparent in places, which the output cannot hold")
        parts += [text for text in (self.broken, self.truncated) if text]
        return "; ".join(parts)


def read_packets(container: av.container.InputContainer, damage: Damage) -> Iterator[av.Packet]:
    """Yield the packets of all streams. Behind damage, reading goes on where FFmpeg recognizes the format again."""
    clock = ContinuousClock(active=may_jump(container), is_pause=pause_finder(container))
    packets = container.demux()
    is_nut = container.format.name == "nut"
    failures = 0
    while True:
        try:
            packet = next(packets, None)
        except (av.FFmpegError, OSError) as error:
            if isinstance(error, av.InvalidDataError):
                failures, damage.unread = failures + 1, damage.unread + 1
                if failures < 3 and damage.unread < _MOST_READ_ERRORS:
                    packets = container.demux()
                    continue
            damage.truncated = f"the file cannot be read beyond this point ({reason(error)})"
            return
        except IndexError:  # PyAV knows only the streams that were there when it opened the file
            damage.truncated = "a stream that begins in the middle of the file was left out"
            return
        if packet is None:
            return
        if packet.size == 0 and packet.dts is None and packet.pts is None:
            continue  # the end of a stream
        failures = 0
        clock.fix(packet)
        damage.jumps, damage.closed = clock.jumps, float(clock.closed)
        place = packet.pos or 0
        if is_nut and place > damage.read_bytes + LONGEST_NUT_HEAD:
            damage.gaps.append((damage.read_bytes, place))
        damage.read_bytes = max(damage.read_bytes, place + packet.size)
        if packet.pts is not None and packet.time_base:
            begin = packet.pts if packet.dts is None else packet.dts
            moments = (begin, begin + (packet.duration or 0), packet.pts + (packet.duration or 0))
            decoded, end, shown = (float(at * packet.time_base) for at in moments)
            damage.covered += max(0.0, end - max(decoded, damage.reached))
            damage.reached, damage.read_to = max(damage.reached, end), max(damage.read_to, shown)
        yield packet


def from_key_frame(packets: Iterable[av.Packet], index: int, pts: int) -> Iterator[av.Packet]:
    """Leave out packets of stream `index` before the last key frame at or before `pts`. Others pass."""
    held: list[av.Packet] = []
    waiting = True
    for packet in packets:
        if packet.stream.index != index or not waiting:
            yield packet
            continue
        shown, decoded = packet.pts, packet.dts
        if packet.is_keyframe and (shown is None or shown <= pts):
            held = []
        held.append(packet)
        if (decoded if decoded is not None else shown or 0) > pts:
            waiting = False
            yield from held
    if waiting:
        yield from held


class FrameDecoder:
    """Decodes one video stream and counts packets against frames."""

    def __init__(self, stream: av.VideoStream, damage: Damage, *, threads: bool = True) -> None:
        self._damage = damage
        self._codec = stream.codec_context.codec.canonical_name
        self._slots: deque[int] | None = None
        """Decoding times that no frame has taken yet, where the container has no presentation times."""
        if stream.container.format.name == "avi" and self._codec in ("h264", "hevc", "mpeg4"):
            self._slots, threads = deque(), False
        self._last = 0
        self._context = _context(stream, threads=threads)
        self._leading = None
        if self._codec == "hevc":
            from libranet.video.leading_frames import LeadingFrames

            self._leading = LeadingFrames(stream.codec_context.extradata)
        self._first: int | None = None
        """Presentation time of the first frame. Earlier packets belong to frames that cannot be decoded, but for key
        frames, which need no other."""
        self._early: list[int] = []
        self._packets = self._frames = 0
        self._interlaced = False

    def decode(self, packet: av.Packet) -> list[av.VideoFrame]:
        """Decode a packet. A damaged one is counted and skipped."""
        if packet.size == 0:
            return []  # some codecs repeat the last frame so
        self._count(packet)
        if self._slots is not None and packet.dts is not None:
            self._slots.append(packet.dts)
        try:
            return self._seen(self._context.decode(packet))
        except av.FFmpegError:
            self._damage.packets += 1
            self._packets -= 1
            return []

    def drain(self) -> list[av.VideoFrame]:
        """Return the frames that are still inside."""
        try:
            return self._seen(self._context.decode(None))
        except (av.FFmpegError, EOFError):
            return []

    @property
    def missing(self) -> int:
        """Packets that gave no frame so far. After `drain`, they are lost."""
        if self._codec not in ONE_FRAME_A_PACKET:
            return 0
        frames = self._frames * 2 if self._interlaced and self._codec in _FIELD_CODECS else self._frames
        return max(0, self._packets - frames)

    def _count(self, packet: av.Packet) -> None:
        if self._hidden(packet) or packet.is_discard:
            return
        if self._first is None and self._slots is None:
            if packet.pts is None or packet.is_keyframe:
                self._packets += 1
            else:
                self._early.append(packet.pts)
        elif packet.pts is None or self._slots is not None or packet.pts >= (self._first or 0):
            self._packets += 1

    def _hidden(self, packet: av.Packet) -> bool:
        if self._leading is not None:
            return self._leading.skips(bytes(packet))
        if self._codec == "vp8":
            return packet.size > 0 and not memoryview(packet)[0] >> 4 & 1
        return packet.size < _PACKED_FILLER and self._codec == "mpeg4"

    def _seen(self, frames: list[av.VideoFrame]) -> list[av.VideoFrame]:
        for frame in frames:
            if self._slots is not None:
                frame.pts = self._next_slot()
            self._interlaced |= frame.interlaced_frame
            if self._first is None:
                self._first = frame.pts if frame.pts is not None else 0
                self._packets += sum(pts >= self._first for pts in self._early)
                self._early = []
        self._frames += len(frames)
        return frames

    def _next_slot(self) -> int:
        """Return the time of the next frame in AVI: decoding times in order, later by what the decoder holds.

        FFmpeg guesses presentation times there, and with B-frames they go back and forth.
        """
        assert self._slots is not None
        while self._first is None and len(self._slots) > 1:
            self._slots.popleft()
        self._last = self._slots.popleft() if self._slots else self._last + 1
        return self._last


def shown_frames(stream: av.VideoStream) -> int:
    """Return the number of frames of an index, without those that an edit list hides; 0 where there is none."""
    if not stream.container.format.name.startswith("mov"):
        return stream.frames
    return max(0, stream.frames - sum(entry.is_discard for entry in stream.index_entries))


def stream_duration(stream: av.VideoStream) -> float | None:
    """Return the stream's own duration. Matroska and FLV have that of the longest stream, and Matroska a tag."""
    match = re.fullmatch(r"(\d+):(\d+):(\d+(?:\.\d*)?)", stream.metadata.get("DURATION", "").strip())
    if match:
        start = float((stream.start_time or 0) * (stream.time_base or 0))
        return int(match[1]) * 3600 + int(match[2]) * 60 + float(match[3]) - start
    if stream.duration and stream.time_base and stream.container.format.name not in LENGTH_FROM_ZERO:
        return float(stream.duration * stream.time_base)
    return None


def duration_from(
    container: av.container.InputContainer, stream: av.VideoStream, first_frame: Fraction
) -> float | None:
    """Return how long a video is from its first frame on, by its own length or its file's."""
    duration = stream_duration(stream)
    if duration is None and container.duration:
        from_zero = container.format.name in LENGTH_FROM_ZERO
        return container.duration / av.time_base - (max(0.0, float(first_frame)) if from_zero else 0.0)
    return duration


def reason(error: BaseException) -> str:
    """Return FFmpeg's own words for an error."""
    text = getattr(error, "strerror", None) or str(error)
    return str(text).split("\n")[0]


def has_hidden_alpha(stream: av.VideoStream) -> bool:
    """Return whether a VP8 or VP9 stream carries alpha beside its frames, as WebM stores it."""
    tags = {key.lower(): value for key, value in stream.metadata.items()}
    return stream.codec_context.codec.canonical_name in ("vp8", "vp9") and tags.get("alpha_mode") == "1"


def _context(stream: av.VideoStream, *, threads: bool) -> av.VideoCodecContext:
    context = stream.codec_context
    if has_hidden_alpha(stream) or not threads:
        # FFmpeg's own VP8 and VP9 decoders drop alpha, libvpx keeps it.
        name = f"libvpx-{context.name}" if has_hidden_alpha(stream) else context.name
        extradata = context.extradata
        own = av.CodecContext.create({"libvpx-vp8": "libvpx"}.get(name, name), "r")
        assert isinstance(own, av.VideoCodecContext)
        own.extradata = extradata
        own.width, own.height = context.width, context.height
        own.thread_count = 0 if threads else 1
        context = own
    elif not context.is_open:
        context.thread_type = "AUTO"
    context.flags |= int(Flags.output_corrupt)  # FFmpeg's own tools show damaged frames as well
    return context

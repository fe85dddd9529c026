"""The finished file read back: frames that are shown, sound that is heard, and their times, against the source."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
from av.codec.context import Flags

from libranet.errors import InputError
from libranet.video.decoding import Damage, read_packets, reason
from libranet.video.excerpt import Excerpt
from libranet.video.heard import HeardSound
from libranet.video.mux import Written
from libranet.video.pyav import codec_name, open_input
from libranet.video.reader import main_video_stream

_SLACK = Fraction(1, 10)
"""Seconds by which the length of a sound may differ: containers pad sound to whole packets, and decoders warm up."""
_TOGETHER = Fraction(1, 20)
"""Seconds that sound and frames may move against each other: a packet of sound, or a frame of a film."""
_IN_PIECES = "hdmv_pgs_subtitle"
"""Subtitles of several packets each in .m2ts, which Matroska joins."""
_TRIED_EVERY = Fraction(1)
"""Seconds between two key frames that are decoded. A segment of the run begins with one."""


class FramesMissingError(InputError):
    """The finished file does not hold every frame, or does not show it when it should."""


def verify(path: Path, written: tuple[Written, ...]) -> list[str]:
    """Return a sentence for everything about a finished file that differs from its source.

    Args:
        path: The file.
        written: What was written, and what the source gave to hear, the video first.

    Raises:
        FramesMissingError: It does not show every frame at its time.
    """
    found: dict[int, Written] = {}
    damage = Damage()
    try:
        with open_input(f"file:{path}") as container:
            for stream in container.streams:
                found[stream.index] = Written(stream.type, codec_name(stream), heard=HeardSound.of(stream, Excerpt()))
            video = main_video_stream(container)
            trial = _KeyFrames(video) if video is not None and video.codec_context is not None else None
            guessed = container.format.name == "avi"  # which has decoding times alone
            for packet in _whole(read_packets(container, damage)):
                _count(found[packet.stream.index], packet, by_decoding=guessed)
                if trial is not None and video is not None and packet.stream.index == video.index:
                    trial.take(packet)
            for written_stream in found.values():
                if written_stream.heard is not None:
                    written_stream.heard.take(None)
            why = trial.failure() if trial is not None else ""
    except (av.FFmpegError, ValueError) as error:
        return [f"the finished file cannot be read back ({error})"]
    problems = [f"the finished file cannot be read to its end: {damage.truncated}"] if damage.truncated else []
    if why:
        problems.append(f"the video of the finished file cannot be decoded ({why})")
    rest = list(found.values())
    frames = next((stream for stream in rest if stream.kind == "video"), None)
    for wanted in written:
        kind = "video" if wanted.kind == "cover" else wanted.kind
        match = next((s for s in rest if s.kind == kind and (kind != "audio" or s.codec == wanted.codec)), None)
        match = match or next((s for s in rest if s.kind == kind), None)
        if match is None:
            if wanted.packets:
                problems.append(f"the {wanted.kind} stream ({wanted.codec}) is missing in the finished file")
            continue
        rest.remove(match)
        if wanted.refused:
            what = f"{wanted.refused} damaged packets of the {wanted.codec} {wanted.kind} stream"
            problems.append(f"{what} cannot be copied and are left out")
        problems += _differences(wanted, match, written[0], frames)
    return problems


class _KeyFrames:
    """Decodes a key frame of every second: headers that are not those of the stream show in any of them."""

    def __init__(self, stream: av.VideoStream) -> None:
        self._context = stream.codec_context
        self._context.options = {"err_detect": "explode"}
        self._context.flags |= int(Flags.output_corrupt)
        self._given = self._decoded = 0
        self._last: Fraction | None = None
        self._why = ""

    def take(self, packet: av.Packet) -> None:
        """Decode the packet if its turn has come."""
        stamp = packet.dts if packet.dts is not None else packet.pts
        time = (stamp or 0) * (packet.time_base or Fraction(0))
        if self._why or not packet.is_keyframe or packet.is_discard:
            return
        if self._last is None or time - self._last >= _TRIED_EVERY:
            self._last, self._given = time, self._given + 1
            self._decode(packet)

    def failure(self) -> str:
        """Say why frames could not be decoded, or nothing."""
        if not self._why:
            self._decode(None)
        if not self._why and self._decoded < self._given:
            self._why = f"{self._given - self._decoded} of {self._given} key frames give nothing"
        return self._why

    def _decode(self, packet: av.Packet | None) -> None:
        try:
            for frame in self._context.decode(packet):
                self._decoded += 1
                if frame.is_corrupt:
                    self._why = "its frames are damaged"
        except (av.FFmpegError, EOFError, ValueError) as error:
            self._why = reason(error)


def _whole(packets: Iterator[av.Packet]) -> Iterator[av.Packet]:
    return (packet for packet in packets if packet.size)


def _differences(wanted: Written, found: Written, video: Written, found_video: Written | None) -> list[str]:
    if wanted.kind == "cover" or wanted.packets == 0:
        return []
    if wanted is video:
        return _check_frames(wanted, found)
    if wanted.kind == "video" and found.packets < wanted.packets:
        return [f"only {found.packets} of {wanted.packets} packets of the other video ({wanted.codec}) are shown"]
    if wanted.kind not in ("audio", "subtitle"):
        return [] if found.packets else [f"the {wanted.kind} stream ({wanted.codec}) is empty in the finished file"]
    if found.packets == 0:
        return [f"the {wanted.kind} stream ({wanted.codec}) is empty in the finished file"]
    problems = []
    shorter = found.bytes < wanted.bytes if wanted.codec == _IN_PIECES else found.packets < wanted.packets
    if wanted.kind == "subtitle" and shorter:
        problems.append(f"only {found.packets} of {wanted.packets} subtitles ({wanted.codec}) were written")
    if wanted.kind == "audio" and found.packets < wanted.packets and not found.codec.startswith("pcm"):
        problems.append(f"only {found.packets} of {wanted.packets} packets of the {wanted.codec} sound were written")
    if wanted.kind == "audio" and found_video is not None:
        problems += _heard_differences(wanted, found, video, found_video)
    return problems


def _check_frames(wanted: Written, found: Written) -> list[str]:
    """Compare frames that are shown, and when. Containers with coarse clocks round every time."""
    remedy = "write it to another container, such as .mkv"
    if found.packets != wanted.packets:
        raise FramesMissingError(f"the finished file shows {found.packets} of {wanted.packets} frames: {remedy}")
    pairs = list(zip(sorted(wanted.times), sorted(found.times), strict=False))
    if not pairs:
        return []
    zero = pairs[0][1] - pairs[0][0]
    moved = max(((after - before - zero) for before, after in pairs), key=abs)
    if abs(moved) > max(_TOGETHER, _usual_step(wanted.times)):
        raise FramesMissingError(f"the finished file shows frames {float(moved):+.3f} s off their time: {remedy}")
    return []


def _usual_step(times: list[Fraction]) -> Fraction:
    """Return the mean distance of frames: containers of a fixed rate count in whole frames."""
    return (max(times) - min(times)) / max(1, len(times) - 1)


def _heard_differences(wanted: Written, found: Written, video: Written, found_video: Written) -> list[str]:
    """Compare what the source gave to hear with what the finished file gives, and when it comes against the frames."""
    before, after = wanted.heard, found.heard
    name = f"the {wanted.codec} sound"
    if before is None or after is None or before.first is None or not video.times or not found_video.times:
        return []
    if after.first is None:
        return [f"{name} cannot be heard in the finished file"]
    problems = []
    difference = after.seconds - before.seconds
    if abs(difference) > _SLACK + 2 * before.coarseness:
        problems.append(f"{name} lasts {float(after.seconds):.2f} s instead of {float(before.seconds):.2f} s")
    begin = (after.first - min(found_video.times)) - (before.first - min(video.times))
    drift = after.drift_from(before)
    worst = max(begin, begin + drift, key=abs)
    if abs(worst) > _TOGETHER + before.coarseness:
        problems.append(f"{name} moved by {float(worst):+.3f} s against the frames")
    return problems


def _count(stream: Written, packet: av.Packet, *, by_decoding: bool) -> None:
    """Count a packet that is shown or heard: edit lists hide others."""
    if stream.heard is not None:
        stream.heard.take(packet)
    if packet.is_discard and stream.kind == "video":
        return
    stream.packets, stream.bytes = stream.packets + 1, stream.bytes + packet.size
    stamp = packet.dts if packet.pts is None or by_decoding else packet.pts
    if stream.kind == "video" and stamp is not None and packet.time_base is not None:
        stream.times.append(stamp * packet.time_base)

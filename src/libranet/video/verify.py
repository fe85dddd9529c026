"""The finished file read back: streams, packets and durations against what was written."""

from fractions import Fraction
from pathlib import Path

import av

from libranet.errors import InputError
from libranet.video.decoding import Damage, read_packets
from libranet.video.mux import Written
from libranet.video.pyav import codec_name, open_input
from libranet.video.reader import main_video_stream

_SLACK = Fraction(1, 2)
"""Seconds that the end of a stream may differ: containers round durations, and pad sound to whole blocks."""
_TRIED_FRAMES = 3
_TOGETHER = Fraction(1, 20)
"""Seconds that the beginning of a stream may move against the video."""


class FramesMissingError(InputError):
    """The finished file does not hold every frame."""


def verify(path: Path, written: tuple[Written, ...]) -> list[str]:
    """Return a sentence for everything that is missing in a finished file.

    Args:
        path: The file.
        written: What was written, the video first.

    Raises:
        FramesMissingError: It does not hold every frame.
    """
    found: dict[int, Written] = {}
    damage = Damage()
    try:
        with open_input(f"file:{path}") as container:
            for stream in container.streams:
                found[stream.index] = Written(stream.type, codec_name(stream))
            guessed = container.format.name == "avi"  # which has decoding times alone
            for packet in read_packets(container, damage):
                _count(found[packet.stream.index], packet, by_decoding=guessed)
    except (av.FFmpegError, ValueError) as error:
        return [f"the finished file cannot be read back ({error})"]
    problems = [f"the finished file cannot be read to its end: {damage.truncated}"] if damage.truncated else []
    if why := _undecodable(path):
        problems.append(f"the video of the finished file cannot be decoded ({why})")
    rest = list(found.values())
    video = next((stream for stream in rest if stream.kind == "video"), None)
    for wanted in written:
        kind = "video" if wanted.kind == "cover" else wanted.kind
        match = next((s for s in rest if s.kind == kind and (kind != "audio" or s.codec == wanted.codec)), None)
        match = match or next((s for s in rest if s.kind == kind), None)
        if match is None:
            if wanted.packets:
                problems.append(f"the {wanted.kind} stream ({wanted.codec}) is missing in the finished file")
            continue
        rest.remove(match)
        problems += _differences(wanted, match, written[0], video)
    return problems


def _undecodable(path: Path) -> str:
    """Say why the first frames of a finished file cannot be decoded, or nothing: headers that are not its stream's."""
    count = 0
    try:
        with open_input(f"file:{path}") as container:
            video = main_video_stream(container)
            if video is None or video.codec_context is None:
                return ""
            video.codec_context.options = {"err_detect": "explode"}
            for frame in container.decode(video):
                count += 1
                if frame.is_corrupt:
                    return "its first frames are damaged"
                if count == _TRIED_FRAMES:
                    break
    except (av.FFmpegError, ValueError) as error:
        return str(getattr(error, "strerror", None) or error)
    return "" if count else "it gives no frame"


def _differences(wanted: Written, found: Written, video: Written, found_video: Written | None) -> list[str]:
    if wanted.kind == "cover" or wanted.packets == 0:
        return []
    if wanted.kind == "video":
        if found.packets != wanted.packets:
            raise FramesMissingError(
                f"the finished file holds {found.packets} of {wanted.packets} frames: "
                "run it again with --resume and another container, such as .mkv"
            )
        return []
    if wanted.kind not in ("audio", "subtitle"):
        return [] if found.packets else [f"the {wanted.kind} stream ({wanted.codec}) is empty in the finished file"]
    if found.packets == 0:
        return [f"the {wanted.kind} stream ({wanted.codec}) is empty in the finished file"]
    problems = []
    if wanted.kind == "subtitle" and found.packets < wanted.packets:
        problems.append(f"only {found.packets} of {wanted.packets} subtitles ({wanted.codec}) were written")
    if wanted.kind == "audio" and found.packets < wanted.packets and not found.codec.startswith("pcm"):
        problems.append(f"only {found.packets} of {wanted.packets} packets of the {wanted.codec} sound were written")
    if wanted.kind == "audio" and wanted.first is not None and found.first is not None:
        length, found_length = wanted.end - wanted.first, found.end - found.first
        if length - found_length > _SLACK:
            problems.append(
                f"the {wanted.codec} sound lasts {float(found_length):.2f} s instead of {float(length):.2f} s"
            )
        if found_video is not None and video.first is not None and found_video.first is not None:
            drift = (found.first - found_video.first) - (wanted.first - video.first)
            if abs(drift) > _TOGETHER:
                problems.append(f"the {wanted.codec} sound moved by {float(drift):+.3f} s against the frames")
    return problems


def _count(stream: Written, packet: av.Packet, *, by_decoding: bool) -> None:
    if packet.size == 0:
        return
    stream.packets += 1
    stamp = packet.dts if packet.pts is None or by_decoding else packet.pts
    if stamp is None or packet.time_base is None:
        return
    shown = stamp * packet.time_base
    stream.first = shown if stream.first is None else min(stream.first, shown)
    stream.end = max(stream.end, shown + (packet.duration or 0) * packet.time_base)

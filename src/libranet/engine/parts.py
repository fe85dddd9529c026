"""One long video in parts, made by several processes, joined to the bits of a single run.

A part is a range of whole segments. Its process decodes from a key frame, restores the frames before the part that the
filter over time reaches back to, and encodes only its own. Where grids are settled over whole shots, it also reads the
seconds around the part that they depend on. That gives the bits of one run because the network's memory is finite, and
every segment has an encoder of its own. Seeking is exact only in sound files of some formats; so the
times of all frames must be those of an index, and the frames that two neighbours both decode must have the same
samples. Where they do not, the video has to be done whole.
"""

import os
import shutil
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

from libranet.engine.options import DehazeReport, translate_io_errors
from libranet.engine.pipeline import PipelineResult
from libranet.engine.restorer import settles
from libranet.engine.segments import RESUME_HINT, OtherSettingsError, RunFolder
from libranet.engine.video import VideoRun, dehaze_video
from libranet.errors import LibraNetError
from libranet.network import LiBrANet
from libranet.network.settle import KnotSpacing
from libranet.video.clock import may_jump
from libranet.video.decoding import Damage, read_packets
from libranet.video.pixels import plane_views
from libranet.video.reader import SourceFrame, VideoReader, open_video
from libranet.video.structure import find_breaks

SHARE_OF_LEAD = 0.1
"""A part is so long that the frames before it, which are restored twice, are at most this share of it."""
COST_OF_GRIDS = 0.25  # of reading a frame for its grids, against restoring it: 1080p on a CPU
_SEEKABLE = ("h264", "hevc", "av1", "vp9", "prores", "dnxhd", "mjpeg", "ffv1")
"""Codecs with one frame in each packet, whose packets have the times of their frames."""


class CannotSplitError(LibraNetError):
    """Parts of this video would not be exact: it has to be done whole."""


@dataclass(frozen=True)
class Part:
    """A range of segments of one video."""

    number: int
    first: int  # its first frame
    frames: int
    ahead: int  # frames before those of `lead` that are read for their grids alone
    lead: int  # frames before it that are restored, too
    restored: int  # frames that the network restores: the lead, its own, and the look-ahead
    tail: int  # its last frames, which are the lead of the next part
    times: tuple[int, ...]  # presentation times of all frames to decode
    keys: tuple[int, ...]  # times of key frames to begin at, the nearest first


def _index_frames(reader: VideoReader) -> tuple[list[int], list[int]] | None:
    """Read the times of all frames and of key frames without decoding them; None where seeking would not be exact."""
    source, container, stream = reader.source, reader.container, reader.stream
    if source is None or source.kind != "file" or container is None or stream is None or reader.deinterlace:
        return None
    assert source.path is not None
    if may_jump(container) or container.format.name == "avi" or reader.codec not in _SEEKABLE:
        return None
    if find_breaks(source.path, container.format.name):
        return None
    times: list[int] = []
    keys: list[int] = []
    with open_video(source) as again:
        assert again.container is not None
        again.container.seek(0)
        damage = Damage()
        for packet in read_packets(again.container, damage):
            if packet.stream.index != stream.index or packet.size == 0:
                continue
            if packet.pts is None or packet.is_discard or packet.is_corrupt:
                return None
            times.append(packet.pts)
            if packet.is_keyframe:
                keys.append(packet.pts)
    ordered = sorted(times)
    if damage or not keys or len(set(times)) < len(times) or keys[0] != ordered[0]:
        return None
    return ordered, sorted(keys)


def part_starts(frames: int, *, lead: int, length: int, wanted: int) -> list[int]:
    """The first frames of the parts of a video, as even as segments allow; nothing where it is better done whole.

    Args:
        lead: Frames before a part that are restored, too.
        length: Frames of a segment.
        wanted: Number of parts; fewer where they would be too short.
    """
    segments = -(-frames // length)
    shortest = max(2, -(-round(lead / SHARE_OF_LEAD) // length))  # in segments
    count = min(wanted, segments // shortest)
    return [segments * number // count * length for number in range(count)] if count > 1 else []


def plan_parts(run: VideoRun, *, wanted: int) -> tuple[Part, ...]:
    """Divide a long video into so many parts, or fewer; nothing where it is better or has to be done whole."""
    network, options = run.network, run.options
    excerpt = options.start > 0 or options.end is not None
    if wanted < 2 or not isinstance(network, LiBrANet) or options.live or options.two_pass or excerpt:
        return ()
    with open_video(run.source, deinterlace=options.deinterlace) as reader:
        lead, length = run.reach(float(reader.rate), 0), options.segment_frames
        spacing = KnotSpacing.at(float(reader.rate)) if settles(network, options) else None
        twice = lead if spacing is None else lead + round(COST_OF_GRIDS * (spacing.before + spacing.after(network)))
        if reader.frame_count and not part_starts(reader.frame_count, lead=twice, length=length, wanted=wanted):
            return ()
        plan = run.plan(reader)
        index = _index_frames(reader)
        first = next(reader.frames(), None)
        if index is None or plan.settings.time_base != reader.time_base or first is None or first.pts != index[0][0]:
            return ()
    times, keys = index
    starts = part_starts(len(times), lead=twice, length=length, wanted=wanted)
    lookahead = network.config.window // 2
    parts = []
    for number, (begin, end) in enumerate(pairwise([*starts, len(times)])):
        before = min(begin, lead)
        read = begin - before if spacing is None else spacing.start(begin - before)
        decoded = times[read : end + (lookahead if spacing is None else spacing.after(network))]
        parts.append(
            Part(
                number=number,
                first=begin,
                frames=end - begin,
                ahead=begin - before - read,
                lead=before,
                restored=len(times[begin - before : end + (lookahead if spacing is None else 0)]),
                tail=lead if end < len(times) else 0,
                times=tuple(decoded),
                keys=tuple(reversed([key for key in keys if key <= decoded[0]][-3:])),
            )
        )
    return tuple(parts)


def dehaze_part(run: VideoRun, part: Part) -> int:
    """Make the segments of one part. It goes on after the last finished segment of a killed process.

    Raises:
        CannotSplitError: The frames are not those of the index, or the file is damaged.
    """
    with open_video(run.source) as reader:
        settings = run.plan(reader).settings
        folder = part_folder(run.output, part)
        folder.path.parent.mkdir(exist_ok=True)
        wanted = _part_settings(run.settings(settings), part)
        try:
            folder.open(wanted, resume=True)
        except OtherSettingsError:
            folder.open(wanted, resume=False)
        try:
            if folder.ended is not None:
                return 0
            done, sums = folder.frames, {"lead": 0, "tail": 0}
            own = part.times[part.ahead : part.ahead + part.restored]
            begin = part.first - part.lead - part.ahead
            result = run.encode(
                reader,
                _watched(frames_of(reader, part, own), part, sums),
                settings,
                folder,
                first=part.first - part.lead,
                lead=part.lead,
                count=part.frames,
                read_again=lambda number: frames_of(reader, part, part.times[number - begin :]),
            )
            if reader.damage or reader.damage.repaired_times or result.format_change:
                raise CannotSplitError(f"{run.source.name} is damaged or changes its format: it is done whole")
            folder.end({**sums, "cuts": result.cuts})
            return part.frames - done
        finally:
            folder.release()


def _part_settings(settings: dict[str, Any], part: Part) -> dict[str, Any]:
    return {**settings, "part": [part.first, part.frames]}


def join_parts(run: VideoRun, parts: tuple[Part, ...], *, overwrite: bool = False) -> DehazeReport:
    """Join finished parts to the output, with audio and all other streams, as a single run does.

    Raises:
        CannotSplitError: A part is missing, or two neighbours decoded different frames.
    """
    joined = RunFolder(run.output)
    finished: list[RunFolder] = []
    with open_video(run.source) as reader:
        settings = run.settings(run.plan(reader).settings)
        for part in parts:
            folder = part_folder(run.output, part)
            folder.open(_part_settings(settings, part), resume=True)
            folder.release()
            if folder.ended is None or folder.frames != part.frames:
                raise CannotSplitError(f"part {part.number} of {run.output} is missing: the video is done whole")
            finished.append(folder)
        for before, after in pairwise(finished):
            assert before.ended is not None
            assert after.ended is not None
            if before.ended["tail"] != after.ended["lead"]:
                raise CannotSplitError(f"{run.source.name} decodes differently after seeking: it is done whole")
        joined.open(settings, resume=False)
        try:
            for folder in finished:
                for segment in folder.segments:
                    target = joined.segment_file(len(joined.segments))
                    _link(folder.path / segment.file, target)
                    joined.add(replace(segment, file=target.name))
            joined.end(run.facts(reader, joined, PipelineResult()))
        finally:
            joined.release()
    report = dehaze_video(
        run.source,
        run.output,
        model=run.network,
        options=run.options,
        cores=run.cores,
        overwrite=overwrite,
        resume=True,
    )
    forget_parts(run.output)
    cuts = sum(folder.ended["cuts"] for folder in finished if folder.ended is not None)
    return replace(report, cuts=cuts)


def _link(file: Path, target: Path) -> None:
    """Give a file a second name; copy it where the file system has no such links."""
    try:
        os.link(file, target)
    except OSError:
        with translate_io_errors(target, RESUME_HINT):
            shutil.copyfile(file, target)


def part_folder(output: Path, part: Part) -> RunFolder:
    return RunFolder(parts_folder(output) / f"part-{part.number:05d}{output.suffix}")


def forget_parts(output: Path) -> None:
    shutil.rmtree(parts_folder(output), ignore_errors=True)


def parts_folder(output: Path) -> Path:
    return output.with_name(f".{output.name}.libranet-parts")


def frames_of(reader: VideoReader, part: Part, wanted: tuple[int, ...]) -> Iterator[SourceFrame]:
    for key in (*part.keys, None):
        with open_video(reader.source or reader.name) as again:
            again.watch_alpha = reader.watch_alpha
            # Half a tick before the key frame: seconds are floating-point numbers.
            start = 0.0 if key is None else float((key - 0.5) * reader.time_base - reader.first_time)
            frames = again.frames(start=max(0.0, start))
            first = next((frame for frame in frames if frame.pts >= wanted[0]), None)
            if first is None or first.pts != wanted[0]:
                continue  # it began too late
            count = 0
            for frame in chain([first], islice(frames, len(wanted) - 1)):
                if frame.pts != wanted[count]:
                    raise CannotSplitError(f"{reader.name} has other frames than its packets say: it is done whole")
                count += 1
                yield frame
            if count < len(wanted) or again.damage or again.damage.repaired_times:
                raise CannotSplitError(f"{reader.name} is damaged: it is done whole")
            return
    raise CannotSplitError(f"{reader.name} cannot be read from the middle: it is done whole")


def _watched(frames: Iterator[SourceFrame], part: Part, sums: dict[str, int]) -> Iterator[SourceFrame]:
    """Sum up the frames that a part shares with its neighbours."""
    end = part.lead + part.frames
    for place, frame in enumerate(frames):
        if place < part.lead:
            sums["lead"] = _checksum(frame, sums["lead"])
        if end - part.tail <= place < end:
            sums["tail"] = _checksum(frame, sums["tail"])
        yield frame


def _checksum(frame: SourceFrame, value: int) -> int:
    for view in plane_views(frame.image):
        value = zlib.crc32(view.tobytes(), value)
    return value

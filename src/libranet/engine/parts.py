"""One long video in parts, made by several processes, joined to the bits of a single run.

A part is a range of whole segments. Its process decodes from a key frame, restores the frames before the part that the
filter over time reaches back to, and encodes only its own. That gives the bits of one run because the network's memory
is finite, and every segment has an encoder of its own. Seeking is exact only in sound files of some formats; so the
times of all frames must be those of an index, and the frames that two neighbours both decode must have the same
samples. Where they do not, the video has to be done whole.
"""

import dataclasses
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path

from libranet.engine.options import DehazeOptions, DehazeReport, Progress, translate_io_errors
from libranet.engine.pipeline import PipelineResult, run_pipeline
from libranet.engine.segment_encoders import EncoderPlan, SegmentSink
from libranet.engine.segments import RESUME_HINT, OtherSettingsError, OutputClock, RunFolder, Segment, run_settings
from libranet.engine.video import (
    begins_at_zero,
    dehaze_video,
    make_restorer,
    plan_run,
    run_facts,
)
from libranet.errors import LibraNetError
from libranet.network import LiBrANet, Network
from libranet.video.clock import may_jump
from libranet.video.decoding import Damage, read_packets
from libranet.video.pixels import plane_views
from libranet.video.reader import SourceFrame, VideoReader, frame_duration, open_video
from libranet.video.source import Source
from libranet.video.structure import find_breaks

SHARE_OF_LEAD = 0.1
"""A part is so long that the frames before it, which are restored twice, are at most this share of it."""
_SEEKABLE = ("h264", "hevc", "av1", "vp9", "prores", "dnxhd", "mjpeg", "ffv1")
"""Codecs with one frame in each packet, whose packets have the times of their frames."""


class CannotSplitError(LibraNetError):
    """Parts of this video would not be exact: it has to be done whole."""


@dataclass(frozen=True)
class Part:
    """A range of segments of one video."""

    number: int
    first: int
    """Its first frame."""
    frames: int
    lead: int
    """Frames before it that are restored, too."""
    tail: int
    """Its last frames, which are the lead of the next part."""
    times: tuple[int, ...]
    """Presentation times of all frames to decode: the lead, its own, and the look-ahead."""
    keys: tuple[int, ...]
    """Times of key frames to begin at, the nearest first."""
    origin: int
    """Time of the video's first frame."""


@dataclass(frozen=True)
class FrameIndex:
    """Times of a video's frames, from its packets."""

    times: tuple[int, ...]
    keys: tuple[int, ...]


def index_frames(reader: VideoReader) -> FrameIndex | None:
    """Read the times of all frames without decoding them; None where seeking would not be exact."""
    source, container, stream = reader.source, reader.container, reader.stream
    if source is None or source.kind != "file" or container is None or stream is None or reader.deinterlace:
        return None
    assert source.path is not None
    if find_breaks(source.path, container.format.name):
        return None
    if may_jump(container) or container.format.name == "avi" or reader.codec not in _SEEKABLE:
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
    return FrameIndex(tuple(ordered), tuple(sorted(keys)))


def part_starts(frames: int, *, lead: int, length: int, wanted: int) -> list[int]:
    """The first frames of the parts of a video, as even as segments allow; nothing where it is better done whole.

    Args:
        frames: Of the video.
        lead: Frames before a part that are restored, too.
        length: Frames of a segment.
        wanted: Number of parts; fewer where they would be too short.
    """
    segments = -(-frames // length)
    shortest = max(2, -(-round(lead / SHARE_OF_LEAD) // length))  # in segments
    count = min(wanted, segments // shortest)
    return [segments * number // count * length for number in range(count)] if count > 1 else []


def plan_parts(
    source: Source, output: Path, network: Network, options: DehazeOptions, *, wanted: int, cores: int | None = None
) -> tuple[Part, ...]:
    """Divide a long video, or return nothing where it is better or has to be done whole.

    Args:
        source: The video.
        output: The file to write.
        network: The network, on its device.
        options: How to restore and encode.
        wanted: Number of parts; fewer where they would be too short.
        cores: As `dehaze_video` takes it.
    """
    excerpt = options.start > 0 or options.end is not None
    if wanted < 2 or not isinstance(network, LiBrANet) or options.live or options.two_pass or excerpt:
        return ()
    with open_video(source, deinterlace=options.deinterlace) as reader:
        lead = options.reach(network.config.window, float(reader.rate))
        length = options.segment_frames
        if reader.frame_count and not part_starts(reader.frame_count, lead=lead, length=length, wanted=wanted):
            return ()
        plan = plan_run(reader, output, network, options, cores=cores)
        index = index_frames(reader)
        first = next(reader.frames(), None)
        if index is None or plan.settings.time_base != reader.time_base or first is None or first.pts != index.times[0]:
            return ()
    starts = part_starts(len(index.times), lead=lead, length=length, wanted=wanted)
    ahead = network.config.window // 2
    parts = []
    for number, begin in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else len(index.times)
        before = min(begin, lead)
        times = index.times[begin - before : end + ahead]
        keys = [key for key in index.keys if key <= times[0]]
        parts.append(
            Part(
                number=number,
                first=begin,
                frames=end - begin,
                lead=before,
                tail=lead if end < len(index.times) else 0,
                times=times,
                keys=tuple(reversed(keys[-3:])),
                origin=index.times[0],
            )
        )
    return tuple(parts)


def dehaze_part(
    source: Source,
    output: Path,
    part: Part,
    network: Network,
    options: DehazeOptions,
    *,
    cores: int | None = None,
    encoders: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> int:
    """Make the segments of one part. It goes on after the last finished segment of a killed process.

    Args:
        source: The video.
        output: The file that all parts will be joined to.
        part: Which one.
        network: The network, on its device.
        options: How to restore and encode.
        cores: As `dehaze_video` takes it.
        encoders: As `dehaze_video` takes it.
        progress: Called after each frame.

    Returns:
        Frames restored in this call.

    Raises:
        CannotSplitError: The frames are not those of the index, or the file is damaged.
    """
    with open_video(source) as reader:
        plan = plan_run(reader, output, network, options, cores=cores)
        settings = plan.settings
        folder = part_folder(output, part)
        folder.path.parent.mkdir(exist_ok=True)
        wanted = {**run_settings(source, network, options, settings), "part": [part.first, part.frames]}
        try:
            folder.open(wanted, resume=True)
        except OtherSettingsError:
            folder.open(wanted, resume=False)
        try:
            if folder.ended is not None:
                return 0
            done = folder.frames
            origin = part.origin if begins_at_zero(output, options) else 0
            clock = OutputClock(
                reader.time_base, settings.time_base, origin, frame_duration(reader.rate, reader.time_base)
            )
            count = EncoderPlan.make(settings, length=options.segment_frames, most=encoders).encoders
            sink = SegmentSink(
                folder, settings, clock, length=options.segment_frames, encoders=count, keep_frames=False
            )
            overlap = _Overlap(part)
            lead = min(part.lead + done, options.reach(network.config.window, float(reader.rate)))
            begin = time.perf_counter()

            def report(result: PipelineResult) -> None:
                if progress is not None and result.frames <= part.frames - done:
                    fps = result.frames / max(1e-9, time.perf_counter() - begin)
                    progress(Progress(done + result.frames, part.frames, fps, result.slowest_stage))

            try:
                result = run_pipeline(
                    overlap.watched(frames_of(reader, part)),
                    make_restorer(reader, network, options, settings),
                    _FirstFrames(sink, part.frames - done),
                    skip=part.lead + done - lead,
                    warm_up=lead,
                    detect_shots=options.shot_detection,
                    on_frame=report,
                )
            except BaseException:
                sink.discard()
                raise
            if reader.damage or reader.damage.repaired_times or result.format_change:
                raise CannotSplitError(f"{source.name} is damaged or changes its format: it is done whole")
            folder.end({"lead": overlap.lead, "tail": overlap.tail, "cuts": result.cuts})
            return part.frames - done
        finally:
            folder.release()


def join_parts(
    source: Source,
    output: Path,
    parts: tuple[Part, ...],
    network: Network,
    options: DehazeOptions,
    *,
    cores: int | None = None,
    overwrite: bool = False,
) -> DehazeReport:
    """Join finished parts to the output, with sound and all other streams, as a single run does.

    Raises:
        CannotSplitError: A part is missing, or two neighbours decoded different frames.
    """
    run = RunFolder(output)
    finished: list[RunFolder] = []
    with open_video(source) as reader:
        settings = run_settings(
            source, network, options, plan_run(reader, output, network, options, cores=cores).settings
        )
        for part in parts:
            folder = part_folder(output, part)
            folder.open({**settings, "part": [part.first, part.frames]}, resume=True)
            folder.release()
            if folder.ended is None or folder.frames != part.frames:
                raise CannotSplitError(f"part {part.number} of {output} is missing: the video is done whole")
            finished.append(folder)
        for before, after in pairwise(finished):
            assert before.ended is not None
            assert after.ended is not None
            if before.ended["tail"] != after.ended["lead"]:
                raise CannotSplitError(f"{source.name} decodes differently after seeking: it is done whole")
        run.open(settings, resume=False)
        try:
            for folder in finished:
                for segment in folder.segments:
                    target = run.segment_file(len(run.segments))
                    _link(folder.path / segment.file, target)
                    run.add(Segment(target.name, segment.frames, segment.first_pts, segment.end_pts))
            run.end(run_facts(reader, options, run, PipelineResult()))
        finally:
            run.release()
    report = dehaze_video(
        source.name, output, model=network, options=options, cores=cores, overwrite=overwrite, resume=True
    )
    forget_parts(output)
    cuts = sum(folder.ended["cuts"] for folder in finished if folder.ended is not None)
    return dataclasses.replace(report, cuts=cuts)


def _link(file: Path, target: Path) -> None:
    """Give a file a second name; copy it where the file system has no such links."""
    try:
        os.link(file, target)
    except OSError:
        with translate_io_errors(target, RESUME_HINT):
            shutil.copyfile(file, target)


def part_folder(output: Path, part: Part) -> RunFolder:
    """The folder of a part, in the hidden folder of all parts beside the output."""
    return RunFolder(_parts_folder(output) / f"part-{part.number:05d}{output.suffix}")


def forget_parts(output: Path) -> None:
    """Delete the parts of an output."""
    shutil.rmtree(_parts_folder(output), ignore_errors=True)


def _parts_folder(output: Path) -> Path:
    return output.with_name(f".{output.name}.libranet-parts")


def frames_of(reader: VideoReader, part: Part) -> Iterator[SourceFrame]:
    """Decode the frames of a part, its lead and the look-ahead.

    Raises:
        CannotSplitError: They are not those of the index.
    """
    wanted = part.times
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
            for frame in _chained(first, frames, len(wanted)):
                if frame.pts != wanted[count]:
                    raise CannotSplitError(f"{reader.name} has other frames than its packets say: it is done whole")
                count += 1
                yield frame
            if count < len(wanted) or again.damage or again.damage.repaired_times:
                raise CannotSplitError(f"{reader.name} is damaged: it is done whole")
            return
    raise CannotSplitError(f"{reader.name} cannot be read from the middle: it is done whole")


def _chained(first: SourceFrame, rest: Iterator[SourceFrame], count: int) -> Iterator[SourceFrame]:
    yield first
    yield from islice(rest, count - 1)


class _Overlap:
    """Checksums of the frames that a part shares with its neighbours."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self.lead = self.tail = 0

    def watched(self, frames: Iterator[SourceFrame]) -> Iterator[SourceFrame]:
        part = self._part
        end = part.lead + part.frames
        for place, frame in enumerate(frames):
            if place < part.lead:
                self.lead = _checksum(frame, self.lead)
            if end - part.tail <= place < end:
                self.tail = _checksum(frame, self.tail)
            yield frame


def _checksum(frame: SourceFrame, value: int) -> int:
    for view in plane_views(frame.image):
        value = zlib.crc32(view.tobytes(), value)
    return value


class _FirstFrames:
    """A sink that takes the first frames. Those behind them are the look-ahead, which the next part restores."""

    def __init__(self, sink: SegmentSink, count: int) -> None:
        self._sink, self._left = sink, count

    def write(self, frame: SourceFrame) -> None:
        if self._left:
            self._left -= 1
            self._sink.write(frame)

    def finish(self) -> None:
        self._sink.finish()

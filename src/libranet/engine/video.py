"""`dehaze_video`: one video file in, one out. All other streams and tags are kept."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from libranet.atomic import Claim
from libranet.device import Precision
from libranet.engine.options import DehazeOptions, DehazeReport, Progress, check_output, translate_io_errors, what_lifts
from libranet.engine.pipeline import PipelineResult, run_pipeline
from libranet.engine.plan import RunPlan, drawn_size, expected_frames, make_plan, with_estimate
from libranet.engine.restorer import FrameRestorer, ReadAgain, output_image, settles
from libranet.engine.segment_encoders import SegmentSink, encoder_count, encoder_threads
from libranet.engine.segments import RESUME_HINT, OutputClock, RunFolder, journalled_frames, run_settings, write_samples
from libranet.engine.watch import SourceWatch
from libranet.errors import InputError
from libranet.file_names import is_image_name
from libranet.network import Network
from libranet.runtime import load_network
from libranet.video.encoder import EncoderSettings
from libranet.video.excerpt import Excerpt
from libranet.video.file_facts import lost_side_data
from libranet.video.mux import ZERO_BASED, JoinReport, join, zero_time
from libranet.video.packets import read_times
from libranet.video.pixels import layout_of, plane_views
from libranet.video.reader import SourceFrame, VideoReader, frame_duration, open_video
from libranet.video.source import Source, is_live_output, parse_source
from libranet.video.verify import verify

ProgressCallback = Callable[[Progress], None]
_FAR_OFF = 0.021
"""Seconds that a frame may be off its time in silence: half a frame of 25 frames a second."""


@dataclass(frozen=True)
class VideoRun:
    """A video, its output, and how one becomes the other: what whole runs and parts of long videos share."""

    source: Source
    output: Path
    network: Network
    options: DehazeOptions
    cores: int | None = None
    """As `dehaze_video` takes it."""
    encoders: int | None = None
    """As `dehaze_video` takes it."""
    progress: ProgressCallback | None = None

    def plan(self, reader: VideoReader) -> RunPlan:
        """Return the plan of the run with the threads of its encoders, which decide their bits."""
        plan = make_plan(reader, self.output, self.network, self.options)
        return replace(plan, settings=replace(plan.settings, threads=encoder_threads(plan.settings, cores=self.cores)))

    def settings(self, encoder: EncoderSettings) -> dict[str, Any]:
        return run_settings(self.source, self.network, self.options, encoder)

    def encode(
        self,
        reader: VideoReader,
        frames: Iterator[SourceFrame],
        settings: EncoderSettings,
        folder: RunFolder,
        *,
        first: int = 0,
        lead: int = 0,
        count: int | None = None,
        read_again: ReadAgain | None = None,
    ) -> PipelineResult:
        """Restore frames and encode them into the segments that the run's folder does not have yet.

        Args:
            frames: Its frames, from the first one that the network has to see.
            first: Number of the first of the frames in the video.
            lead: Frames before the first one of a part, to be restored, but not written.
            count: Frames of a part; None writes all, and journals them.
            read_again: Decodes the video from a frame on, by its number; None opens it again.
        """
        network, options = self.network, self.options
        # Segments keep the source's clock: a resumed run may write them to another container.
        clock = OutputClock(reader.time_base, settings.time_base, 0, frame_duration(reader.rate, reader.time_base))
        if folder.segments and clock.source_base != clock.target_base:
            clock.last = max(read_times(folder.segment_paths[-1]))
        length, left = options.segment_frames, None if count is None else count - folder.frames
        number = encoder_count(settings, length=length, most=self.encoders)
        sink = SegmentSink(folder, settings, clock, length=length, encoders=number, limit=left)
        total = expected_frames(reader, options) if count is None else count
        begin = time.perf_counter()
        try:
            done = folder.frames + (_replay(reader, options, settings, folder, sink) if count is None else 0)
            warm_up = min(lead + done, self.reach(float(reader.rate), first + lead + done))

            def report(result: PipelineResult) -> None:
                if self.progress is not None and (left is None or result.frames <= left):
                    fps, stage = result.frames / max(1e-9, time.perf_counter() - begin), result.slowest_stage
                    remedy = what_lifts(stage, codec=settings.codec, device=network.device.type)
                    self.progress(Progress(done + result.frames, total, fps, stage, remedy=remedy))

            def report_reading() -> None:
                if self.progress is not None:
                    self.progress(Progress(done, total, 0.0, "decode", "reading ahead"))

            preparing = time.perf_counter()
            skip = lead + done - warm_up
            restorer = FrameRestorer(
                reader,
                network,
                options,
                settings,
                read_again=read_again or partial(self.read_from, reader),
                on_read=report_reading,
                first=first + skip,
            )
            prepared = time.perf_counter() - preparing
            with closing(restorer):
                result = run_pipeline(
                    frames,
                    restorer,
                    sink,
                    skip=skip,
                    warm_up=warm_up,
                    detect_shots=options.shot_detection,
                    on_frame=report,
                )
            result.start_seconds += prepared
            return result
        except BaseException:
            sink.discard()
            raise

    def reach(self, rate: float, number: int) -> int:
        """Return how many frames back the restored frame of this number depends on, at a frame rate."""
        settled = settles(self.network, self.options)
        reach = self.options.reach(self.network.config.window, rate, settled=settled)
        if settled:  # `QuietChange` remembers the frames of a segment, the adjustments those of the one before it
            whole = self.options.segment_frames if self.options.adjust.memory(rate) else 0
            reach += number % self.options.segment_frames + whole
        return reach

    def read_from(self, reader: VideoReader, number: int) -> Iterator[SourceFrame]:
        """Decode the video again, from the frame of this number on."""
        options = self.options
        with open_for(self.source, options, rate=float(reader.rate)) as again:
            yield from islice(again.frames(start=options.start, end=options.end), number, None)

    def facts(self, reader: VideoReader, folder: RunFolder, result: PipelineResult) -> dict[str, Any]:
        """Collect what joining needs to know, also after a crash between the last frame and the end."""
        warnings = describe_times(reader)
        if (moved := max((segment.moved for segment in folder.segments), default=0.0)) > _FAR_OFF:
            warnings.append(
                f"frames are up to {moved:.3f} s off their time: the output counts in whole frames, "
                "use another container for variable frame rates"
            )
        whole = self.options.start == 0 and self.options.end is None and not reader.damage and not result.format_change
        if whole and reader.frame_count is not None and folder.frames < reader.frame_count:
            warnings.append(f"{folder.frames} frames came, and the source's header says {reader.frame_count}")
        end = folder.segments[-1].end_pts if folder.segments else 0
        cut_off = self.options.end is not None or bool(result.format_change)
        return {
            "partial": describe_partial(reader, result),
            "warnings": warnings,
            "end_pts": end if cut_off else None,
        }


def dehaze_video(
    source: str | Path | Source,
    output: str | Path,
    *,
    model: Network | str | Path | None = None,
    strength: float | None = None,
    options: DehazeOptions | None = None,
    device: str = "auto",
    precision: Precision = "auto",
    overwrite: bool = False,
    resume: bool = False,
    rate: float | None = None,
    cores: int | None = None,
    encoders: int | None = None,
    progress: ProgressCallback | None = None,
    on_plan: Callable[[RunPlan], None] | None = None,
) -> DehazeReport:
    """Dehaze a video file, or a numbered image sequence, into a video file; or a photo into an image file.

    The output appears under its name only when it is complete.

    Examples:
        >>> report = dehaze_video("foggy.mp4", "clear.mp4", strength=0.8)
        >>> report.frames, report.partial
        (250, '')

    Args:
        source: A video file, an image sequence such as frame_%04d.png, or a photo.
        output: The file to write, whose suffix names the container; or a live output such as rtmp://server/live.
        model: A network, `libranet-small`, a checkpoint's path, or None for the weights of the package.
        strength: 0 changes nothing, 1 is the network's output, up to 1.5; None as in the options.
        options: How to restore and encode.
        device: As `libranet.device.pick_device` takes it.
        precision: As `libranet.device.pick_dtype` takes it.
        overwrite: Replace an existing output.
        resume: Continue an unfinished run with the same settings.
        rate: Frames per second of an image sequence.
        cores: Write the bits of a machine with this many cores, which encoders depend on; None for this machine.
        encoders: The most encoders at once, which changes no bit; None for as many as this machine carries.
        progress: Called after each frame.
        on_plan: Called with the plan before the first frame.

    Raises:
        InputError: The source, an option or the output's name cannot be used.
        OutputError: The output cannot be written.
    """
    options = options or DehazeOptions()
    options = options if strength is None else replace(options, strength=strength)
    origin = parse_source(source)
    if is_live_output(output):
        from libranet.engine.stream import dehaze_stream

        network = load_network(model, device=device, precision=precision)
        return dehaze_stream(
            origin, str(output), network, options=options, overwrite=overwrite, progress=progress, on_plan=on_plan
        )
    output = Path(output)
    check_output(origin, output, overwrite=overwrite)
    claim, watch = Claim(output), SourceWatch(origin)
    network = load_network(model, device=device, precision=precision)
    if origin.kind == "file" and is_image_name(origin.name) and is_image_name(output):
        from libranet.engine.image_files import dehaze_image

        return dehaze_image(origin.name, output, network, options=options, overwrite=overwrite)
    if not origin.can_reopen:
        from libranet.engine.stream import dehaze_stream

        if resume:
            raise InputError(f"{origin.name} can be read only once and cannot be resumed: leave out --resume")
        return dehaze_stream(origin, output, network, options=options, overwrite=overwrite, progress=progress)
    if options.segment_time is not None or options.reconnect:
        raise InputError(f"--segment-time and --reconnect are for recordings, and {origin.name} is a file: add --live")
    with open_for(origin, options, rate=rate) as reader:
        run = VideoRun(origin, output, network, options, cores, encoders, progress)
        plan = run.plan(reader)
        if on_plan is not None:
            # A resumed run has less to do, and its own pace says how much.
            on_plan(plan if resume else with_estimate(plan, reader, network, options))
        return _dehaze(run, reader, plan, claim, watch, resume=resume)


def open_for(source: Source, options: DehazeOptions, *, rate: float | None) -> VideoReader:
    return open_video(source, deinterlace=options.deinterlace, rate=rate, decoder=options.decoder, start=options.start)


def plan_video(
    source: str | Path,
    output: str | Path,
    network: Network,
    *,
    options: DehazeOptions | None = None,
    rate: float | None = None,
    overwrite: bool = False,
) -> RunPlan:
    """Return what `dehaze_video` would do, without doing it. It raises the same errors.

    Args:
        options: How to restore and encode.
        rate: Frames per second of an image sequence.
        overwrite: An existing output may be replaced.
    """
    options = options or DehazeOptions()
    origin = parse_source(source)
    if Path(output).parent.is_dir():  # a batch makes its folders when it runs
        check_output(origin, Path(output), overwrite=overwrite)
    with open_for(origin, options, rate=rate) as reader:
        return with_estimate(make_plan(reader, Path(output), network, options), reader, network, options)


def describe_partial(reader: VideoReader, result: PipelineResult) -> str:
    """Say why the output does not hold the whole input, or nothing."""
    damage = reader.damage
    return "; ".join(text for text in (damage.sentence() if damage else "", result.format_change) if text)


def describe_times(reader: VideoReader) -> list[str]:
    """Return a sentence for each way in which times of the output differ from those of the source."""
    notes = []
    if reader.damage.repaired_times:
        notes.append(f"{reader.damage.repaired_times} frames had no usable timestamp and got the next free one")
    if jumps := reader.damage.jumps:
        notes.append(
            f"the clock of the source jumps in {jumps} place{'s' * (jumps > 1)}, where recordings were joined: "
            "frames and sound go on without a gap"
        )
    return notes


def _dehaze(
    run: VideoRun, reader: VideoReader, plan: RunPlan, claim: Claim, watch: SourceWatch, *, resume: bool
) -> DehazeReport:
    options, progress = run.options, run.progress
    begin = time.perf_counter()
    settings = stored = plan.settings
    if options.two_pass:
        from libranet.engine.two_pass import encode_twice, lossless_settings

        stored = lossless_settings(settings)
    folder = RunFolder(run.output)
    folder.open(run.settings(settings), resume=resume)
    try:
        result = PipelineResult()
        if folder.ended is None:
            frames = watch.frames(reader.frames(start=options.start, end=options.end))
            first = next(frames, None)
            if first is not None:
                with watch.explaining():
                    result = run.encode(reader, chain([first], frames), stored, folder)
            folder.end(run.facts(reader, folder, result))
        assert folder.ended is not None
        if not folder.segments:
            raise InputError(f"{reader.name} has no frame between --start and --end: choose another part")
        segments = folder.segment_paths
        if options.two_pass:
            images = partial(_carriers, reader, options, settings)
            segments = [encode_twice(folder, settings, images, progress=progress)]
        if progress is not None:
            progress(Progress(folder.frames, folder.frames, 0.0, "disk", "joining"))
        with watch.explaining():
            watch.check()
            finished, joined, problems = _join(run, reader, plan, folder, segments)
            watch.check()  # before the file gets its name
        with translate_io_errors(run.output, RESUME_HINT):
            claim.publish(finished)
        folder.remove()
    finally:
        folder.release()
    missing = "; ".join(text for text in (folder.ended["partial"], *problems) if text)
    return DehazeReport(
        source=run.source.name,
        output=str(run.output),
        frames=folder.frames,
        resumed_frames=folder.frames - result.frames,
        width=settings.width,
        height=settings.height,
        codec=settings.codec,
        pixel_format=settings.pixel_format,
        copied_streams=plan.kept,
        partial=missing,
        warnings=(*folder.ended["warnings"], *plan.changed, *plan.notes, *joined.notes),
        weights=run.network.weights,
        **result.facts(begin),
    )


def _replay(
    reader: VideoReader, options: DehazeOptions, settings: EncoderSettings, folder: RunFolder, sink: SegmentSink
) -> int:
    """Encode the frames that a stopped run had restored for the next segment. Return how many there are."""
    kept = journalled_frames(folder.path, len(folder.segments), length=options.segment_frames)
    record = next(kept, None)
    if record is None or reader.source is None:
        return 0
    count = 0
    for frame in islice(_carriers(reader, options, settings), folder.frames, None):
        if record is None or record[0] != frame.pts or not write_samples(plane_views(frame.image), record[1]):
            break
        sink.write(frame, replayed=True)
        count += 1
        record = next(kept, None)
    return count


def _carriers(reader: VideoReader, options: DehazeOptions, settings: EncoderSettings) -> Iterator[SourceFrame]:
    """Decode the source again. Yield its frames in the output's form, for restored samples to be written into."""
    from libranet.video.scale import FrameScaler  # only runs with two passes and resumed ones load it

    assert reader.source is not None
    scaler = FrameScaler(settings.width, settings.height)
    size = drawn_size(reader, options, layout_of(settings.pixel_format))
    with open_for(reader.source, replace(options, decoder="cpu"), rate=float(reader.rate)) as again:
        for frame in again.frames(start=options.start, end=options.end):
            image = output_image(frame.image, settings.pixel_format, *size, settings.tags)
            yield replace(frame, image=scaler.scale(image))


def _join(
    run: VideoRun, reader: VideoReader, plan: RunPlan, folder: RunFolder, segments: list[Path]
) -> tuple[Path, JoinReport, list[str]]:
    """Write the output and read it back. Return the file, what was written and what is missing."""
    assert folder.ended is not None
    suffix = run.output.suffix.lower()
    first, end = folder.segments[0].first_pts * reader.time_base, folder.ended["end_pts"]
    excerpt = Excerpt(
        start=zero_time(reader, suffix, first_frame=first, cut=run.options.start > 0),
        end=None if end is None else Fraction(end) * reader.time_base,
        first_frame=first if suffix in ZERO_BASED else None,
        chosen=run.options.start > 0,
    )
    temporary = folder.path / f"joined{run.output.suffix}"
    original = run.source if reader.container is not None else None
    with translate_io_errors(run.output, RESUME_HINT):
        joined = join(temporary, plan.settings, segments, source=original, plans=plan.streams, excerpt=excerpt)
        problems = verify(temporary, joined.written)
        joined = replace(joined, notes=(*joined.notes, *lost_side_data(temporary, reader.side_data)))
        with contextlib.suppress(OSError), temporary.open("rb") as file:
            os.fsync(file.fileno())
    return temporary, joined, problems

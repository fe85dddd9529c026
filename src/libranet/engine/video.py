"""`dehaze_video`: one video file in, one out. All other streams and tags are kept."""

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

import av

from libranet.backends import load_network, make_backend
from libranet.device import Precision
from libranet.engine.options import DehazeOptions, DehazeReport, Progress, check_output, translate_io_errors
from libranet.engine.pipeline import PipelineResult, run_pipeline
from libranet.engine.restorer import FrameRestorer, target_tags
from libranet.engine.segments import RESUME_HINT, RunFolder, SegmentSink, fingerprint_network, fingerprint_source
from libranet.engine.views import side_size
from libranet.errors import InputError
from libranet.models import GridFilter, Network
from libranet.video.encoder import EncoderSettings, choose_codec, encoder_options, pick_pixel_format
from libranet.video.mux import Excerpt, JoinReport, join
from libranet.video.pixels import layout_of
from libranet.video.reader import VideoReader, frame_duration, open_video

ProgressCallback = Callable[[Progress], None]


def dehaze_video(
    source: str | Path,
    output: str | Path,
    *,
    model: Network | str | Path | None = None,
    options: DehazeOptions | None = None,
    device: str = "auto",
    precision: Precision = "auto",
    overwrite: bool = False,
    resume: bool = False,
    rate: float | None = None,
    progress: ProgressCallback | None = None,
) -> DehazeReport:
    """Dehaze a video file, or a numbered image sequence, into a video file.

    The output appears under its name only when it is complete.

    Examples:
        >>> report = dehaze_video("foggy.mp4", "clear.mp4", options=DehazeOptions(strength=0.8))
        >>> report.frames, report.partial
        (250, '')

    Args:
        source: A video file, or an image sequence such as frame_%04d.png.
        output: The video file to write. Its suffix names the container.
        model: A network, a checkpoint's path, or None for the weights of the package.
        options: How to restore and encode.
        device: As `libranet.device.pick_device` takes it.
        precision: As `libranet.device.pick_dtype` takes it.
        overwrite: Replace an existing output.
        resume: Continue an unfinished run with the same settings.
        rate: Frames per second of an image sequence.
        progress: Called after each frame.

    Raises:
        InputError: The source, an option or the output's name cannot be used.
        OutputError: The output cannot be written.
    """
    options = options or DehazeOptions()
    output = Path(output)
    check_output(source, output, overwrite=overwrite)
    network = load_network(
        model if isinstance(model, Network) or model is None else str(model), device=device, precision=precision
    )
    with open_video(source, deinterlace=options.deinterlace, rate=rate) as reader:
        return _dehaze(reader, Path(source), output, network, options, resume=resume, progress=progress)


def encoder_settings(reader: VideoReader, output: Path, options: DehazeOptions) -> EncoderSettings:
    """Choose codec, pixel format and options for the frames of `reader` in file `output`."""
    layout = layout_of(reader.pixel_format)
    width, height = reader.width, reader.height
    if options.compare == "side":
        width, height = side_size(layout, width, height, reader.tags.quarter_turns)
    codec = choose_codec(output, asked=options.codec, source_codec=reader.codec, layout=layout, size=(width, height))
    pixel_format = pick_pixel_format(codec, layout)
    assert pixel_format is not None
    tags = target_tags(reader.tags, reader.pixel_format, pixel_format, reader.height)
    target = layout_of(pixel_format)
    if options.compare == "side":
        width, height = side_size(target, reader.width, reader.height, reader.tags.quarter_turns)
    return EncoderSettings(
        codec=codec,
        pixel_format=pixel_format,
        width=width,
        height=height,
        time_base=reader.time_base,
        rate=reader.rate,
        tags=tags,
        options=encoder_options(codec, crf=options.crf, preset=options.preset, layout=target, tags=tags),
    )


def make_restorer(
    reader: VideoReader, network: Network, options: DehazeOptions, settings: EncoderSettings | None = None
) -> FrameRestorer:
    """Build the restorer for this video's frames."""
    backend = make_backend(
        network,
        strength=options.strength,
        live=options.live,
        want_transmission=options.view == "haze",
        grid_filter=grid_filter_of(reader, options),
    )
    return FrameRestorer(
        backend,
        pixel_format=reader.pixel_format,
        width=reader.width,
        height=reader.height,
        tags=reader.tags,
        target_format=settings.pixel_format if settings else reader.pixel_format,
        target_tags=settings.tags if settings else reader.tags,
        compare=options.compare,
        view=options.view,
    )


def grid_filter_of(reader: VideoReader, options: DehazeOptions) -> GridFilter:
    """The filter of the grids over time at this video's frame rate."""
    return GridFilter(options.steady, float(reader.rate))


def describe_partial(reader: VideoReader, result: PipelineResult) -> str:
    """Say why the output does not hold the whole input, or nothing."""
    damage = reader.damage
    return "; ".join(text for text in (damage.sentence() if damage else "", result.size_change) if text)


def _dehaze(
    reader: VideoReader,
    source: Path,
    output: Path,
    network: Network,
    options: DehazeOptions,
    *,
    resume: bool,
    progress: ProgressCallback | None,
) -> DehazeReport:
    begin = time.perf_counter()
    settings = encoder_settings(reader, output, options)
    folder = RunFolder(output)
    folder.open(_run_settings(source, network, options, settings), resume=resume)
    try:
        resumed = folder.frames
        result = PipelineResult()
        if folder.ended is None:
            result = _encode_segments(reader, network, options, settings, folder, progress=progress)
            folder.end(_facts(reader, options, folder, result))
        assert folder.ended is not None
        if not folder.segments:
            raise InputError(f"{reader.name} has no frame between --start and --end: choose another part")
        if progress is not None:
            progress(Progress(folder.frames, folder.frames, 0.0, "disk", "joining"))
        joined = _join(source, output, settings, folder)
        folder.remove()
    finally:
        folder.release()
    warnings = tuple(folder.ended["warnings"]) + joined.left_out
    return DehazeReport(
        source=str(source),
        output=str(output),
        frames=folder.frames,
        resumed_frames=resumed,
        width=settings.width,
        height=settings.height,
        codec=settings.codec,
        pixel_format=settings.pixel_format,
        seconds=time.perf_counter() - begin,
        stage_seconds=result.rounded_seconds(),
        cuts=result.cuts,
        copied_streams=joined.copied,
        partial=folder.ended["partial"],
        warnings=warnings,
        weights=network.weights,
    )


def _encode_segments(
    reader: VideoReader,
    network: Network,
    options: DehazeOptions,
    settings: EncoderSettings,
    folder: RunFolder,
    *,
    progress: ProgressCallback | None,
) -> PipelineResult:
    step = frame_duration(reader.rate, reader.time_base)
    frames = reader.frames(start=options.start, end=options.end)
    first = next(frames, None)
    if first is None:
        return PipelineResult()
    done = folder.frames
    # The filter of the next frame's grids reaches this far back, and the oldest grid's window; earlier frames change
    # nothing.
    warm_up = min(done, network.config.window // 2 + grid_filter_of(reader, options).memory)
    origin = first.pts if options.start > 0 else 0
    sink = SegmentSink(folder, settings, length=options.segment_frames, origin=origin, step=step)
    begin = time.perf_counter()

    def report(result: PipelineResult) -> None:
        if progress is not None:
            fps = result.frames / max(1e-9, time.perf_counter() - begin)
            total = _expected_frames(reader, options)
            progress(Progress(done + result.frames, total, fps, result.slowest_stage))

    try:
        return run_pipeline(
            chain([first], frames),
            make_restorer(reader, network, options, settings),
            sink,
            skip=done - warm_up,
            warm_up=warm_up,
            detect_shots=options.shot_detection,
            on_frame=report,
        )
    except BaseException:
        sink.discard()
        raise


def _expected_frames(reader: VideoReader, options: DehazeOptions) -> int | None:
    if reader.duration is None:
        return None
    if options.start == 0 and options.end is None and reader.frame_count:
        return reader.frame_count
    end = min(reader.duration, options.end) if options.end is not None else reader.duration
    return max(1, round((end - options.start) * float(reader.rate)))


def _facts(reader: VideoReader, options: DehazeOptions, folder: RunFolder, result: PipelineResult) -> dict[str, Any]:
    """Collect what joining needs to know, also after a crash between the last frame and the end."""
    warnings = []
    if reader.damage.repaired_times:
        warnings.append(f"{reader.damage.repaired_times} frames had no usable timestamp and got the next free one")
    end = folder.segments[-1].end_pts if folder.segments else 0
    cut_off = options.end is not None or bool(result.size_change)
    return {
        "partial": describe_partial(reader, result),
        "warnings": warnings,
        "start_pts": folder.segments[0].first_pts if folder.segments and options.start > 0 else 0,
        "end_pts": end if cut_off else None,
    }


def _join(source: Path, output: Path, settings: EncoderSettings, folder: RunFolder) -> JoinReport:
    assert folder.ended is not None
    start, end = folder.ended["start_pts"], folder.ended["end_pts"]
    excerpt = Excerpt(
        start=Fraction(start) * settings.time_base, end=None if end is None else Fraction(end) * settings.time_base
    )
    temporary = folder.path / f"joined{output.suffix}"
    original = source if "%" not in str(source) else None
    with translate_io_errors(output, RESUME_HINT):
        joined = join(temporary, settings, folder.segment_paths, source=original, excerpt=excerpt)
        with contextlib.suppress(OSError), temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, output)
    return joined


def _run_settings(source: Path, network: Network, options: DehazeOptions, settings: EncoderSettings) -> dict[str, Any]:
    encoder = {k: str(v) for k, v in dataclasses.asdict(settings).items()}
    pattern = "%" in str(source)
    return {
        "source": str(source) if pattern else fingerprint_source(source),
        "network": fingerprint_network(network),
        **dataclasses.asdict(options),
        "encoder": encoder,
        "libraries": f"PyAV {av.__version__}",
    }

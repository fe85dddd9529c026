"""A video into numbered images: the same decoder, network and adjustments as for a video, one file for each frame."""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from libranet.engine.options import DehazeOptions, DehazeReport, Progress, check_output, translate_io_errors
from libranet.engine.pipeline import PipelineResult, run_pipeline
from libranet.engine.plan import expected_frames, output_size
from libranet.engine.restorer import FrameRestorer
from libranet.engine.video import VideoRun, describe_partial, open_for
from libranet.errors import InputError
from libranet.frames import ColorConverter
from libranet.images import Image, check_image_fits, check_image_name, write_image
from libranet.network import Network
from libranet.video.pixels import layout_of, read_planes
from libranet.video.reader import SourceFrame, VideoReader
from libranet.video.source import Source, numbered_files, numbered_name

FIRST_NUMBER = 1  # as FFmpeg counts the frames of a video
_HDR_CURVES = {16: "PQ", 18: "HLG"}


def dehaze_to_images(
    source: Source,
    pattern: str,
    network: Network,
    *,
    options: DehazeOptions | None = None,
    overwrite: bool = False,
    resume: bool = False,
    rate: float | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> DehazeReport:
    """Dehaze a video into images. 8 bits per sample stay 8, more become 16; a rotated video becomes upright images.

    Args:
        pattern: Names of the images, such as frames/%05d.png; the first has the number 1.
        resume: Leave the existing images as they are, and write the others as an uninterrupted run would.
        rate: Frames per second of images without times.
    """
    options = options or DehazeOptions()
    options.adjust.check_mask()
    done = check_pattern(pattern, overwrite=overwrite or resume)
    done = done if resume and not overwrite else 0
    begin = time.perf_counter()
    with open_for(source, options, rate=rate) as reader:
        size = output_size(reader, options, layout_of(reader.pixel_format))
        sink = _ImageSink(reader, pattern, options, number=FIRST_NUMBER + done)
        total = expected_frames(reader, options)

        def report(result: PipelineResult) -> None:
            if progress is not None:
                fps = result.frames / max(1e-9, time.perf_counter() - begin)
                progress(Progress(done + result.frames, total, fps, result.slowest_stage))

        run = VideoRun(source, Path(pattern), network, options)
        warm_up = min(done, run.reach(float(reader.rate), done))
        skip = done - warm_up
        frames = reader.frames(start=options.start, end=options.end)
        again = partial(run.read_from, reader)
        restorer = FrameRestorer(reader, network, options, size=size, read_again=again, first=skip)
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
        if not done + result.frames:
            raise InputError(f"{reader.name} has no frame between --start and --end: choose another part")
        return DehazeReport(
            source=source.name,
            output=pattern,
            frames=done + result.frames,
            resumed_frames=done,
            width=size[0],
            height=size[1],
            codec=Path(pattern).suffix.lstrip("."),
            pixel_format="image",
            partial=describe_partial(reader, result),
            warnings=(*reader.notes, *_losses(reader), *sink.notes(), *_leftovers(pattern, done + result.frames)),
            weights=network.weights,
            **result.facts(begin),
        )


def check_pattern(pattern: str, *, overwrite: bool) -> int:
    """Refuse a pattern for images that cannot be written. Return how many images are there from the first on."""
    check_image_name(pattern)
    there = {number for number, _ in numbered_files(pattern)}
    first = numbered_name(pattern, min(there, default=FIRST_NUMBER))
    if first.parent.exists():
        check_output(Path(), first, overwrite=overwrite)
    done = 0
    while FIRST_NUMBER + done in there:
        done += 1
    return done


class _ImageSink:
    """Writes each frame to a file, as the source's samples show in RGB."""

    def __init__(self, reader: VideoReader, pattern: str, options: DehazeOptions, *, number: int) -> None:
        self._pattern, self._number, self._turns = pattern, number, reader.tags.quarter_turns
        layout = layout_of(reader.pixel_format)
        self._layout, self._peak = layout, layout.peak
        self._dtype: type[np.uint8] | type[np.uint16] = np.uint8 if layout.bits <= 8 else np.uint16
        self._rgb = ColorConverter(layout, reader.tags.color_spec(reader.pixel_format, reader.height), device="cpu")
        self._times: list[int] = []
        check_image_fits(numbered_name(pattern, number), Image(np.zeros((1, 1, 3), self._dtype)))

    def write(self, frame: SourceFrame) -> None:
        path = numbered_name(self._pattern, self._number)
        planes = read_planes(frame.image)
        most = float(np.iinfo(self._dtype).max)
        rgb = self._rgb.to_rgb(tuple(planes[: self._layout.colour_planes]))[0]  # [3, H, W]
        colours = rgb[:1] if self._layout.model == "gray" else rgb
        samples = (colours * most).round().permute(1, 2, 0).numpy()
        if self._layout.alpha:
            alpha = planes[3].numpy().astype(np.float32) * (most / self._peak)
            samples = np.concatenate([samples, np.rint(alpha)[..., None]], axis=2)
        image = np.ascontiguousarray(np.rot90(samples.astype(self._dtype), self._turns))
        with translate_io_errors(path):
            write_image(path, Image(image))
        self._times.append(frame.pts)
        self._number += 1

    def finish(self) -> None:
        """Every image is written already."""

    def notes(self) -> list[str]:
        """Say that the frames were not evenly spaced in time, or nothing."""
        steps = Counter(after - before for before, after in pairwise(self._times))
        if not steps or max(steps) - min(steps) <= 1:  # one unit is rounding
            return []
        return ["the frames are not evenly spaced in time, which images cannot say: a video of them has another pace"]


def _losses(reader: VideoReader) -> list[str]:
    """Say what of the source images cannot hold."""
    notes = []
    if reader.container is not None:
        kinds = sorted({stream.type for stream in reader.container.streams if stream.type != "video"})
        notes += [f"left out, because images have no place for it: {', '.join(kinds)}"] if kinds else []
    if curve := _HDR_CURVES.get(reader.tags.color_trc):
        notes.append(f"the samples stay in the curve {curve} of HDR, which the images do not name")
    shape = reader.tags.sample_aspect_ratio
    if shape not in (None, 1):
        notes.append(f"pixels of the video are {shape} as wide as high, those of images square: they look stretched")
    return notes


def _leftovers(pattern: str, frames: int) -> list[str]:
    """Name images of an earlier, longer run."""
    old = [path for number, path in numbered_files(pattern) if number >= FIRST_NUMBER + frames]
    more = f" and {len(old) - 1} more" if len(old) > 1 else ""
    return [f"{old[0]}{more} are from an earlier run: delete them"] if old else []

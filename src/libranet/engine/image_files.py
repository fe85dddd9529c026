"""Single images, numbered sequences of them, and previews of images and videos."""

import glob
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import av
import cv2
import numpy as np
import torch

from libranet.backends import Restored, make_backend
from libranet.engine.options import DehazeOptions, DehazeReport, Progress, check_output, translate_io_errors
from libranet.engine.video import make_restorer
from libranet.engine.views import FrameView
from libranet.errors import InputError
from libranet.frames import ColorConverter, FrameFormat, Frames, PixelLayout
from libranet.frames.format import RGB8, RGB16
from libranet.images import Image, is_image_name, read_image, write_image
from libranet.models import GridFilter, Network
from libranet.video.pixels import layout_of, read_planes
from libranet.video.reader import open_video
from libranet.video.shots import ShotDetector
from libranet.video.visualize import contact_sheet

Pair = tuple[np.ndarray, np.ndarray, str]
"""Before and after, uint8 [H, W, 3], and a caption."""


def dehaze_image(
    source: str | Path,
    output: str | Path,
    network: Network,
    *,
    options: DehazeOptions | None = None,
    overwrite: bool = False,
) -> DehazeReport:
    """Dehaze one image file. The arguments are those of `dehaze_sequence`."""
    return dehaze_sequence([Path(source)], [Path(output)], network, options=options, overwrite=overwrite)


def dehaze_sequence(
    sources: list[Path],
    outputs: list[Path],
    network: Network,
    *,
    options: DehazeOptions | None = None,
    overwrite: bool = False,
    rate: float = 25.0,
    progress: Callable[[Progress], None] | None = None,
) -> DehazeReport:
    """Dehaze image files that follow each other in time, each into a file of its own.

    Args:
        sources: The images in order.
        outputs: One file for each of them.
        network: The network, on its device.
        options: How to restore.
        overwrite: Replace existing outputs.
        rate: Images per second, for `options.steady`.
        progress: Called after each image.
    """
    options = options or DehazeOptions()
    for source, output in zip(sources, outputs, strict=True):
        check_output(source, output, overwrite=overwrite)
    begin = time.perf_counter()
    height = width = cuts = 0
    restored = restore_images((read_image(path) for path in sources), network, options, rate=rate)
    for index, (output, (image, cut)) in enumerate(zip(outputs, restored, strict=True)):
        with translate_io_errors(output):
            write_image(output, image)
        height, width = image.samples.shape[:2]
        cuts += cut
        if progress is not None:
            fps = (index + 1) / max(1e-9, time.perf_counter() - begin)
            progress(Progress(index + 1, len(sources), fps, "network"))
    return DehazeReport(
        source=str(sources[0]),
        output=str(outputs[0]),
        frames=len(sources),
        resumed_frames=0,
        width=width,
        height=height,
        codec=outputs[0].suffix.lstrip("."),
        pixel_format="image",
        seconds=time.perf_counter() - begin,
        cuts=cuts,
        weights=network.weights,
    )


def restore_images(
    images: Iterable[Image], network: Network, options: DehazeOptions, *, rate: float = 25.0
) -> Iterator[tuple[Image, bool]]:
    """Restore images in order. Yield each one, and whether a new shot begins with it."""
    backend = make_backend(
        network,
        strength=options.strength,
        live=options.live,
        want_transmission=options.view == "haze",
        grid_filter=GridFilter(options.steady, rate),
    )
    waiting: deque[tuple[Image, bool]] = deque()
    detector = ShotDetector()

    def finish(results: list[Restored]) -> Iterator[tuple[Image, bool]]:
        for restored in results:
            image, cut = waiting.popleft()
            yield _finish(image, restored, options), cut

    for image in images:
        gray = cv2.cvtColor(np.ascontiguousarray(image.rgb), cv2.COLOR_RGB2GRAY)
        cut = options.shot_detection and detector.is_cut(gray, image.peak)
        waiting.append((image, cut))
        yield from finish(backend.push(_as_frames(image), cuts=(cut,)))
    yield from finish(backend.flush())


def expand_pattern(pattern: str) -> list[Path]:
    """Return the files of a numbered sequence such as frame_%04d.png, in order.

    Raises:
        InputError: The pattern has no number, or no file matches.
    """
    match = re.search(r"%(0?)(\d*)d", pattern)
    if match is None:
        raise InputError(f"expected a pattern such as frame_%04d.png, got {pattern!r}")
    before, after = pattern[: match.start()], pattern[match.end() :]
    number = re.compile(re.escape(before) + r"(\d+)" + re.escape(after) + r"\Z")
    names = glob.glob(glob.escape(before) + "*" + glob.escape(after))
    found = [(int(hit[1]), Path(name)) for name in names if (hit := number.match(name))]
    if not found:
        raise InputError(f"no file matches {pattern}: check the folder and the number of digits")
    return [path for _, path in sorted(found)]


def write_preview(
    source: str | Path,
    output: str | Path,
    network: Network,
    *,
    count: int = 4,
    options: DehazeOptions | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a contact sheet of before and after, to try a setting before a long run.

    Args:
        source: A video or an image.
        output: The image file to write.
        network: The network, on its device.
        count: Moments of the video, evenly spread.
        options: How to restore.
        overwrite: Replace an existing output.
    """
    if count < 1:
        raise InputError(f"expected a preview of at least 1 pair, got {count}")
    options = replace(options or DehazeOptions(), compare=None)
    output = Path(output)
    check_output(source, output, overwrite=overwrite)
    if not is_image_name(output):
        raise InputError(f"a preview is an image: give -o a name that ends in .png or .jpg, not {output.name}")
    is_image = is_image_name(source)
    pairs = _image_pair(source, network, options) if is_image else _video_pairs(source, network, options, count)
    views = {"haze": "estimated haze", "removed": "removed haze"}
    shown = views.get(options.view, f"strength {options.strength:g}")
    title = f"{Path(source).name}   {pairs[0][0].shape[1]}x{pairs[0][0].shape[0]}   {shown}"
    with translate_io_errors(output):
        write_image(output, Image(contact_sheet(pairs, title=title)))
    return output


def _as_frames(image: Image) -> Frames:
    """The image as a batch of one, without its alpha."""
    height, width, channels = image.samples.shape
    bits = 8 * image.samples.itemsize
    if channels == 1:
        samples, layout = image.samples[..., 0], PixelLayout(f"gray{bits}", "gray", bits, 1, 1, alpha=False)
    else:
        samples, layout = image.samples[..., :3], RGB8 if bits == 8 else RGB16
    plane = torch.from_numpy(np.ascontiguousarray(samples))[None]
    return Frames((plane,), FrameFormat(width, height, layout))


def _finish(image: Image, restored: Restored, options: DehazeOptions) -> Image:
    colourful = options.view != "result" or options.compare == "split"
    target = restored.format
    if target.layout.model == "gray" and colourful:
        target = replace(target, layout=RGB8 if target.layout.bits == 8 else RGB16)
    device = restored.after[0].device
    view = FrameView(restored.format, target, compare=options.compare, view=options.view, device=device)
    samples = view.draw(restored)[0].cpu().numpy()
    samples = samples[..., None] if samples.ndim == 2 else samples
    if (alpha := image.samples[..., 3:]).size:
        alpha = np.concatenate([alpha, alpha], axis=1) if options.compare == "side" else alpha
        samples = np.concatenate([samples, alpha], axis=2)
    return replace(image, samples=samples)


def _video_pairs(source: str | Path, network: Network, options: DehazeOptions, count: int) -> list[Pair]:
    pairs = []
    for moment in _moments(source, options, count):
        with open_video(source, deinterlace=options.deinterlace) as reader:
            window = list(islice(reader.frames(start=moment), network.config.window))
            if not window:
                continue
            layout = layout_of(reader.pixel_format)
            converter = ColorConverter(layout, reader.tags.color_spec(reader.pixel_format, reader.height))
            before = [_to_uint8(converter, frame.image) for frame in window]
            restorer = make_restorer(reader, network, replace(options, live=False))
            done = [finished for frame in window for finished in restorer.push(frame)] + restorer.flush()
            after = [restorer.pack(finished) for finished in done]
            centre = len(window) // 2
            seconds = window[centre].time(reader.time_base)
            shown = (before[centre], _to_uint8(converter, after[centre].image))
            first, second = (np.ascontiguousarray(np.rot90(image, reader.tags.quarter_turns)) for image in shown)
            pairs.append((first, second, f"{seconds:.2f} s"))
    if not pairs:
        raise InputError(f"{source} has no frame between --start and --end: choose another part")
    return pairs


def _moments(source: str | Path, options: DehazeOptions, count: int) -> list[float]:
    with open_video(source, deinterlace=options.deinterlace) as reader:
        length = reader.duration if options.end is None else min(options.end, reader.duration or options.end)
    if length is None:
        return [options.start]
    span = max(0.0, length - options.start)
    return [options.start + span * (index + 0.5) / count for index in range(count)]


def _image_pair(source: str | Path, network: Network, options: DehazeOptions) -> list[Pair]:
    image = read_image(source)
    restored, _ = next(restore_images([image], network, options))
    scale = 255.0 / image.peak
    before, after = ((i.rgb * scale).round().astype(np.uint8) for i in (image, restored))
    return [(before, after, Path(source).name)]


def _to_uint8(converter: ColorConverter, frame: av.VideoFrame) -> np.ndarray:  # [H, W, 3]
    rgb = converter.to_rgb(read_planes(frame))
    return (rgb[0].permute(1, 2, 0) * 255).round().byte().numpy()

"""Single images, animations, and numbered sequences of images."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import torch

from libranet.backends import Restored, make_backend
from libranet.engine.adjust import Adjuster
from libranet.engine.options import DehazeOptions, DehazeReport, Progress, check_output, translate_io_errors
from libranet.engine.views import FrameView
from libranet.errors import InputError
from libranet.frames import FrameFormat, Frames, PixelLayout
from libranet.frames.format import RGB8, RGB16
from libranet.image_structure import find_image_damage
from libranet.images import (
    ANIMATED_SUFFIXES,
    Image,
    count_images,
    read_image,
    read_images,
    write_image,
    write_images,
)
from libranet.models import GridFilter, Network
from libranet.video.scale import scaled_size
from libranet.video.shots import ShotDetector


def dehaze_image(
    source: str | Path,
    output: str | Path,
    network: Network,
    *,
    options: DehazeOptions | None = None,
    overwrite: bool = False,
) -> DehazeReport:
    """Dehaze one image file, or all frames or pages of one. The arguments are those of `dehaze_sequence`.

    Raises:
        InputError: The output's format holds one image, and the input has more.
    """
    source, output = Path(source), Path(output)
    count = count_images(source) if source.is_file() else 1
    if count == 1:
        return dehaze_sequence([source], [output], network, options=options, overwrite=overwrite)
    check_output(source, output, overwrite=overwrite)
    if output.suffix.lower() not in ANIMATED_SUFFIXES:
        known = ", ".join(ANIMATED_SUFFIXES)
        raise InputError(
            f"{source} holds {count} images and {output.suffix} only one: write to {known}, or to a video such as .mkv"
        )
    begin = time.perf_counter()
    given = list(read_images(source))
    restored = [
        image for image, _ in restore_images((image for image, _ in given), network, options or DehazeOptions())
    ]
    with translate_io_errors(output):
        write_images(output, restored, [seconds for _, seconds in given])
    height, width = restored[0].samples.shape[:2]
    return DehazeReport(
        source=str(source),
        output=str(output),
        frames=len(restored),
        resumed_frames=0,
        width=width,
        height=height,
        codec=output.suffix.lstrip("."),
        pixel_format="image",
        seconds=time.perf_counter() - begin,
        partial=_describe_damage([source], len(given) - count),
        weights=network.weights,
    )


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
        partial=_describe_damage(sources),
        weights=network.weights,
    )


def _describe_damage(sources: list[Path], more: int = 0) -> str:
    """Say which files are not whole, or nothing. `more` is negative where a file gave fewer images than it has."""
    found = [f"{path.name}: {damage}" for path in sources if (damage := find_image_damage(path))]
    if more < 0 and not found:
        found.append(f"{sources[0].name}: {-more} images could not be read")
    rest = f"; and {len(found) - 3} more files" if len(found) > 3 else ""
    return "; ".join(found[:3]) + rest


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
        backend=options.backend,
    )
    waiting: deque[tuple[Image, bool]] = deque()
    detector = ShotDetector()

    def finish(results: list[Restored]) -> Iterator[tuple[Image, bool]]:
        for restored in results:
            image, cut = waiting.popleft()
            yield _finish(image, _adjusted(restored, options, rate), options), cut

    for image in images:
        gray = cv2.cvtColor(np.ascontiguousarray(image.rgb), cv2.COLOR_RGB2GRAY)
        cut = options.shot_detection and detector.is_cut(gray, image.peak)
        waiting.append((image, cut))
        yield from finish(backend.push(_as_frames(image), cuts=(cut,)))
    yield from finish(backend.flush())


def _adjusted(restored: Restored, options: DehazeOptions, rate: float) -> Restored:
    """Apply the controls. The exposure of each image is its own."""
    if options.adjust.neutral:
        return restored
    device = restored.after[0].device
    adjuster = Adjuster(options.adjust, restored.format, device=device, rate=rate, strength=options.strength)
    return adjuster.apply(restored, 0.0)


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
    return replace(image, samples=_scaled(samples, options))


def _scaled(samples: np.ndarray, options: DehazeOptions) -> np.ndarray:  # [H, W, C]
    """Scale an image as `options.scale` says."""
    height, width, channels = samples.shape
    if options.scale is None:
        return samples
    size = scaled_size(options.scale, width, height, layout=RGB8)
    method = cv2.INTER_AREA if size[0] <= width else cv2.INTER_LANCZOS4
    return cv2.resize(samples, size, interpolation=method).reshape(size[1], size[0], channels)

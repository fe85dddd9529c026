"""Single images, animations, and numbered sequences of images."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, overload

import cv2
import numpy as np

from libranet.atomic import Claim
from libranet.device import Precision
from libranet.engine.adjust import Adjuster
from libranet.engine.dehazer import Dehazer, Frame
from libranet.engine.options import DehazeOptions, DehazeReport, Progress, check_output, translate_io_errors
from libranet.engine.plan import backend_for
from libranet.engine.views import FrameView
from libranet.errors import InputError
from libranet.frames import Frames
from libranet.frames.format import RGB8, RGB16
from libranet.image_structure import find_image_damage
from libranet.images import (
    ANIMATED_SUFFIXES,
    Image,
    check_image_fits,
    check_image_name,
    check_images_fit,
    count_images,
    read_image,
    read_images,
    read_loops,
    write_image,
    write_images,
)
from libranet.network import Network
from libranet.runtime import Backend, Restored, load_network
from libranet.sequences import describe_gaps
from libranet.video.reader import DEFAULT_RATE
from libranet.video.scale import scaled_size
from libranet.video.shots import ShotDetector


@overload
def dehaze_image(
    image: str | Path,
    output: str | Path,
    model: Network | str | Path | None = None,
    *,
    strength: float | None = None,
    options: DehazeOptions | None = None,
    device: str = "auto",
    precision: Precision = "auto",
    overwrite: bool = False,
) -> DehazeReport: ...


@overload
def dehaze_image(
    image: str | Path,
    output: None = None,
    model: Network | str | Path | None = None,
    *,
    strength: float | None = None,
    device: str = "auto",
    precision: Precision = "auto",
) -> np.ndarray: ...


@overload
def dehaze_image(
    image: Frame,
    output: None = None,
    model: Network | str | Path | None = None,
    *,
    strength: float | None = None,
    device: str = "auto",
    precision: Precision = "auto",
) -> Frame: ...


def dehaze_image(
    image: Any,
    output: str | Path | None = None,
    model: Network | str | Path | None = None,
    *,
    strength: float | None = None,
    options: DehazeOptions | None = None,
    device: str = "auto",
    precision: Precision = "auto",
    overwrite: bool = False,
) -> Any:
    """Dehaze one image: a file or an array, into a file or an array.

    A program with many images keeps a `Dehazer` and calls its `image`, which loads the network once.

    Examples:
        >>> clear = dehaze_image("foggy.jpg")  # RGB, upright, [H, W, 3]
        >>> clear = dehaze_image(array)  # in the array's own type
        >>> report = dehaze_image("foggy.jpg", "clear.jpg", strength=0.8)  # EXIF and colour profile stay

    Args:
        image: A file, or an RGB array as `Dehazer` takes it.
        output: The file to write, for an image file. All frames or pages of the input go there.
        model: A network, `libranet-small`, a checkpoint's path, or None for the weights of the package.
        strength: 0 changes nothing, 1 is the network's output, up to 1.5.
        options: Everything else that shapes a file.
        device: As `libranet.device.pick_device` takes it.
        precision: As `libranet.device.pick_dtype` takes it.
        overwrite: Replace an existing output.

    Returns:
        The clear image in the type of the array, or as an array; with an output, the report.

    Raises:
        InputError: The image cannot be read or written, or the output's format holds one image and the input has more.
    """
    if options is not None and strength is not None:
        options = replace(options, strength=strength)
    options = options or DehazeOptions(1.0 if strength is None else strength)
    network = load_network(model, device=device, precision=precision)
    if output is not None:
        return _dehaze_file(Path(image), Path(output), network, options, overwrite=overwrite)
    if options != DehazeOptions(options.strength):
        raise InputError("an array has a strength and no other options: give a file as output, or leave them out")
    return Dehazer(network, strength=options.strength).image(
        read_upright(image) if isinstance(image, str | Path) else image
    )


def read_upright(path: str | Path) -> np.ndarray:  # [H, W, 3], RGB
    image = read_image(path)
    turns, mirrored = image.orientation
    return np.ascontiguousarray(np.rot90(image.rgb[:, ::-1] if mirrored else image.rgb, turns))


def _dehaze_file(
    source: Path, output: Path, network: Network, options: DehazeOptions, *, overwrite: bool
) -> DehazeReport:
    count = count_images(source) if source.is_file() else 1
    if count == 1:
        return dehaze_sequence([source], [output], network, options=options, overwrite=overwrite)
    check_output(source, output, overwrite=overwrite)
    claim = Claim(output)
    if output.suffix.lower() not in ANIMATED_SUFFIXES:
        known = ", ".join(ANIMATED_SUFFIXES)
        raise InputError(
            f"{source} holds {count} images and {output.suffix} only one: write to {known}, or to a video such as .mkv"
        )
    begin = time.perf_counter()
    options.adjust.check_mask()
    given = list(read_images(source))
    check_images_fit(output, [image for image, _ in given])
    times = accumulate((seconds or 1 / DEFAULT_RATE for _, seconds in given), initial=0.0)
    timed = zip((image for image, _ in given), times, strict=False)
    used: list[str] = []
    restored = [image for image, _ in restore_images(timed, network, options, used=used)]
    claim.check()
    with translate_io_errors(output):
        lost = write_images(output, restored, [seconds for _, seconds in given], loops=read_loops(source))
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
        warnings=lost,
        weights=network.weights,
        backend=", ".join(dict.fromkeys(used)),
    )


def dehaze_sequence(
    sources: list[Path],
    outputs: list[Path],
    network: Network,
    *,
    options: DehazeOptions | None = None,
    overwrite: bool = False,
    resume: bool = False,
    rate: float = DEFAULT_RATE,
    progress: Callable[[Progress], None] | None = None,
) -> DehazeReport:
    """Dehaze image files that follow each other in time, each into a file of its own.

    An image of a sequence that cannot be read is left out, and the report says so.

    Args:
        outputs: One file for each of them.
        resume: Leave existing outputs as they are, and write the others as an uninterrupted run would.
    """
    options = options or DehazeOptions()
    options.adjust.check_mask()
    if not 0 < rate < math.inf:
        raise InputError(f"expected --fps above 0, got {rate}")
    alone = len(sources) == 1
    everything = list(zip(sources, outputs, strict=True))
    end = math.inf if options.end is None else options.end
    numbers = [n for n in range(len(everything)) if alone or options.start <= n / rate < end]
    pairs = [everything[number] for number in numbers]
    if not pairs:
        raise InputError("there is no image between --start and --end: choose another part")
    for source, output in pairs:
        check_image_name(output)
        check_output(source, output, overwrite=overwrite or resume)
    claims = [Claim(output) for _, output in pairs]
    missing = [index for index, (_, output) in enumerate(pairs) if not (resume and output.exists())]
    # Images before the first missing one matter as far as the network remembers.
    first = max(0, min(missing, default=len(pairs)) - options.reach(network.config.window, rate))
    last = max(missing, default=-1) + network.config.window
    begin = time.perf_counter()
    gaps = describe_gaps(sources)
    height = width = cuts = written = 0
    unread: list[str] = []
    notes: dict[str, None] = {}

    def given() -> Iterator[tuple[Image, float]]:
        for index, (source, output) in enumerate(pairs):
            if not first <= index < last:
                continue
            try:
                image = read_image(source)
            except InputError as error:
                if alone:
                    raise
                unread.append(error.sentence)
                continue
            check_image_fits(output, image)
            order.append(index)
            yield image, numbers[index] / rate

    order: deque[int] = deque()
    wanted = set(missing)
    used: list[str] = []
    for image, cut in restore_images(given(), network, options, rate=rate, used=used):
        index = order.popleft()
        if index not in wanted:
            continue
        claims[index].check()
        with translate_io_errors(pairs[index][1]):
            notes.update(dict.fromkeys(write_image(pairs[index][1], image)))
        height, width = image.samples.shape[:2]
        cuts, written = cuts + cut, written + 1
        if progress is not None:
            fps = written / max(1e-9, time.perf_counter() - begin)
            progress(Progress(len(pairs) - len(missing) + written, len(pairs), fps, "network"))
    if missing and not written:
        raise InputError(unread[0])
    return DehazeReport(
        source=str(pairs[0][0]),
        output=str(pairs[0][1]),
        frames=len(pairs) - len(missing) + written,
        resumed_frames=len(pairs) - len(missing),
        width=width,
        height=height,
        codec=outputs[0].suffix.lstrip("."),
        pixel_format="image",
        seconds=time.perf_counter() - begin,
        cuts=cuts,
        partial="; ".join(text for text in (_first_few(unread), _describe_damage([s for s, _ in pairs])) if text),
        warnings=(*([f"{gaps}; the others follow each other"] if gaps else []), *notes),
        weights=network.weights,
        backend=", ".join(dict.fromkeys(used)),
    )


def _first_few(sentences: list[str]) -> str:
    rest = [f"and {len(sentences) - 3} more files"] if len(sentences) > 3 else []
    return "; ".join(sentences[:3] + rest)


def _describe_damage(sources: list[Path], more: int = 0) -> str:
    """Say which files are not whole, or nothing. `more` is negative where a file gave fewer images than it has."""
    found = [f"{path.name}: {damage}" for path in sources if (damage := find_image_damage(path))]
    if more < 0 and not found:
        found.append(f"{sources[0].name}: {-more} images could not be read")
    return _first_few(found)


def restore_images(
    images: Iterable[tuple[Image, float]],
    network: Network,
    options: DehazeOptions,
    *,
    rate: float = DEFAULT_RATE,
    used: list[str] | None = None,
) -> Iterator[tuple[Image, bool]]:
    """Restore images, each with its time in seconds, in order. Another size or depth begins a new shot.

    Args:
        used: Takes the name of each backend that restored them.

    Yields:
        Each image, and whether a new shot begins with it.
    """
    shot, backend = None, backend_for(network, options, rate=rate)
    for _, group in groupby(images, key=lambda item: (item[0].samples.shape, item[0].samples.dtype)):
        shot = _Shot(backend, options, rate=rate, cut=shot is not None)
        for image, seconds in group:
            yield from shot.push(image, seconds)
        yield from shot.finish()
        if used is not None:
            used.append(backend.name)


class _Shot:
    """Images of one size and depth."""

    def __init__(self, backend: Backend, options: DehazeOptions, *, rate: float, cut: bool) -> None:
        self._backend, self._options, self._rate = backend, options, rate
        self._detector = ShotDetector()
        self._begins = cut
        self._waiting: deque[tuple[Image, float, bool]] = deque()
        self._adjuster: tuple[tuple[int, bool], Adjuster] | None = None

    def push(self, image: Image, seconds: float) -> Iterator[tuple[Image, bool]]:
        gray = cv2.cvtColor(np.ascontiguousarray(image.rgb), cv2.COLOR_RGB2GRAY)
        cut = (self._options.shot_detection and self._detector.is_cut(gray, image.peak)) or self._begins
        self._begins = False
        self._waiting.append((image, seconds, cut))
        yield from self._finished(self._backend.push(Frames.of_array(image.samples[..., :3]), cuts=(cut,)))

    def finish(self) -> Iterator[tuple[Image, bool]]:
        yield from self._finished(self._backend.flush())

    def _finished(self, results: list[Restored]) -> Iterator[tuple[Image, bool]]:
        for result in results:
            image, seconds, cut = self._waiting.popleft()
            shown = result
            if not self._options.adjust.neutral:
                if self._adjuster is None or self._adjuster[0] != image.orientation:
                    turns, mirrored = image.orientation  # the controls go by the way that this image is shown
                    adjuster = Adjuster(
                        self._options.adjust,
                        result.format,
                        device=result.after[0].device,
                        rate=self._rate,
                        strength=self._options.strength,
                        turns=turns,
                        mirrored=mirrored,
                    )
                    self._adjuster = image.orientation, adjuster
                shown = self._adjuster[1].apply(result, seconds, cut=cut)
            yield _finish(image, shown, self._options), cut


def _finish(image: Image, restored: Restored, options: DehazeOptions) -> Image:
    """Draw and scale what the output shows of an image."""
    colourful = options.view != "result" or options.compare == "split"
    target = restored.format
    if target.layout.model == "gray" and colourful:
        target = replace(target, layout=RGB8 if target.layout.bits == 8 else RGB16)
    device = restored.after[0].device
    turns, mirrored = image.orientation
    mirrored = mirrored and (options.compare is not None or options.view != "result")  # words must not be mirrored
    view = FrameView(restored.format, target, compare=options.compare, view=options.view, turns=turns, device=device)
    drawn = view.draw(_mirrored(restored) if mirrored else restored)[0].cpu()
    samples = np.array(
        drawn.flip(1) if mirrored else drawn
    )  # a copy: the backend overwrites its arrays at the next push
    samples = samples[..., None] if samples.ndim == 2 else samples
    if (alpha := image.samples[..., 3:]).size:
        alpha = np.concatenate([alpha, alpha], axis=0 if turns % 2 else 1) if options.compare == "side" else alpha
        samples = np.concatenate([samples, alpha], axis=2)
    if options.scale is not None:
        height, width, channels = samples.shape
        size = scaled_size(options.scale, width, height, layout=RGB8, turns=turns)
        method = cv2.INTER_AREA if size[0] <= width else cv2.INTER_LANCZOS4
        samples = cv2.resize(samples, size, interpolation=method).reshape(size[1], size[0], channels)
    return replace(image, samples=samples)


def _mirrored(restored: Restored) -> Restored:
    """The frame as it is before its orientation turns it: left and right change places."""
    before, after = (tuple(plane.flip(1) for plane in planes) for planes in (restored.before, restored.after))
    return replace(restored, before=before, after=after)

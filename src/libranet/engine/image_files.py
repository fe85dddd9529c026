"""Single pictures and numbered sequences of them, through the same step as video."""

import glob
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor

from libranet.backends import Restored, make_backend
from libranet.engine.frames import shown_transmission
from libranet.engine.options import DehazeOptions, DehazeReport, Progress
from libranet.engine.sinks import writing
from libranet.engine.video import check_output
from libranet.errors import InputError
from libranet.images import Picture, read_image, write_image
from libranet.models import LiBrANet
from libranet.video.draw import haze_picture, split_picture
from libranet.video.scenes import SceneCutDetector


def dehaze_image(
    source: str | Path,
    output: str | Path,
    network: LiBrANet,
    *,
    options: DehazeOptions | None = None,
    overwrite: bool = False,
) -> DehazeReport:
    """Dehaze one picture file."""
    return dehaze_sequence([Path(source)], [Path(output)], network, options=options, overwrite=overwrite)


def dehaze_sequence(
    sources: list[Path],
    outputs: list[Path],
    network: LiBrANet,
    *,
    options: DehazeOptions | None = None,
    overwrite: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> DehazeReport:
    """Dehaze picture files that follow each other in time, each into a file of its own."""
    options = options or DehazeOptions()
    for source, output in zip(sources, outputs, strict=True):
        check_output(source, output, overwrite=overwrite)
    begin = time.perf_counter()
    height = width = cuts = 0
    pictures = restore_pictures((read_image(path) for path in sources), network, options)
    for index, (output, (picture, cut)) in enumerate(zip(outputs, pictures, strict=True)):
        with writing(output):
            write_image(output, picture)
        height, width = picture.samples.shape[:2]
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
        pixel_format="picture",
        seconds=time.perf_counter() - begin,
        scene_cuts=cuts,
        weights=network.weights,
    )


def restore_pictures(
    pictures: Iterable[Picture], network: LiBrANet, options: DehazeOptions
) -> Iterator[tuple[Picture, bool]]:
    """Restored pictures in order, and whether a new shot began with each."""
    backend = make_backend(
        network, strength=options.strength, live=options.live, want_transmission=options.view == "haze"
    )
    waiting: deque[tuple[Picture, Tensor, bool]] = deque()
    detector = SceneCutDetector()

    def finish(results: list[Restored]) -> Iterator[tuple[Picture, bool]]:
        for restored in results:
            picture, rgb, cut = waiting.popleft()
            yield _finish(picture, rgb, restored, options), cut

    for picture in pictures:
        if waiting and waiting[-1][0].samples.shape[:2] != picture.samples.shape[:2]:
            yield from finish(backend.flush())
        rgb = torch.from_numpy(picture.rgb.astype(np.float32) / picture.peak).permute(2, 0, 1)[None].to(backend.device)
        gray = cv2.cvtColor(np.ascontiguousarray(picture.rgb), cv2.COLOR_RGB2GRAY)
        cut = options.scene_cuts and detector.is_cut(gray, picture.peak)
        waiting.append((picture, rgb, cut))
        yield from finish(backend.push(rgb, cut=cut))
    yield from finish(backend.flush())


def _finish(picture: Picture, rgb: Tensor, restored: Restored, options: DehazeOptions) -> Picture:
    shown = restored.image
    if options.view != "result":
        shown = haze_picture(shown_transmission(options.view, rgb, restored), (rgb.shape[-2], rgb.shape[-1]))
    if options.compare == "split":
        shown = split_picture(rgb, shown)
    colourful = options.view != "result" or options.compare == "split"
    before = picture.samples
    if before.shape[2] == 1 and colourful:
        before = picture.rgb
    change = (shown - rgb)[0].permute(1, 2, 0).cpu().numpy()  # [H, W, 3]
    if before.shape[2] == 1:
        change = change.mean(axis=2, keepdims=True)
    after = before.copy()
    colours = min(3, before.shape[2])
    after[..., :colours] = np.clip(np.rint(before[..., :colours] + change * picture.peak), 0, picture.peak)
    if options.compare == "side":
        after = np.concatenate([before, after], axis=1)
    return replace(picture, samples=after)


def expand_pattern(pattern: str) -> list[Path]:
    """The files of a numbered sequence such as frame_%04d.png, in order."""
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

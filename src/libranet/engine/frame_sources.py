"""Frames for programs that measure: read once, restored by any number of networks as `libranet dehaze` restores them.

A caller reads with `frames`, hands copies of that iterator (`itertools.tee`) to `restore`, one for each network, and
takes one restored frame of each in turn. So all networks see the same frames, and few of them are in memory.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from libranet.engine.dehazer import Dehazer
from libranet.frames import FrameFormat, Frames
from libranet.images import Image
from libranet.network import GridFilter, Network
from libranet.video.shots import ShotDetector


@dataclass
class NetworkRun:
    """A network, how it restores clips, and what it keeps between them."""

    network: Network
    steady: float | None = None
    """Seconds over which colours are kept steady, as `DehazeOptions` has it."""
    backend: str = "auto"
    """What computes, as `DehazeOptions` has it."""
    backend_name: str = ""
    _kept: tuple[float, Dehazer] | None = None

    def dehazer(self, rate: float) -> Dehazer:
        """A `Dehazer` at the beginning of a clip. It is kept: a GPU prepares for seconds, and photos are clips, too."""
        if self._kept is None or self._kept[0] != rate:
            steady = GridFilter().seconds if self.steady is None else self.steady
            self._kept = rate, Dehazer(self.network, steady=steady, rate=rate, backend=self.backend)
        self._kept[1].flush()  # of a clip that was given up
        return self._kept[1]


class VideoSource:
    """A video file in its own samples, by the reader and the restorer of `dehaze_video`."""

    def __init__(self, path: Path, *, deinterlace: bool = False) -> None:
        # Imported here: image clips are measured on GPU machines without PyAV, too.
        from libranet.video.pixels import layout_of
        from libranet.video.reader import open_video

        self._path, self._reader = path, open_video(path, deinterlace=deinterlace)
        size, name = (self._reader.width, self._reader.height), self._reader.pixel_format
        self._format = FrameFormat(*size, layout_of(name), self._reader.tags.color_spec(name, size[1]))

    def frames(self) -> Iterator[Any]:  # of tuple[SourceFrame, bool]
        """Decode all frames, each with whether it begins a shot."""
        from libranet.engine.pipeline import is_cut

        detector = ShotDetector()
        with self._reader:
            for frame in self._reader.frames():
                yield frame, is_cut(detector, frame)

    def samples(self, given: Any) -> Frames:
        """The samples of a frame, which share the decoder's memory."""
        from libranet.video.pixels import plane_views

        views = plane_views(given[0].image)[: self._format.layout.colour_planes]
        return Frames(tuple(torch.from_numpy(view)[None] for view in views), self._format)

    def restore(self, given: Iterable[Any], run: NetworkRun) -> Iterator[Frames]:
        from libranet.engine.options import DehazeOptions
        from libranet.engine.restorer import FrameRestorer

        options = DehazeOptions(steady=run.steady, backend=run.backend)
        with closing(FrameRestorer(self._reader, run.network, options, read_again=self._read_again)) as restorer:
            run.backend_name = restorer.backend_name
            for frame, cut in given:
                yield from map(restorer.samples, restorer.push(restorer.stage(frame), cut=cut))
            yield from map(restorer.samples, restorer.flush())

    def _read_again(self, number: int) -> Iterator[Any]:
        from libranet.video.reader import open_video

        assert number == 0  # a measurement begins at the beginning
        with open_video(self._path, deinterlace=self._reader.deinterlace) as again:
            yield from again.frames()


class ImageSource:
    """Images that follow each other in time, to the bits of `dehaze_sequence`."""

    def __init__(self, images: Iterable[Image], *, rate: float | None = None) -> None:
        """Take the images, which are read when their turn comes, and their number per second; None is 25."""
        self._images, self._rate = images, rate or 25.0

    def frames(self) -> Iterator[Any]:  # of tuple[Image, bool]
        """Read all images, each with whether it begins a shot."""
        detector = ShotDetector()
        for image in self._images:
            gray = cv2.cvtColor(np.ascontiguousarray(image.rgb), cv2.COLOR_RGB2GRAY)
            yield image, detector.is_cut(gray, image.peak)

    def samples(self, given: Any) -> Frames:
        """The samples of an image as a viewer shows it, the orientation of EXIF applied and alpha left out."""
        return _as_frames(given[0])

    def restore(self, given: Iterable[Any], run: NetworkRun) -> Iterator[Frames]:
        dehazer: Dehazer | None = None
        waiting: deque[Image] = deque()
        for image, cut in given:
            if dehazer is None:
                dehazer = run.dehazer(self._rate)
                run.backend_name = dehazer.backend_name
            waiting.append(image)
            for samples in dehazer.push(image.samples[..., :3], cut=cut):
                yield _as_frames(replace(waiting.popleft(), samples=samples))
        for samples in dehazer.flush() if dehazer is not None else ():
            yield _as_frames(replace(waiting.popleft(), samples=samples))


FrameSource = VideoSource | ImageSource
"""The frames of one clip: `frames` reads them, once; `restore` takes what it read, or the beginning of it, in order."""


def _as_frames(image: Image) -> Frames:
    turns, mirrored = image.orientation
    samples = image.samples[..., :3]
    return Frames.of_array(np.rot90(samples[:, ::-1] if mirrored else samples, turns))

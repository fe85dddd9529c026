"""Frames for programs that measure: read once, restored by any number of networks as `libranet dehaze` restores a file.

A caller decodes with `frames`, hands copies of that iterator (`itertools.tee`) to `restore`, one for each network, and
takes one restored frame of each in turn. So all networks see the same frames, and few of them are in memory.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from libranet.engine.image_files import as_frames, restore_images
from libranet.engine.options import DehazeOptions
from libranet.engine.pipeline import is_cut
from libranet.engine.video import make_restorer
from libranet.frames import FrameFormat, Frames
from libranet.images import Image
from libranet.network import Network
from libranet.runtime import Backend
from libranet.video.pixels import layout_of, plane_views
from libranet.video.reader import DEFAULT_RATE, SourceFrame, open_video
from libranet.video.shots import ShotDetector

OnBackend = Callable[[Backend], None]
"""Called with each backend that restores frames."""


class VideoSource:
    """A video file. Its frames are in the file's own samples, each with whether it begins a shot."""

    def __init__(self, path: Path, *, deinterlace: bool = False) -> None:
        self._reader = open_video(path, deinterlace=deinterlace)
        size, name = (self._reader.width, self._reader.height), self._reader.pixel_format
        self._format = FrameFormat(*size, layout_of(name), self._reader.tags.color_spec(name, size[1]))

    def frames(self) -> Iterator[tuple[SourceFrame, bool]]:
        """Decode all frames. Call it once."""
        detector = ShotDetector()
        with self._reader:
            for frame in self._reader.frames():
                yield frame, is_cut(detector, frame)

    def samples(self, given: tuple[SourceFrame, bool]) -> Frames:
        """The samples of a frame, which share the decoder's memory."""
        views = plane_views(given[0].image)[: self._format.layout.colour_planes]
        return Frames(tuple(torch.from_numpy(view)[None] for view in views), self._format)

    def restore(
        self, given: Iterable[tuple[SourceFrame, bool]], network: Network, options: DehazeOptions, on_backend: OnBackend
    ) -> Iterator[Frames]:
        """Restore the frames in order."""
        restorer = make_restorer(self._reader, network, options)
        on_backend(restorer.backend)
        for frame, cut in given:
            ready = restorer.push(restorer.stage(frame), cut=cut and options.shot_detection)
            yield from map(restorer.samples, ready)
        yield from map(restorer.samples, restorer.flush())


class ImageSource:
    """Images that follow each other in time."""

    def __init__(self, images: Iterable[Image], *, rate: float | None = None) -> None:
        self._images, self._rate = images, rate or DEFAULT_RATE

    def frames(self) -> Iterator[tuple[Image, float]]:
        """Read all images, each with its time in seconds. Call it once."""
        return ((image, index / self._rate) for index, image in enumerate(self._images))

    def samples(self, given: tuple[Image, float]) -> Frames:
        """The samples of an image as a viewer shows it, the orientation of EXIF applied."""
        return as_frames(_upright(given[0]))

    def restore(
        self, given: Iterable[tuple[Image, float]], network: Network, options: DehazeOptions, on_backend: OnBackend
    ) -> Iterator[Frames]:
        """Restore the images in order."""
        for image, _ in restore_images(given, network, options, rate=self._rate, on_backend=on_backend):
            yield as_frames(_upright(image))


FrameSource = VideoSource | ImageSource


def _upright(image: Image) -> Image:
    turns, mirrored = image.orientation
    samples = image.samples[:, ::-1] if mirrored else image.samples
    return replace(image, samples=np.rot90(samples, turns))

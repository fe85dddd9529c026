"""Small sources and datasets that the tests of the pipeline share."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import cv2
import numpy as np

from libranet.data.dataset import DatasetInfo
from libranet.flow import DisFlow
from libranet.synth.depth_estimators import LayoutPrior
from libranet.synth.sources import ClipSource, DepthKind, FrameRequest, SourceFrame
from libranet.synth.synthesize import PRESETS, SynthConfig, synthesize

TINY = replace(PRESETS["mini"], frames=3, size=(160, 96), proxy=96)


def texture(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Something like a photo: a bright sky over textured ground."""
    rng = np.random.default_rng(seed)
    image = np.zeros((height, width, 3), np.float32)
    for cells in (4, 12, 40):
        grid = rng.uniform(0, 1, (cells, cells, 3)).astype(np.float32)
        image += cv2.resize(grid, (width, height), interpolation=cv2.INTER_CUBIC) / 3
    image = np.clip(image, 0, 1) * 0.7
    image[: height // 3] = (0.6, 0.75, 0.95)
    return (image * 255).astype(np.uint8)


@dataclass(frozen=True)
class SlidingSource:
    """A texture that slides by whole pixels per frame, with estimated depth and flow."""

    label: str = "sliding"
    shift: int = 2
    seed: int = 0
    depth_kind: ClassVar[DepthKind] = "none"

    @property
    def name(self) -> str:
        return self.label

    def describe(self) -> dict[str, Any]:
        return {"kind": "test", "name": self.label, "licence": "CC0-1.0"}

    def frames(self, request: FrameRequest, start: int = 0) -> Iterator[SourceFrame]:
        width, height = request.size
        wide = texture(height, width + self.shift * request.frames, self.seed)
        for i in range(start, request.frames):
            left = self.shift * i
            yield SourceFrame(np.ascontiguousarray(wide[:, left : left + width]))


@dataclass(frozen=True)
class RampSource(SlidingSource):
    """The same with exact distance (a ramp in metres below an infinite sky) and exact flow."""

    label: str = "ramp"
    depth_kind = "metres"

    def frames(self, request: FrameRequest, start: int = 0) -> Iterator[SourceFrame]:
        width, height = request.size
        distance = np.repeat(np.linspace(120.0, 2.0, height, dtype=np.float32)[:, None], width, axis=1)
        distance[: height // 3] = np.inf
        flow = np.zeros((2, height, width), np.float32)
        flow[0] = -self.shift
        for frame in super().frames(request, start):
            yield SourceFrame(frame.image, distance, flow)


def make_set(sources: list[ClipSource], folder: Path, config: SynthConfig = TINY, *, workers: int = 1) -> DatasetInfo:
    """Run the whole pipeline with the weight-free parts."""
    return synthesize(sources, folder, config, depth=LayoutPrior, flow=DisFlow(), workers=workers)


def tree(folder: Path) -> dict[str, bytes]:
    """Every file of a dataset except scratch and the report, which names its folder, for comparing two of them."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".work" not in path.parts and path.name != "report.html"
    }

"""What the probes look at: sampled frames of a dataset with the grids that the network predicts for them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from libranet.data.frames import FrameFiles
from libranet.data.maps import read_map
from libranet.evaluation.clips import EvalClip, EvalFrame
from libranet.kernels.color_field.reference import fuse_grids
from libranet.kernels.resample.reference import downsample, pad_to_multiple
from libranet.network import Grids, LiBrANet
from libranet.network.forward import TorchOperations

SAMPLED_PIXELS = 20_000
"""Pixels of a frame that enter histograms and fits. Counts of singular transforms look at every pixel."""


@dataclass(frozen=True)
class Observation:
    """One frame of a clip, its window as the encoders see it, and what the network predicts."""

    clip: str
    frame: int
    window: Tensor  # [1, T, 3, S, S] in [0, 1]
    long_edge: int  # of the native frame, in pixels
    reduced: dict[int, Tensor]
    """The same window from frames whose long edge was first reduced to this many pixels."""
    low: Tensor  # [1, 3, h, w], the centre frame where transforms are applied
    grids: Grids
    chromatic: Tensor | None  # [1, 12, h, w], coefficients of the chromatic field
    temporal: Tensor | None  # [1, 12, h, w]
    transmission: Tensor | None = None  # [1, 1, h, w], the true one, where the set has it

    @property
    def fused(self) -> Tensor:  # [1, 12, h, w]
        """The sum of both fields."""
        parts = [part for part in (self.chromatic, self.temporal) if part is not None]
        return torch.stack(parts).sum(0)


class Probe(Protocol):
    """Takes observations one by one in bounded memory, then gives numbers and a figure."""

    def add(self, seen: Observation) -> None: ...

    def result(self) -> dict[str, Any]:
        """The numbers, as JSON can hold them; `not_measured` has the reason where there are none."""
        ...

    def figure(self) -> Figure | None:
        """The figure, or None where there is nothing to draw."""
        ...


def sample_pixels(
    coefficients: Tensor,  # [1, C, h, w]
    *,
    seed: int = 0,
    most: int = SAMPLED_PIXELS,
) -> Tensor:  # [N, C] float64
    """Coefficients at random pixels. The same seed and size pick the same pixels."""
    flat = coefficients[0].flatten(1)
    if flat.shape[1] > most:
        chosen = np.random.default_rng(seed).choice(flat.shape[1], most, replace=False)
        flat = flat[:, torch.from_numpy(np.sort(chosen)).to(flat.device)]
    return flat.T.double().cpu()


def observe(model: LiBrANet, clip: EvalClip, *, count: int, edges: Sequence[int] = ()) -> Iterator[Observation]:
    """Observe frames of a clip, evenly spaced.

    One frame at full size is in memory at a time, with the windows as the encoders see them.

    Args:
        edges: Also reduce the frames to these long edges first, where they are shorter than the frame's.
    """
    length = len(clip)
    count = min(count, length)
    centres = [int((i + 0.5) * length / count) for i in range(count)]
    native_edge = max(clip.hazy.size)
    edges = [edge for edge in edges if edge < native_edge]
    for centre in centres:
        around = window_frames(centre, model.config.window, length)
        squares: dict[int, dict[int, Tensor]] = {edge: {} for edge in (0, *edges)}
        low: Tensor | None = None
        for index, image in read_frames(clip, sorted(set(around))):
            frame = image.to(model.device)
            squares[0][index] = encoder_square(model, frame)
            for edge in edges:
                height, width = (max(16, round(side * edge / native_edge)) for side in frame.shape[-2:])
                squares[edge][index] = encoder_square(model, downsample(frame, (height, width)))
            if index == centre:
                low = TorchOperations(model).reduce(frame)[1]
        assert low is not None
        windows = {edge: torch.stack([parts[i] for i in around], dim=1) for edge, parts in squares.items()}
        native = windows.pop(0)
        with torch.no_grad():
            grids = model.predict_grids(native)
            chromatic = None if grids.chromatic is None else fuse_grids(low, grids.chromatic, None)
            temporal = None if grids.plane is None else fuse_grids(low, None, grids.plane)
        truth = None
        if clip.transmission:
            truth = read_transmission(clip.transmission[centre], (low.shape[-2], low.shape[-1])).to(low.device)
        yield Observation(clip.name, centre, native, native_edge, windows, low, grids, chromatic, temporal, truth)


def window_frames(centre: int, window: int, length: int) -> list[int]:
    """The frames of the window around a frame; beyond a clip's ends its first or last frame is repeated."""
    return [min(max(centre + step, 0), length - 1) for step in range(-(window // 2), window // 2 + 1)]


def read_frames(clip: EvalClip, wanted: Sequence[int]) -> Iterator[tuple[int, Tensor]]:  # [1, 3, H, W] in [0, 1] each
    """Read hazy frames in rising order; a video is decoded up to the last of them."""
    found: Iterable[tuple[int, EvalFrame]]
    if isinstance(clip.hazy, FrameFiles):
        chosen = replace(clip, hazy=FrameFiles(tuple(clip.hazy.paths[index] for index in wanted)), clear=None)
        found = zip(wanted, chosen.read(chosen.open()), strict=True)
    else:
        everything = enumerate(clip.read(clip.open(), limit=wanted[-1] + 1))
        found = ((index, frame) for index, frame in everything if index in wanted)
    return ((index, frame.hazy[None]) for index, frame in found)


def encoder_square(
    model: LiBrANet,
    frame: Tensor,  # [1, 3, H, W] in [0, 1]
) -> Tensor:  # [1, 3, S, S] in [0, 1]
    """The frame at the size of the encoders; `predict_grids` gives the same for it as for the frame."""
    size = model.config.encoder.size
    return downsample(pad_to_multiple(frame, model.config.scale), (size, size))


def read_transmission(path: Path, size: tuple[int, int]) -> Tensor:  # [1, 1, h, w] in [0, 1]
    """Read a true transmission. Three channels become their geometric mean, as the determinant of A has it."""
    values = torch.from_numpy(read_map(path, "transmission"))[None]
    small = downsample(values.clamp(0.0, 1.0), size)
    return small.clamp_min(1e-6).log().mean(dim=1, keepdim=True).exp()

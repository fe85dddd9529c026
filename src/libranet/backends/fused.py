"""The fused backend: frames through CUDA graphs, one at a time or in batches.

Kernels depend on the driver, the compiler and the GPU. So every new frame size begins with a comparison: a few frames
go through both backends. Where they differ by more than rounding, the plain backend takes over, with a warning.
"""

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from libranet.backends.interface import Restored, check_size
from libranet.backends.plain import PlainBackend
from libranet.frames import ColorConverter, FrameFormat, Frames
from libranet.frames.format import RGB8
from libranet.fused.step import FusedStep
from libranet.models import NO_FILTER, GridFilter, LiBrANet

logger = logging.getLogger(__name__)

TRIAL_FRAMES = 6
"""Frames compared for a new size: more than a window, so that every buffer is used twice."""
LARGEST_MEAN, LARGEST = 0.5, 6
"""The largest accepted differences, in 8-bit steps: both compute in float16 and round differently."""


def to_bytes(rgb: Tensor) -> Tensor:  # [1, 3, H, W] in [0, 1] -> [H, W, 3] uint8
    return (rgb[0] * 255.0).round().clamp(0.0, 255.0).to(torch.uint8).permute(1, 2, 0)


def agrees(step: FusedStep, plain: PlainBackend, image: Tensor) -> bool:  # image: [H, W, 3] uint8
    """Return whether both backends restore a short stream alike. Both start a new stream afterwards."""
    clip = torch.stack([image.roll(17 * i, dims=1).flip(0) if i % 2 else image for i in range(TRIAL_FRAMES)])
    fused = torch.cat([*(step.push(image[None]).clone() for image in clip), step.drain()])
    step.reset()
    frames = Frames((clip,), FrameFormat(image.shape[1], image.shape[0], RGB8))
    restored = plain.push(frames) + plain.flush()
    difference = (fused.int() - torch.stack([r.after[0] for r in restored]).int()).abs()
    return float(difference.float().mean()) <= LARGEST_MEAN and int(difference.max()) <= LARGEST


@dataclass(frozen=True)
class _Waiting:
    """A frame that is in the step but not restored yet."""

    planes: tuple[Tensor, ...]
    image: Tensor  # [H, W, 3] uint8


class FusedBackend:
    """Restores frames with fused kernels; `PlainBackend` is its reference.

    The output is the frame plus the change, so that no change returns the frame bit for bit.
    """

    def __init__(
        self,
        network: LiBrANet,
        *,
        lookahead: int | None,
        strength: float,
        grid_filter: GridFilter = NO_FILTER,
        batch: int = 1,
    ) -> None:
        self.network, self.lookahead, self.strength, self.batch = network, lookahead, strength, batch
        self.grid_filter = grid_filter
        self.device = next(network.parameters()).device
        self._format: FrameFormat | None = None
        self._converter: ColorConverter | None = None
        self._step: FusedStep | None = None  # built for the size of the first frame
        self._waiting: deque[_Waiting] = deque()
        self._plain = PlainBackend(network, lookahead=lookahead, strength=strength, grid_filter=grid_filter)
        self._distrusted = False

    def push(self, frames: Frames, *, cuts: Sequence[bool] = ()) -> list[Restored]:
        """Take frames and return those that became ready."""
        check_size(frames.format)
        ready: list[Restored] = []
        if not self._distrusted and frames.format != self._format:
            ready += self._begin(frames)
        if self._distrusted:
            return ready + self._plain.push(frames, cuts=cuts)
        assert self._step is not None
        assert self._converter is not None
        for index in range(len(frames)):
            if cuts and cuts[index]:
                ready += self.flush()
            planes = tuple(plane.to(self.device, copy=True) for plane in frames.plane_list(index))
            image = to_bytes(self._converter.to_rgb(planes))
            self._waiting.append(_Waiting(planes, image))
            ready += self._pack(self._step.push(image[None]))
        return ready

    def flush(self) -> list[Restored]:
        """Drain the stream and begin a new one."""
        if self._distrusted:
            return self._plain.flush()
        if self._step is None:
            return []
        ready = self._pack(self._step.drain())
        self._step.reset()
        return ready

    def _begin(self, frames: Frames) -> list[Restored]:
        """Drain the stream and make everything for frames of a new format."""
        ready = self.flush()
        self._format = format_ = frames.format
        self._converter = ColorConverter(format_.layout, format_.color, device=self.device)
        size = (format_.height, format_.width)
        if self._step is None or self._step.size != size:
            self._step = FusedStep(
                self.network,
                height=size[0],
                width=size[1],
                lookahead=self.lookahead,
                strength=self.strength,
                grid_filter=self.grid_filter,
                device=self.device,
            )
            if not agrees(self._step, self._plain, to_bytes(self._converter.to_rgb(frames.plane_list(0)))):
                logger.warning(
                    "the fused kernels disagree with the plain network at %dx%d on this machine: "
                    "the plain backend is used; please report the output of `libranet doctor`",
                    size[1],
                    size[0],
                )
                self._distrusted = True
        return ready

    def _pack(
        self,
        restored: Tensor,  # [m, H, W, 3] uint8
    ) -> list[Restored]:
        assert self._format is not None
        assert self._converter is not None
        ready = []
        for image in restored:
            waiting = self._waiting.popleft()
            change = (image.int() - waiting.image.int()).permute(2, 0, 1)[None] / 255.0
            after = self._converter.add_change(waiting.planes, change)
            ready.append(Restored(waiting.planes, tuple(after), self._format, None))
        return ready

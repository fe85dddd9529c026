"""The fused backend: 8-bit frames through CUDA graphs, one at a time.

Kernels depend on the driver, the compiler and the GPU. So every new frame size begins with a comparison: a few frames
go through both backends. Where they differ by more than rounding, the plain backend takes over, with a warning.
"""

import logging
from collections import deque

import torch
from torch import Tensor

from libranet.backends.interface import Restored
from libranet.backends.plain import PlainBackend
from libranet.fused.step import FusedStep
from libranet.models import LiBrANet

logger = logging.getLogger(__name__)

TRIAL_FRAMES = 6
"""Frames compared for a new size: more than a window, so that every buffer is used twice."""
LARGEST_MEAN, LARGEST = 0.5, 6
"""The largest accepted differences, in 8-bit steps: both compute in float16 and round differently."""


def to_bytes(frame: Tensor) -> Tensor:  # [1, 3, H, W] in [0, 1] -> [H, W, 3] uint8
    return (frame[0] * 255.0).round().clamp(0.0, 255.0).to(torch.uint8).permute(1, 2, 0)


def agrees(step: FusedStep, plain: PlainBackend, frame: Tensor) -> bool:
    """Return whether both backends restore a short stream alike. Both start a new stream afterwards."""
    clip = [to_bytes(frame.roll(17 * index, dims=-1).flip(-2) if index % 2 else frame) for index in range(TRIAL_FRAMES)]
    fused = torch.cat([*(step.push(image[None]).clone() for image in clip), step.drain()])
    step.reset()
    restored = [r for image in clip for r in plain.push(image.permute(2, 0, 1)[None] / 255.0)] + plain.flush()
    difference = (fused.int() - torch.stack([to_bytes(r.image) for r in restored]).int()).abs()
    return float(difference.float().mean()) <= LARGEST_MEAN and int(difference.max()) <= LARGEST


class FusedBackend:
    """Restores frames with fused kernels; `PlainBackend` is its reference.

    Frames are rounded to 8 bits on input. The output is the frame plus the change in whole 8-bit steps, so that no
    change returns the frame bit for bit.
    """

    def __init__(self, network: LiBrANet, *, lookahead: int | None, strength: float) -> None:
        self.network, self.lookahead, self.strength = network, lookahead, strength
        self.device = next(network.parameters()).device
        self._step: FusedStep | None = None  # built for the size of the first frame
        self._waiting: deque[tuple[Tensor, Tensor]] = deque()
        self._plain = PlainBackend(network, lookahead=lookahead, strength=strength, want_transmission=False)
        self._distrusted = False

    def push(self, frame: Tensor, *, cut: bool = False) -> list[Restored]:
        """Take a frame and return those that became ready."""
        if self._distrusted:
            return self._plain.push(frame, cut=cut)
        size = (frame.shape[-2], frame.shape[-1])
        ready: list[Restored] = []
        if cut or (self._step is not None and self._step.size != size):
            ready = self.flush()
        if self._step is None or self._step.size != size:
            self._step = FusedStep(
                self.network,
                height=size[0],
                width=size[1],
                lookahead=self.lookahead,
                strength=self.strength,
                device=self.device,
            )
            if not agrees(self._step, self._plain, frame):
                logger.warning(
                    "the fused kernels disagree with the plain network at %dx%d on this machine: "
                    "the plain backend is used; please report the output of `libranet doctor`",
                    size[1],
                    size[0],
                )
                self._distrusted = True
                return ready + self._plain.push(frame)
        before = to_bytes(frame)
        self._waiting.append((frame, before))
        return ready + self._pack(self._step.push(before[None]))

    def flush(self) -> list[Restored]:
        """Drain the stream and begin a new one."""
        if self._distrusted:
            return self._plain.flush()
        if self._step is None:
            return []
        ready = self._pack(self._step.drain())
        self._step.reset()
        return ready

    def _pack(
        self,
        restored: Tensor,  # [m, H, W, 3] uint8
    ) -> list[Restored]:
        ready = []
        for after in restored:
            frame, before = self._waiting.popleft()
            change = (after.int() - before.int()).permute(2, 0, 1)[None] / 255.0
            ready.append(Restored((frame + change).clamp(0.0, 1.0), None))
        return ready

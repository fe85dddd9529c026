"""The fused GPU step behind the engine's `Step`: 8-bit frames through CUDA graphs, one at a time."""

from collections import deque

import torch
from torch import Tensor

from libranet.cuda.step import FusedStep
from libranet.engine.step import Restored
from libranet.models import LiBrANet


class FusedStreamStep:
    """What `StreamStep` does, by fused kernels. Frames are rounded to bytes on the way in; what comes back is the frame
    itself plus the change in whole bytes, so that no change at all is the frame bit for bit.
    """

    def __init__(self, network: LiBrANet, *, lookahead: int | None, strength: float) -> None:
        self.network, self.lookahead, self.strength = network, lookahead, strength
        self.device = next(network.parameters()).device
        self._step: FusedStep | None = None  # made for the size of the first frame
        self._waiting: deque[tuple[Tensor, Tensor]] = deque()

    def push(self, frame: Tensor, *, cut: bool = False) -> list[Restored]:
        """Take a frame and return those that became ready."""
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
        before = (frame[0] * 255.0).round().clamp(0.0, 255.0).to(torch.uint8).permute(1, 2, 0)  # [H, W, 3]
        self._waiting.append((frame, before))
        return ready + self._pack(self._step.push(before[None]))

    def flush(self) -> list[Restored]:
        """Drain the stream and begin a new one."""
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

"""A stand-in for the GPU's step, for tests of the bookkeeping around it."""

from types import SimpleNamespace
from typing import Any

import torch

from libranet.frames import FrameFormat
from libranet.network import LiBrANet
from libranet.runtime.gpu.ring import RingSchedule


class DelayedStep:
    """Stands in for `FusedStep`: adds a tenth to every sample, with its ring and its delay."""

    compiled = 0

    def __init__(self, network: LiBrANet, format_: FrameFormat, *, batch: int, overlap: bool, **settings: Any) -> None:
        from libranet.runtime.gpu.store import FrameStore

        self.schedule = RingSchedule(batch, 2, 2, overlap)
        self.frames = FrameStore(
            format_, ring=self.schedule.frame_ring, batch=batch, encoder_size=16, device=torch.device("cpu")
        )
        self.buffers = SimpleNamespace(transmission=None)
        self.reset()

    def write(self, planes: tuple[torch.Tensor, ...], at: int) -> None:
        self.frames.write(self.schedule.first_in(self.step) % self.schedule.frame_ring + at, planes)

    def push(self, planes: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        self.write(planes, 0)
        ready = self.advance(len(planes[0]))
        return self.frames.result(ready.parity, ready.low, ready.high)

    def advance(self, new: int) -> Any:
        from libranet.runtime.gpu.step import Ready

        self.count += new
        first, parity = self.schedule.first_out(self.step), self.step % 2
        for index in range(self.schedule.batch):
            for hazy, out in zip(self.frames.hazy, self.frames.restored[parity], strict=True):
                out[index] = hazy[(first + index) % self.frames.ring].float() + 0.1
        self.step += 1
        low, high = max(-first, 0), min(self.count - first, self.schedule.batch)
        return Ready(parity, low, max(low, high), first % self.frames.ring)

    @property
    def drained(self) -> bool:
        return self.schedule.first_out(self.step) >= self.count

    def drain(self) -> tuple[torch.Tensor, ...]:
        rest = []
        while not self.drained:
            ready = self.advance(0)
            rest.append([p.clone() for p in self.frames.result(ready.parity, ready.low, ready.high)])
        return tuple(torch.cat(planes) for planes in zip(*rest, strict=True))

    def reset(self) -> None:
        self.step = self.count = 0

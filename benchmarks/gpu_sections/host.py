"""Frames from main memory to main memory: copies over the bus included, a whole stream at a time.

While one batch is computed, the next is uploaded and the last one downloaded.
"""

import time
import traceback
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from gpu_sections.timing import SIZES, perturbed_net, random_frames
from libranet.frames import FrameFormat
from libranet.frames.format import RGB8
from libranet.runtime.gpu.refiner import RefinerTiles
from libranet.runtime.gpu.step import FusedStep


def restore_frames(
    step: FusedStep,
    frames: Iterable[Tensor],  # [H, W, 3] uint8 in main memory
) -> Iterator[Tensor]:  # [H, W, 3] uint8 in main memory; valid until the next one but B is asked for
    """Restore a whole stream. Begins a new one in `step` and drains it at the end."""
    step.reset()
    source = iter(frames)
    copies = _Copies(step)
    pending: tuple[int, int] | None = None  # parity and length of a batch that is being downloaded
    while True:
        batch = [] if step.ended else list(islice(source, step.schedule.batch))
        if not batch and step.schedule.first_out(step.step) >= step.count:
            break
        number = step.step
        copies.upload(batch, number)
        length = copies.compute(len(batch), number)
        if pending:
            yield from copies.downloaded(*pending)
        pending = (number % 2, length)
    if pending:
        yield from copies.downloaded(*pending)


class _Copies:
    """Two pinned buffers each way, two streams, and the events that keep them in order."""

    def __init__(self, step: FusedStep) -> None:
        self.step = step
        self.up, self.down = (torch.cuda.Stream(step.device) for _ in range(2))
        self.up.wait_stream(torch.cuda.current_stream(step.device))  # an earlier stream may still be at work
        shape = (2, step.schedule.batch, step.format.height, step.format.width, 3)
        self.sent, self.received = (torch.empty(shape, dtype=torch.uint8, pin_memory=True) for _ in range(2))
        self.uploaded, self.computed, self.fetched = ([torch.cuda.Event() for _ in range(2)] for _ in range(3))

    def upload(self, batch: list[Tensor], number: int) -> None:
        """Send a batch to the slots of the coming step. They were last read two steps ago."""
        parity = number % 2
        self.uploaded[parity].synchronize()  # the pinned buffer is free again
        for place, frame in zip(self.sent[parity], batch, strict=False):
            place.copy_(frame)
        with torch.cuda.stream(self.up):
            self.up.wait_event(self.computed[parity])
            if batch:
                self.step.write((self.sent[parity, : len(batch)],), 0)
            self.uploaded[parity].record(self.up)

    def compute(self, new: int, number: int) -> int:
        """Run the step and begin to fetch its result; returns how many frames that is."""
        parity, main = number % 2, torch.cuda.current_stream(self.step.device)
        main.wait_event(self.uploaded[parity])
        main.wait_event(self.fetched[parity])  # the result's buffer is free again
        ready = self.step.advance(new)
        (result,) = self.step.frames.result(ready.parity, ready.low, ready.high)
        self.computed[parity].record(main)
        with torch.cuda.stream(self.down):
            self.down.wait_event(self.computed[parity])
            self.received[parity, : len(result)].copy_(result, non_blocking=True)
            self.fetched[parity].record(self.down)
        return len(result)

    def downloaded(self, parity: int, length: int) -> Iterator[Tensor]:
        """The frames of a batch, once they have arrived."""
        self.fetched[parity].synchronize()
        yield from self.received[parity, :length]


def run(*, quick: bool, tiles: RefinerTiles | None = None) -> dict[str, Any]:
    net, rows = perturbed_net().cuda(), []
    for name in ("4K",) if quick else ("4K", "1080p"):
        width, height = SIZES[name]
        frames = list(random_frames(8, width, height).cpu())
        for settings in ({"batch": 1}, {"batch": 4, "overlap": True}):
            row: dict[str, Any] = {"size": name, **settings}
            try:
                step = FusedStep(net, FrameFormat(width, height, RGB8), tiles=tiles, **settings)
                stacks = torch.stack(frames).split(step.schedule.batch)
                want = torch.cat([*(step.push((stack.cuda(),))[0].cpu() for stack in stacks), step.drain()[0].cpu()])
                got = torch.stack([frame.clone() for frame in restore_frames(step, frames)])
                row["same"] = bool(torch.equal(got, want))
                count, began = 120, time.perf_counter()
                restored = sum(1 for _ in restore_frames(step, (frames[i % 8] for i in range(count))))
                row |= {"frames": restored, "frame_ms": (time.perf_counter() - began) * 1e3 / count}
                del step
            except Exception as problem:
                traceback.print_exc()
                row["why"] = repr(problem)[:200]
            print(row, flush=True)
            rows.append(row)
            torch.cuda.empty_cache()
    return {"rows": rows}

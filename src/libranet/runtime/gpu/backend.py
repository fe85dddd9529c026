"""The fused backend: frames in their own samples through CUDA graphs, one at a time or in batches.

Kernels depend on the driver, the compiler and the GPU. So the first frame of a new format begins with a comparison,
unless all kernels were shipped as machine code that was compared on such a GPU before: a few frames go through both
backends. Where they differ by more than rounding, the plain backend takes over, with a warning. Where they agree, a
file remembers it (`trust.py`).
"""

import logging
from collections.abc import Sequence

import torch
from torch import Tensor

from libranet.frames import FrameFormat, Frames
from libranet.frames.format import copyable
from libranet.network import NO_FILTER, GridFilter, LiBrANet
from libranet.network.stream import FrameGrids, Stages
from libranet.runtime.gpu.refiner import RefinerTiles
from libranet.runtime.gpu.step import FusedStep, Ready
from libranet.runtime.gpu.trust import agreement_file, remember_agreement
from libranet.runtime.interface import Restored, check_size
from libranet.runtime.plain import PlainBackend

logger = logging.getLogger(__name__)

TRIAL_FRAMES = 6
"""Frames compared for a new format: more than a window, so that every buffer is used twice."""
LARGEST_MEAN, LARGEST = 0.5, 8
"""The largest accepted differences, in 8-bit steps: both compute in float16 and round differently."""
BYTES_PER_PIXEL = 60  # of a step's buffers, for each frame of a batch
SHARE_OF_MEMORY = 0.4
"""Of the GPU's memory, for a step. Of all of it and not of what is free, so that a resumed run has the same batches."""


def find_difference(step: FusedStep, plain: PlainBackend, frames: Frames) -> str:
    """Say how far apart both backends restore a short stream, if too far. Both start a new stream afterwards."""
    clip = trial_clip(frames)
    fused = [tuple(plane.clone() for plane in step.push(planes)) for planes in _batches(clip, step.schedule.batch)]
    fused.append(step.drain())
    step.reset()
    want = [r.after for r in plain.push(clip) + plain.flush()]
    scale = 255.0 / frames.format.layout.peak
    for index, components in enumerate(zip(*fused, strict=True)):
        got = torch.cat([plane.float() for plane in components])
        difference = (got - torch.stack([planes[index].float() for planes in want])).abs() * scale
        mean, largest = float(difference.mean()), float(difference.max())
        if not (mean <= LARGEST_MEAN and largest <= LARGEST):
            return f"differ from the plain network by {mean:.2g} of 255 on average and {largest:.2g} at most"
    return ""


def trial_clip(frames: Frames) -> Frames:
    """A few frames that move and differ: every other one upside down and moved, in whole chroma samples."""
    planes = []
    for plane in frames.planes:
        first = plane[0].view(copyable(plane.dtype))
        moved = [
            first.roll(index * (first.shape[1] // 16), dims=1).flip(0) if index % 2 else first
            for index in range(TRIAL_FRAMES)
        ]
        planes.append(torch.stack(moved).view(plane.dtype))
    return Frames(tuple(planes), frames.format)


def _batches(frames: Frames, batch: int) -> list[tuple[Tensor, ...]]:
    return [tuple(p[i : i + batch] for p in frames.planes) for i in range(0, len(frames), batch)]


class FusedBackend:
    """Restores frames with fused kernels; `PlainBackend` is its reference.

    Everything is in the order of the current CUDA stream, and only the first frame of a format waits for the GPU.
    """

    name = "fused"

    def __init__(
        self,
        network: LiBrANet,
        *,
        lookahead: int | None,
        strength: float,
        grid_filter: GridFilter = NO_FILTER,
        grids_given: bool = False,
        batch: int = 1,
        tiles: RefinerTiles | None = None,
        trial: bool = True,
    ) -> None:
        """Prepare; everything is built for the format of the first frame.

        Args:
            network: In float16 on its GPU.
            grids_given: `push` gets the grids of each frame, with a look-ahead of 0.
            batch: Frames per step; more than one is throughput mode.
            tiles: Tile configurations of the refiner's kernels.
            trial: Compare with the plain backend first, and use that one where the kernels fail.
        """
        self.network, self.lookahead, self.strength, self.batch = network, lookahead, strength, batch
        self.grid_filter, self.tiles, self.trial = grid_filter, tiles, trial
        self.device, self.grids_given = network.device, grids_given
        self.stages: Stages | None = network
        self._format: FrameFormat | None = None
        self._step: FusedStep | None = None
        self._batch = batch
        self._filled = 0  # frames of the next batch that are already in the step
        self._plain = PlainBackend(
            network,
            lookahead=lookahead,
            strength=strength,
            grid_filter=grid_filter,
        )
        self._distrusted = False

    def push(self, frames: Frames, *, cuts: Sequence[bool] = (), given: Sequence[FrameGrids] = ()) -> list[Restored]:
        check_size(frames.format)
        ready: list[Restored] = []
        if not self._distrusted and frames.format != self._format:
            ready += self._begin(frames)
        if self._distrusted:
            return ready + self._plain.push(frames, cuts=cuts, given=given)
        assert self._step is not None
        index, newest = 0, list[Restored]()  # what the last step restored lies where the next but one will write
        while index < len(frames):
            if cuts and cuts[index]:
                ready += _kept(newest)  # before the drain, which runs two steps or more
                ready += self.flush()
                newest = []
            # As many frames as the batch takes, up to the next cut.
            end = min(len(frames), index + self._batch - self._filled)
            end = next((i for i in range(index + 1, end) if cuts and cuts[i]), end)
            self._step.write(tuple(plane[index:end] for plane in frames.planes), self._filled)
            for at, grids in enumerate(given[index:end], self._filled):
                self._step.give(grids, at)
            self._filled += end - index
            index = end
            if self._filled == self._batch:
                ready += _kept(newest)
                newest = self._run()
        return ready + newest

    def flush(self) -> list[Restored]:
        if self._distrusted:
            return self._plain.flush()
        if self._step is None:
            return []
        ready: list[Restored] = []
        while self._filled or not self._step.drained:
            ready += _kept(self._run())
        self._step.reset()
        return ready

    def _run(self) -> list[Restored]:
        """One step with the frames that are in it."""
        assert self._step is not None
        new, self._filled = self._filled, 0
        return self._pack(self._step.advance(new))

    def _begin(self, frames: Frames) -> list[Restored]:
        """Drain the stream and make everything for frames of a new format."""
        ready = _kept(self.flush())
        self._format = frames.format
        self._batch = min(self.batch, _largest_batch(frames.format, self.device))
        try:
            self._step = self._make_step(frames.format, grids_given=self.grids_given)
            problem = self._why_distrust(frames)
        except Exception as error:  # of the compiler, the driver or the memory: the run goes on without them
            if not self.trial:
                raise
            reason = str(error).strip().splitlines()
            problem = f"do not run ({reason[0][:200] if reason else type(error).__name__})"
        if problem:
            logger.warning(
                "the fused kernels %s on %dx%d %s frames on this machine: the plain backend is used; "
                "please report the output of `libranet doctor`",
                problem,
                frames.format.width,
                frames.format.height,
                frames.format.layout.name,
            )
            self._distrusted, self.name = True, self._plain.name
        return ready

    def _make_step(self, format_: FrameFormat, *, grids_given: bool) -> FusedStep:
        return FusedStep(
            self.network,
            format_,
            batch=self._batch,
            overlap=self._batch > 1 and not grids_given,
            lookahead=self.lookahead,
            strength=self.strength,
            grid_filter=self.grid_filter,
            grids_given=grids_given,
            device=self.device,
            tiles=self.tiles,
        )

    def _why_distrust(self, frames: Frames) -> str:
        """What is wrong with the kernels, by an earlier comparison with the network or by one now."""
        assert self._step is not None
        if not self.trial:
            return ""
        file = agreement_file(self.network, frames.format, f"batch {self._batch}, {self.tiles}, {self.lookahead}")
        if file.exists():
            return ""
        here = Frames(tuple(plane[:1].to(self.device) for plane in frames.planes), frames.format)
        # Both predict their own grids in the comparison, so that all kernels take part in it.
        step = self._make_step(frames.format, grids_given=False) if self.grids_given else self._step
        problem = find_difference(step, self._plain, here)
        if not problem:
            remember_agreement(file)
        return problem

    def _pack(self, ready: Ready) -> list[Restored]:
        assert self._step is not None
        assert self._format is not None
        step = self._step
        results = step.frames.result(ready.parity, 0, self._batch)
        return [
            Restored(
                before=step.frames.original((ready.first + index) % step.frames.ring),
                after=tuple(plane[index] for plane in results),
                format=self._format,
            )
            for index in range(ready.low, ready.high)
        ]


def _largest_batch(format_: FrameFormat, device: torch.device) -> int:
    """Frames of a batch that the GPU has memory for, one at least."""
    if device.type != "cuda":
        return TRIAL_FRAMES
    room = SHARE_OF_MEMORY * torch.cuda.get_device_properties(device).total_memory
    return max(1, int(room / (BYTES_PER_PIXEL * format_.width * format_.height)))


def _kept(restored: list[Restored]) -> list[Restored]:
    """Copies that the next step does not overwrite."""
    return [
        Restored(
            before=tuple(plane.clone() for plane in one.before),
            after=tuple(plane.clone() for plane in one.after),
            format=one.format,
        )
        for one in restored
    ]

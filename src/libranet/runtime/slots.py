"""What backends share that restore frames one by one: waiting frames in reused arrays, and RGB for those that need it.

New arrays for each frame would be scattered between the short-lived arrays of the network, and the gaps would add up: a
long video would need more memory.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from libranet.frames import ColorConverter, FrameFormat, Frames
from libranet.network.stream import FrameGrids, Stages
from libranet.runtime.interface import Restored, check_size

Planes = tuple[Tensor, ...]


@dataclass
class Slot:
    """A waiting frame: its samples."""

    planes: Planes


S = TypeVar("S", bound=Slot)
R = TypeVar("R")


class SlotBackend(ABC, Generic[S, R]):
    """A `Backend` that takes frames one by one. A subclass says what a slot holds, and restores slots in order."""

    name: str
    stages: Stages | None = None

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._format: FrameFormat | None = None
        self._waiting: deque[S] = deque()
        self._spare: deque[S] = deque()
        self._held: deque[S] = deque()  # returned by the last push, not to be overwritten yet

    @abstractmethod
    def begin(self, format_: FrameFormat) -> None:
        """Get ready for frames of a new format."""

    @abstractmethod
    def fill(self, slot: S | None, planes: Planes, *, encode: bool) -> S:
        """Copy a frame into a slot that is free, or into a new one. `encode`: whether its grids are still unknown."""

    @abstractmethod
    def step(self, slot: S, given: FrameGrids | None) -> list[R]:
        """Take the next frame of the stream, with its grids where they are given, and return what became ready."""

    @abstractmethod
    def drain(self) -> list[R]:
        """Return the results of the frames still waiting, and begin a new stream."""

    @abstractmethod
    def pack(self, slot: S, result: R) -> Planes:
        """Return the restored samples of a frame."""

    def push(self, frames: Frames, *, cuts: Sequence[bool] = (), given: Sequence[FrameGrids] = ()) -> list[Restored]:
        check_size(frames.format)
        self._spare.extend(self._held)
        self._held.clear()
        ready: list[Restored] = []
        if frames.format != self._format:
            ready = self.flush()
            self._format = frames.format
            self._spare.clear()
            self._held.clear()
            self.begin(frames.format)
        for index in range(len(frames)):
            if cuts and cuts[index]:
                ready += self.flush()
            slot = self._spare.popleft() if self._spare else None
            slot = self.fill(slot, frames.plane_list(index), encode=not given)
            results = self.step(slot, given[index] if given else None)
            self._waiting.append(slot)  # only now: a frame that fails leaves nothing behind
            ready += self._pack(results)
        return ready

    def flush(self) -> list[Restored]:
        return self._pack(self.drain())

    def _pack(self, results: list[R]) -> list[Restored]:
        ready = []
        for result in results:
            assert self._format is not None
            slot = self._waiting.popleft()
            self._held.append(slot)
            ready.append(Restored(slot.planes, self.pack(slot, result), self._format))
        return ready


@dataclass
class RgbSlot(Slot):
    """A waiting frame, and the RGB image that the network sees."""

    rgb: Tensor  # [1, 3, H, W] in [0, 1], float32


class RgbBackend(SlotBackend[RgbSlot, Tensor]):
    """Restores RGB images [1, 3, H, W]; the change is added to the frames' samples. Subclasses `step` and `drain`."""

    def begin(self, format_: FrameFormat) -> None:
        self._converter = ColorConverter(format_.layout, format_.color, device=self.device)

    def fill(self, slot: RgbSlot | None, planes: Planes, *, encode: bool) -> RgbSlot:
        if slot is None:
            own = tuple(plane.to(self.device, copy=True) for plane in planes)
            return RgbSlot(own, self._converter.to_rgb(own))
        for mine, given in zip(slot.planes, planes, strict=True):
            mine.copy_(given, non_blocking=True)
        self._converter.to_rgb(slot.planes, out=slot.rgb)
        return slot

    def pack(self, slot: RgbSlot, result: Tensor) -> Planes:
        """Add the change of the image to the samples."""
        return tuple(self._converter.add_change(slot.planes, result - slot.rgb))

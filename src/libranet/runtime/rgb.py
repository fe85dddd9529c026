"""What backends that restore RGB images share: frames of any format to RGB, and the change back to their samples."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from libranet.frames import ColorConverter, FrameFormat, Frames
from libranet.runtime.interface import Restored, check_size


@dataclass(frozen=True)
class RestoredImage:
    """One restored image."""

    image: Tensor  # [1, 3, H, W] in [0, 1]
    transmission: Tensor | None = None  # [1, 1, h, w] in [0, 1], where it was requested


@dataclass(frozen=True)
class _Slot:
    """A waiting frame: its samples, and the RGB image that the network sees."""

    planes: tuple[Tensor, ...]
    rgb: Tensor  # [1, 3, H, W] in [0, 1], float32


class RgbBackend:
    """A `Backend` whose subclass restores RGB images: it defines `restore_image` and `drain_images`.

    Waiting frames are in arrays that are reused. New arrays for each frame would be scattered between the short-lived
    arrays of the network, and the gaps would add up: a long video would need more memory.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._format: FrameFormat | None = None
        self._converter: ColorConverter | None = None
        self._waiting: deque[_Slot] = deque()
        self._spare: deque[_Slot] = deque()
        self._held: deque[_Slot] = deque()  # returned by the last push, not to be overwritten yet

    def restore_image(
        self,
        rgb: Tensor,  # [1, 3, H, W] in [0, 1], float32; it does not change before it is returned restored
    ) -> list[RestoredImage]:
        """Take the next image of the stream and return those that became ready."""
        raise NotImplementedError

    def drain_images(self) -> list[RestoredImage]:
        """Return the images still waiting, and begin a new stream."""
        raise NotImplementedError

    def push(self, frames: Frames, *, cuts: Sequence[bool] = ()) -> list[Restored]:
        """Take frames and return those that became ready."""
        check_size(frames.format)
        self._spare.extend(self._held)
        self._held.clear()
        ready = self._begin(frames.format)
        for index in range(len(frames)):
            if cuts and cuts[index]:
                ready += self.flush()
            slot = self._fill(frames.plane_list(index))
            images = self.restore_image(slot.rgb)
            self._waiting.append(slot)  # only now: a frame that fails leaves nothing behind
            ready += self._pack(images)
        return ready

    def flush(self) -> list[Restored]:
        """Drain the stream and begin a new one."""
        return self._pack(self.drain_images())

    def _begin(self, format_: FrameFormat) -> list[Restored]:
        """Drain the stream where the format is a new one."""
        if format_ == self._format:
            return []
        ready = self.flush()
        self._format = format_
        self._converter = ColorConverter(format_.layout, format_.color, device=self.device)
        self._spare.clear()
        self._held.clear()
        return ready

    def _fill(self, planes: tuple[Tensor, ...]) -> _Slot:
        """Copy a frame into arrays that are free, or into new ones."""
        assert self._converter is not None
        if self._spare:
            slot = self._spare.popleft()
            for mine, given in zip(slot.planes, planes, strict=True):
                mine.copy_(given, non_blocking=True)
            self._converter.to_rgb(slot.planes, out=slot.rgb)
            return slot
        own = tuple(plane.to(self.device, copy=True) for plane in planes)
        return _Slot(own, self._converter.to_rgb(own))

    def _pack(self, images: list[RestoredImage]) -> list[Restored]:
        ready = []
        for restored in images:
            assert self._format is not None
            assert self._converter is not None
            slot = self._waiting.popleft()
            self._held.append(slot)
            after = self._converter.add_change(slot.planes, restored.image - slot.rgb)
            ready.append(Restored(slot.planes, tuple(after), self._format, restored.transmission))
        return ready

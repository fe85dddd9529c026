"""Frames on their way to a GPU and back: pinned memory, copies beside the computing, events that keep them in order.

Uploads and downloads have streams of their own. A frame goes from pinned memory into one of a few arrays on the device,
in turn, and back the same way, so that copies of one frame run while another is computed.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from libranet.frames import FrameFormat

DEVICE_SLOTS = 4  # arrays on the device in each direction


class Upload:
    """Frames of one format from main memory to a GPU."""

    def __init__(self, format_: FrameFormat, device: torch.device, *, slots: int, one_thread: bool = False) -> None:
        """Make the buffers.

        Args:
            slots: Frames that may be in pinned memory: more than can be between `fill` and `send`.
            one_thread: Copy by the calling thread alone. Torch's threads would wait for cores that a codec has.
        """
        self.format, self._one_thread = format_, one_thread
        self._device, self._stream = device, torch.cuda.Stream(device)
        self._pinned = [format_.empty(1, pinned=True) for _ in range(slots)]
        self._arrays = [format_.empty(1, device=device) for _ in range(DEVICE_SLOTS)]
        self._stream.wait_stream(torch.cuda.current_stream(device))  # which may still use that memory
        self._sent = [torch.cuda.Event() for _ in range(slots)]
        self._used = [torch.cuda.Event() for _ in range(DEVICE_SLOTS)]
        self._filled = self._taken = 0

    def fill(self, planes: Sequence[Tensor]) -> int:  # each [h, w], or one [h, w, 3]
        """Copy a frame to pinned memory and return its slot. May run on another thread than the rest."""
        slot = self._filled % len(self._pinned)
        self._filled += 1
        self._sent[slot].synchronize()  # the frame before has left
        for mine, given in zip(self._pinned[slot], planes, strict=True):
            if self._one_thread:
                np.copyto(mine[0].numpy(), given.numpy())
            else:
                mine[0].copy_(given)
        return slot

    def send(self, slot: int) -> tuple[Tensor, ...]:  # each [1, h, w], or one [1, h, w, 3], on the device
        """Begin to copy a frame to the device. It is there in the order of the current stream, until `release`."""
        place = self._taken % DEVICE_SLOTS
        with torch.cuda.stream(self._stream):
            self._stream.wait_event(self._used[place])
            for array, plane in zip(self._arrays[place], self._pinned[slot], strict=True):
                array.copy_(plane, non_blocking=True)
            self._sent[slot].record(self._stream)
        torch.cuda.current_stream(self._device).wait_event(self._sent[slot])
        return self._arrays[place]

    def release(self) -> None:
        """Say that the frame of the last `send` is no longer needed, in the order of the current stream."""
        self._used[self._taken % DEVICE_SLOTS].record(torch.cuda.current_stream(self._device))
        self._taken += 1


class Download:
    """Frames from a GPU to pinned memory."""

    def __init__(self, device: torch.device, format_: FrameFormat, *, ahead: int = 0) -> None:
        """Make the buffers. There is pinned memory for `ahead` frames now; more is made where it is needed."""
        self._device, self._stream, self.format = device, torch.cuda.Stream(device), format_
        self._arrays = [_one(format_.empty(1, device=device)) for _ in range(DEVICE_SLOTS)]
        self._done = [torch.cuda.Event() for _ in range(DEVICE_SLOTS)]
        self._free: deque[list[Tensor]] = deque(self._pinned() for _ in range(ahead))
        self._taken = 0

    def begin(self, planes: Sequence[Tensor]) -> tuple[list[Tensor], torch.cuda.Event]:
        """Begin to fetch a frame, which the caller may overwrite afterwards.

        Returns:
            Where it will be in main memory, and the event after which it is there. Give the memory back by `free`.
        """
        place = self._taken % DEVICE_SLOTS
        self._taken += 1
        main = torch.cuda.current_stream(self._device)
        main.wait_event(self._done[place])  # the frame before has left
        for array, plane in zip(self._arrays[place], planes, strict=True):
            array.copy_(plane)
        pinned = self._free.popleft() if self._free else self._pinned()
        arrived = torch.cuda.Event()
        self._stream.wait_stream(main)
        with torch.cuda.stream(self._stream):
            for target, array in zip(pinned, self._arrays[place], strict=True):
                target.copy_(array, non_blocking=True)
            arrived.record(self._stream)
            self._done[place].record(self._stream)
        return pinned, arrived

    def free(self, pinned: list[Tensor]) -> None:
        """Take memory back. Any thread may call it."""
        self._free.append(pinned)

    def _pinned(self) -> list[Tensor]:
        return list(_one(self.format.empty(1, pinned=True)))


def _one(planes: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The planes of a batch of one frame, without the batch."""
    return tuple(plane[0] for plane in planes)

"""The interface of every backend: batches of frames in their own samples in, the same restored out."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import torch
from torch import Tensor

from libranet.errors import InputError
from libranet.frames import FrameFormat, Frames
from libranet.frames.format import PLANAR_RGB_FLOAT
from libranet.network.libranet import MIN_SIZE
from libranet.network.stream import FrameGrids, Stages

MAX_STRENGTH = 1.5


@dataclass(frozen=True)
class Restored:
    """One restored frame beside its original, on the backend's device.

    Its tensors are valid until the next push or flush.
    """

    before: tuple[Tensor, ...]  # the planes of the original, each [h, w], or one [h, w, 3] of a packed layout
    after: tuple[Tensor, ...]  # the same, restored
    format: FrameFormat


class Backend(Protocol):
    """Restores a stream of frames in order, a few frames late where the network looks ahead.

    The change that the network makes in RGB is added to the frame's own samples. No change returns them bit for bit.
    """

    name: str
    """What reports call it: `plain`, `cpu-fp32`, `cpu-bf16` or `fused`."""
    device: torch.device
    stages: Stages | None
    """What predicts grids, for callers that settle them; None where the network has none."""

    def push(self, frames: Frames, *, cuts: Sequence[bool] = (), given: Sequence[FrameGrids] = ()) -> list[Restored]:
        """Take the next frames and return those that became ready.

        Args:
            frames: One frame or more, on any device. They are copied: the caller may overwrite them afterwards, on CUDA
                in the order of the current stream. A new format ends the stream.
            cuts: For each frame, whether it begins a new shot, where the memory of the last one is reset.
            given: For each frame, the grids to restore it by, where `make_backend` was told so: for all frames then.
        """
        ...

    def flush(self) -> list[Restored]:
        """Return the frames still waiting. The next frame begins a new stream."""
        ...


@cache
def _first_process() -> int:
    """The process that made the first backend. A forked one inherits the answer, a spawned one has its own."""
    return os.getpid()


def check_process() -> None:
    """Refuse to restore frames where OpenMP would wait for ever, or CUDA fail."""
    if _first_process() != os.getpid():
        raise InputError(
            "this process was forked from one that had a network at work, whose threads do not survive a fork: fork "
            "before the first frame, or start processes with multiprocessing.get_context('spawn')"
        )


def check_size(format_: FrameFormat) -> None:
    """Raise InputError for frames that are too small for the network."""
    if min(format_.height, format_.width) < MIN_SIZE:
        size = f"{format_.width}x{format_.height}"
        raise InputError(f"expected frames of at least {MIN_SIZE}x{MIN_SIZE} pixels, got {size}")


def rgb_frames(rgb: Tensor) -> Frames:  # [n, 3, H, W] in [0, 1], floating point
    """RGB images as frames, for callers that compute in floating point."""
    red, green, blue = rgb.float().unbind(1)
    return Frames((green, blue, red), FrameFormat(rgb.shape[3], rgb.shape[2], PLANAR_RGB_FLOAT))


def rgb_of(restored: Restored) -> Tensor:  # [3, H, W] in [0, 1], float32
    """The restored image of a frame that `rgb_frames` made."""
    green, blue, red = restored.after
    return torch.stack([red, green, blue])

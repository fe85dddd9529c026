"""The interface of every backend: frames in, restored frames out."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

MAX_STRENGTH = 1.5


@dataclass(frozen=True)
class Restored:
    """One restored frame."""

    image: Tensor  # [1, 3, H, W] in [0, 1]
    transmission: Tensor | None  # [1, 1, h, w] in [0, 1], where it was requested


class Backend(Protocol):
    """Restores a stream of frames in order, a few frames late where the network looks ahead."""

    device: torch.device

    def push(
        self,
        frame: Tensor,  # [1, 3, H, W] in [0, 1], on `device`
        *,
        cut: bool = False,
    ) -> list[Restored]:
        """Take a frame and return those that became ready.

        Args:
            frame: The next frame. The caller may overwrite it once it has been returned restored.
            cut: The frame begins a new shot: the memory of the last one is reset.
        """
        ...

    def flush(self) -> list[Restored]:
        """Return the frames still waiting. The next frame begins a new stream."""
        ...

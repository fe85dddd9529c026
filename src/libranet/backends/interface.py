"""The interface that every backend has: frames in, restored frames out."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

MAX_STRENGTH = 1.5


@dataclass(frozen=True)
class Restored:
    """One frame as the network left it."""

    image: Tensor  # [1, 3, H, W] in [0, 1]
    transmission: Tensor | None  # [1, 1, h, w] in [0, 1], where it was asked for


class Backend(Protocol):
    """Restores a stream of frames in order; a few frames late where the network looks ahead."""

    device: torch.device

    def push(
        self,
        frame: Tensor,  # [1, 3, H, W] in [0, 1], on `device`
        *,
        cut: bool = False,
    ) -> list[Restored]:
        """Take a frame and return those that became ready.

        Args:
            frame: The next frame. Its owner may overwrite it once it has come back restored.
            cut: The frame begins a new shot: nothing of the last one is remembered.
        """
        ...

    def flush(self) -> list[Restored]:
        """Return the frames still waiting. The next frame begins a new stream."""
        ...

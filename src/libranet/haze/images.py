"""Clear images with their depth, as haze is laid over them."""

from dataclasses import dataclass

from torch import Tensor

SKY_DEPTH = 10_000.0  # metres that stand for the sky in rendered depth; nothing else reaches as far
SKY_LEVEL = 250
"""Depth, of 255, beyond which a pixel begins to be sky; four steps later it is nothing else."""


@dataclass(frozen=True)
class ImageFacts:
    """What is known about each image. The sampler looks at nothing else, so these stay on the CPU."""

    width: Tensor  # [N] in (0, 1], the used share of the canvas
    has_depth: Tensor  # [N] bool
    brightness: Tensor  # [N] in [0, 1], of each image's bright parts
    sky: Tensor  # [N, 3] in [0, 1], mean colour of each image's sky, 0 where it has none
    skyline: Tensor  # [N] in [0, 1], how far down the lowest bit of sky is
    open_sky: Tensor  # [N] in [0, 1], how far down there is nothing but sky


@dataclass(frozen=True)
class ImageBank:
    """All clear images as bytes on the device, stacked, so that a batch is one gather."""

    fine: Tensor  # [N, 3, lines, lines * 16 / 9] uint8
    coarse: Tensor  # [N, 3, lines * 2 / 3, ...] uint8
    depth: Tensor  # [N, 1, lines / 2, ...] uint8, 0 near, 255 far
    facts: ImageFacts
    density: Tensor  # [M, side, side] in [0, 1] on the CPU, density maps of haze; M may be 0

    def __len__(self) -> int:
        return len(self.fine)

"""The albedos of a place, and the two operations colours are mixed with."""

from dataclasses import dataclass

import torch
from torch import Tensor

from libranet.scenes.solids import Colour


@dataclass(frozen=True)
class Palette:
    """Albedos of a biome in one season, linear."""

    grass: Colour
    dry: Colour
    soil: Colour
    rock: Colour
    canopy: tuple[Colour, Colour]
    sand: Colour
    asphalt: Colour
    pavement: Colour
    water: Colour
    snow_line: float
    """Height in metres above which snow lies."""
    fields: float
    """Share of the open land under crops, 0 to 1."""
    town: bool
    """Ground between buildings is paved."""


def flat(colour: Colour, like: Tensor) -> Tensor:
    """One colour for all points of `like` [N]: [3, N]."""
    return torch.tensor(colour, device=like.device).reshape(3, 1).expand(3, like.shape[0])


def mix(a: Tensor, b: Tensor, share: Tensor) -> Tensor:
    """From `a` [3, N] to `b` as `share` [N] goes from 0 to 1."""
    return torch.lerp(a, b, share.clamp(0, 1).expand_as(a))

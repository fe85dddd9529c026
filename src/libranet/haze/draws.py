"""Random numbers for a batch of samples."""

import math

import torch
from torch import Tensor

from libranet.haze.parameters import CELLS


def uniform(count: int, bounds: tuple[float, float], generator: torch.Generator) -> Tensor:  # [count]
    """Draw numbers uniformly."""
    return torch.rand(count, generator=generator) * (bounds[1] - bounds[0]) + bounds[0]


def log_uniform(count: int, bounds: tuple[float, float], generator: torch.Generator) -> Tensor:  # [count]
    """Draw numbers uniformly in the logarithm; uniformly as they are where the range begins at zero."""
    if bounds[0] <= 0:
        return uniform(count, bounds, generator).clamp_min(1e-6)
    return torch.exp(uniform(count, (math.log(bounds[0]), math.log(bounds[1])), generator))


def chance(count: int, probability: float, generator: torch.Generator) -> Tensor:  # [count] bool
    """Draw which samples something happens to."""
    return torch.rand(count, generator=generator) < probability


def smooth_field(count: int, channels: int, generator: torch.Generator) -> Tensor:  # [count, channels, CELLS, CELLS]
    """Draw cells in [-1, 1] that become smooth structure."""
    return torch.rand(count, channels, CELLS, CELLS, generator=generator) * 2 - 1

"""Random numbers for a batch of samples."""

import math

import torch
from torch import Tensor

from libranet.haze.parameters import CELLS


class Draws:
    """Draws for n samples from one generator: every result has the sample as its first axis."""

    def __init__(self, n: int, generator: torch.Generator) -> None:
        self.n, self.generator = n, generator

    def rand(self, *shape: int) -> Tensor:
        return torch.rand(self.n, *shape, generator=self.generator)

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(self.n, *shape, generator=self.generator)

    def whole(self, below: int) -> Tensor:
        return torch.randint(below, (self.n,), generator=self.generator)

    def uniform(self, bounds: tuple[float, float]) -> Tensor:
        return self.rand() * (bounds[1] - bounds[0]) + bounds[0]

    def log_uniform(self, bounds: tuple[float, float]) -> Tensor:
        """Numbers uniform in the logarithm; uniform as they are where the range begins at zero."""
        if bounds[0] <= 0:
            return self.uniform(bounds).clamp_min(1e-6)
        return torch.exp(self.uniform((math.log(bounds[0]), math.log(bounds[1]))))

    def chance(self, probability: float, *shape: int) -> Tensor:
        return self.rand(*shape) < probability

    def cells(self, channels: int) -> Tensor:  # [n, channels, CELLS, CELLS] in [-1, 1]
        """Coarse fields that become smooth structure."""
        return self.rand(channels, CELLS, CELLS) * 2 - 1

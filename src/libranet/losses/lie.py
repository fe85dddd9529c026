"""The four penalties on the bilateral grids, before the Cayley map.

Each is a mean over the entries it looks at, so its weight does not depend on the size of the grids.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from libranet.models.libranet import Grids


@dataclass(frozen=True)
class LieWeights:
    """How much each penalty counts inside the regulariser. The defaults are the paper's."""

    identity: float = 0.01
    """Keeps the matrices near zero, hence the transforms near the identity."""
    spatial: float = 0.05
    """Keeps neighbouring cells alike."""
    temporal: float = 0.10
    """Keeps the planes of consecutive frames alike."""
    guide: float = 0.02
    """Keeps the red-guided and the green-guided grid alike."""


@dataclass(frozen=True)
class LieTerms:
    """The unweighted penalties, for the log, and their weighted sum, for the loss. All scalars."""

    identity: Tensor
    spatial: Tensor
    temporal: Tensor
    guide: Tensor
    total: Tensor


def lie_regulariser(grids: Grids, weights: LieWeights | None = None) -> LieTerms:
    """Measure the grids of a batch. A variant without one of the fields has no penalty where that field is missing."""
    weights = weights or LieWeights()
    chromatic = None if grids.chromatic is None else grids.chromatic.float()  # [B, 2, 12, D, gh, gw]
    temporal = None if grids.temporal is None else grids.temporal.float()  # [B, 12, T, gh, gw]
    present = [grid for grid in (chromatic, temporal) if grid is not None]
    zero = present[0].new_zeros(())

    matrices = [] if chromatic is None else [chromatic[:, :, :9]]
    matrices += [] if temporal is None else [temporal[:, :9]]
    identity = torch.stack([m.square().mean() for m in matrices]).mean()
    spatial = torch.stack([_mean_square_step(grid, -1) + _mean_square_step(grid, -2) for grid in present]).mean()
    along_time = zero if temporal is None else _mean_square_step(temporal, 2)
    guide = zero if chromatic is None else (chromatic[:, 0] - chromatic[:, 1]).abs().mean()
    total = (
        weights.identity * identity + weights.spatial * spatial + weights.temporal * along_time + weights.guide * guide
    )
    return LieTerms(identity, spatial, along_time, guide, total)


def _mean_square_step(grid: Tensor, dim: int) -> Tensor:  # []
    """Mean squared difference of neighbours along one axis; an axis of length one has none."""
    return grid.diff(dim=dim).square().mean() if grid.shape[dim] > 1 else grid.new_zeros(())

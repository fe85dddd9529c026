"""The colour field on a CPU in one pass over the reduced frame (`field.c`)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.kernels.color_field.reference import SINGULAR_DET
from libranet.kernels.native.library import call

_PLACES = 16
"""The 12 coefficients of a transform lie in so many places, a multiple of what the CPU loads at once."""


def apply_field(
    low: Tensor,  # [1, 3, h, w] in [0, 1], float32
    chromatic: Tensor,  # [1, 2, 12, D, gh, gw], guided by red and by green
    plane: Tensor,  # [1, 12, gh, gw], the temporal grid's centre
) -> tuple[Tensor, Tensor]:  # [1, 3, h, w] in [0, 1], [1, 3, h, w]
    """Restore the reduced frame by its grids' transforms, as `reference.apply_field` does."""
    _, _, coefficients, bins, *side = chromatic.shape
    if len(low) != 1 or low.dtype != torch.float32 or plane.shape != (1, coefficients, *side):
        raise ValueError(f"expected one frame in float32 and its grids, got {low.shape}, {plane.shape}")
    more = (0, _PLACES - coefficients)
    grid = F.pad(chromatic[0].float().permute(2, 3, 4, 0, 1), more).mul_(0.5).contiguous()  # [D, gh, gw, 2, 16]
    offset = F.pad(plane[0].float().permute(1, 2, 0), more).contiguous()  # [gh, gw, 16]
    low = low.contiguous()
    small, delta = torch.empty_like(low), torch.empty_like(low)
    arrays = (tensor.numpy() for tensor in (low, grid, offset, small, delta))
    call("apply_field", *arrays, *low.shape[2:], bins, *side, SINGULAR_DET)
    return small, delta

"""The whole colour field at once: slice, fuse, Cayley, apply."""

from torch import Tensor

from libranet.ops.affine_torch import apply_affine
from libranet.ops.cayley_torch import cayley
from libranet.ops.slicing_torch import slice_grid, slice_plane


def apply_field(
    low: Tensor,  # [B, 3, h, w] in [0, 1]
    chromatic: Tensor,  # [B, 2, 12, D, gh, gw], guided by red and by green
    plane: Tensor,  # [B, 12, gh, gw], the temporal grid's centre
    *,
    strength: float = 1.0,
) -> Tensor:  # [B, 3, h, w] in [0, 1]
    """Restore the reduced frame by the two grids' transforms."""
    guide = low * 2.0 - 1.0
    red, green = chromatic.unbind(1)
    fused = 0.5 * (slice_grid(red, guide[:, 0]) + slice_grid(green, guide[:, 1]))
    fused = (fused + slice_plane(plane, (low.shape[-2], low.shape[-1]))) * strength
    matrix, _ = cayley(fused[:, :9].unflatten(1, (3, 3)))
    return apply_affine(matrix, fused[:, 9:], low).clamp(0.0, 1.0)

"""Reading a bilateral grid at the pixels of a guide image.

Grid cells are sampled at their centres on every axis (`align_corners=False`) and the border is clamped, so that a
training crop and a 4K frame read the grid by the same rule.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def slice_grid(
    grid: Tensor,  # [B, C, D, gh, gw]
    guide: Tensor,  # [B, h, w] in [-1, 1], the coordinate along D
) -> Tensor:  # [B, C, h, w]
    """Interpolate trilinearly: x and y from the pixel's place in the frame, z from its guide value.

    Computed in float32 at least: sixteen bits cannot tell two neighbouring pixels of a 4K row apart.
    """
    if grid.dim() != 5 or guide.dim() != 3 or grid.shape[0] != guide.shape[0]:
        raise ValueError(
            f"expected grid [B, C, D, gh, gw] and guide [B, h, w], got {tuple(grid.shape)} and {tuple(guide.shape)}"
        )
    dtype = torch.promote_types(torch.promote_types(grid.dtype, guide.dtype), torch.float32)
    b, h, w = guide.shape
    y, x = (_pixel_centres(size, dtype, grid.device) for size in (h, w))
    coordinates = torch.stack([x.expand(b, h, w), y[:, None].expand(b, h, w), guide.to(dtype)], dim=-1)
    sampled = F.grid_sample(
        grid.to(dtype), coordinates[:, None], mode="bilinear", padding_mode="border", align_corners=False
    )
    return sampled[:, :, 0]


def slice_plane(
    plane: Tensor,  # [B, C, gh, gw]
    size: tuple[int, int],  # (h, w)
) -> Tensor:  # [B, C, h, w]
    """Interpolate one plane of a grid: what `slice_grid` gives where the guide sits exactly on that plane.

    The temporal grid is always read so: tau = 0 is the centre of plane T // 2 for odd T.
    """
    dtype = torch.promote_types(plane.dtype, torch.float32)
    return F.interpolate(plane.to(dtype), size=size, mode="bilinear", align_corners=False)


def _pixel_centres(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:  # [size] in (-1, 1)
    return (torch.arange(size, dtype=dtype, device=device) * 2 + 1) / size - 1

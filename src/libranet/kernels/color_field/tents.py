"""Reading a grid by Resize, products and sums: the form that every inference runtime can run.

x and y of a grid are regular, so `F.interpolate` reads them; along the colour axis, trilinear interpolation is a sum
over the bins, each weighted by a tent around its centre. A 5-D `grid_sample`, as in `reference.py`, fails in TensorRT,
OpenVINO, Core ML, ncnn and WebGPU.
"""

import torch
from torch import Tensor

from libranet.kernels.color_field.reference import slice_plane


def fuse_grids(
    low: Tensor,  # [B, 3, h, w] in [0, 1]
    chromatic: Tensor | None,  # [B, 2 * 12 * D, gh, gw], guided by red and by green
    plane: Tensor | None,  # [B, 12, gh, gw]
) -> Tensor:  # [B, 12, h, w]
    """c = (c_R + c_G) / 2 + c_t, as `reference.fuse_grids`. Grids are flat: some runtimes stop at five axes."""
    parts: list[Tensor] = []
    if chromatic is not None:
        red, green = (half.unflatten(1, (12, -1)) for half in chromatic.chunk(2, dim=1))
        guide = low * 2.0 - 1.0
        parts.append(0.5 * (slice_grid(red, guide[:, 0]) + slice_grid(green, guide[:, 1])))
    if plane is not None:
        parts.append(slice_plane(plane, (low.shape[-2], low.shape[-1])))
    return parts[0] + parts[1] if len(parts) > 1 else parts[0]


def slice_grid(
    grid: Tensor,  # [B, C, D, gh, gw]
    guide: Tensor,  # [B, h, w] in [-1, 1], the coordinate along D
) -> Tensor:  # [B, C, h, w]
    """Interpolate trilinearly, as `reference.slice_grid` does."""
    bins = grid.shape[2]
    size = (guide.shape[1], guide.shape[2])
    position = (guide[:, None].float() * (bins / 2) + (bins - 1) / 2).clamp(0.0, bins - 1.0)
    sampled = slice_plane(grid[:, :, 0], size) * tent(position)
    for index in range(1, bins):
        sampled = sampled + slice_plane(grid[:, :, index], size) * tent(position - index)
    return sampled


def tent(distance: Tensor) -> Tensor:
    """The weight of linear interpolation: 1 at distance zero, 0 from one on."""
    return torch.relu(1.0 - distance.abs())

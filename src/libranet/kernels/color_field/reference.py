"""The colour field: read the grids at every pixel, fuse them in the Lie algebra, map to GL(3) by Cayley, apply.

This is the network's own maths, in plain torch; `triton.py` computes the same in two kernels.

Grid cells are sampled at their centres on every axis (`align_corners=False`) and the border is clamped, so that a
training crop and a 4K frame read the grid by the same rule.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

SINGULAR_DET = 1e-6
"""Below this |det(I - M/2)| the map has no usable value and the identity is taken instead."""


def apply_field(
    low: Tensor,  # [B, 3, h, w] in [0, 1]
    chromatic: Tensor,  # [B, 2, 12, D, gh, gw], guided by red and by green
    plane: Tensor,  # [B, 12, gh, gw], the temporal grid's centre
) -> tuple[Tensor, Tensor]:  # [B, 3, h, w] in [0, 1], [B, 3, h, w]
    """Restore the reduced frames by their grids' transforms. Returns them and the correction: restored - low."""
    matrix, offset, _ = transforms(fuse_grids(low, chromatic, plane))
    restored = apply_affine(matrix, offset, low).clamp(0.0, 1.0)
    return restored, restored - low


def apply_field_out(
    low: Tensor,  # [B, 3, h, w] fp32
    chromatic: Tensor,  # [B, 2, 12, D, gh, gw]
    plane: Tensor,  # [B, 12, gh, gw]
    strength: Tensor,  # [B] fp32
    small: Tensor,  # [B, 3, h, w] fp32, written
    delta: Tensor,  # [B, 3, h, w] fp32, written: small - low
) -> None:
    """Restore the reduced frames by their grids' transforms, scaled by `strength`."""
    matrix, offset, _ = transforms(
        fuse_grids(low, chromatic * strength.view(-1, 1, 1, 1, 1, 1), plane * strength.view(-1, 1, 1, 1))
    )
    restored = apply_affine(matrix, offset, low).clamp(0.0, 1.0)
    small.copy_(restored)
    delta.copy_(restored - low)


def estimate_transmission(matrix: Tensor) -> Tensor:  # [B, 3, 3, h, w] -> [B, 1, h, w] in [0, 1]
    """Estimate t from A: dehazing multiplies by 1/t in three channels, so t = det(A)^(-1/3)."""
    a, b, c = (column.float() for column in matrix.unbind(2))
    det = (a * torch.linalg.cross(b, c, dim=1)).sum(dim=1, keepdim=True)
    return det.clamp_min(1e-6).pow(-1 / 3).clamp(0.0, 1.0)


def transforms(
    fused: Tensor,  # [B, 12, h, w], coefficients in the Lie algebra
    *,
    use_cayley: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:  # [B, 3, 3, h, w], [B, 3, h, w], []
    """Return A and b for coefficients, and how many pixels fell back to A = I."""
    algebra, offset = fused[:, :9].unflatten(1, (3, 3)), fused[:, 9:]
    if use_cayley:
        matrix, singular = cayley(algebra)
        return matrix, offset, singular.sum()
    eye = torch.eye(3, dtype=algebra.dtype, device=algebra.device)
    return algebra + eye[None, :, :, None, None], offset, torch.zeros((), device=algebra.device)


def fuse_grids(
    low: Tensor,  # [B, 3, h, w] in [0, 1]
    chromatic: Tensor | None,  # [B, 2, 12, D, gh, gw]
    plane: Tensor | None,  # [B, 12, gh, gw]
) -> Tensor:  # [B, 12, h, w]
    """c = (c_R + c_G) / 2 + c_t. Adding in the algebra stands for composing the transforms."""
    parts: list[Tensor] = []
    if chromatic is not None:
        red, green = chromatic.unbind(1)
        guide = low * 2.0 - 1.0
        parts.append(0.5 * (slice_grid(red, guide[:, 0]) + slice_grid(green, guide[:, 1])))
    if plane is not None:
        parts.append(slice_plane(plane, (low.shape[-2], low.shape[-1])))
    return torch.stack(parts).sum(0) if len(parts) > 1 else parts[0]


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


def cayley(
    matrix: Tensor,  # [B, 3, 3, ...]; B matrices, or one per pixel
) -> tuple[Tensor, Tensor]:  # [B, 3, 3, ...] float32 or float64, [B, ...] bool
    """Map M to A = (I - M/2)^-1 (I + M/2), and report where M was too close to singular.

    With N = I - M/2 the product equals 2 N^-1 - I, so one 3x3 inverse by cofactors is enough. M = 0 gives the
    identity to the last bit. Half precision input is computed in float32: the determinant is a difference of
    products and loses most of its digits in sixteen bits. At singular places A is the identity and no gradient flows.
    """
    if matrix.dim() < 3 or matrix.shape[1:3] != (3, 3):
        raise ValueError(f"expected matrices as [B, 3, 3, ...], got shape {tuple(matrix.shape)}")
    m = matrix if matrix.dtype == torch.float64 else matrix.float()
    half = m * -0.5
    (a, b, c), (d, e, f), (g, h, i) = (row.unbind(1) for row in half.unbind(1))
    a, e, i = a + 1, e + 1, i + 1

    # Cofactors of N, named by the entry of N they belong to.
    ca, cb, cc = e * i - f * h, f * g - d * i, d * h - e * g
    det = a * ca + b * cb + c * cc
    singular = det.abs() < SINGULAR_DET
    scale = 2.0 / det.masked_fill(singular, 1.0)

    inverse_rows = (
        (ca * scale - 1, (c * h - b * i) * scale, (b * f - c * e) * scale),
        (cb * scale, (a * i - c * g) * scale - 1, (c * d - a * f) * scale),
        (cc * scale, (b * g - a * h) * scale, (a * e - b * d) * scale - 1),
    )
    result = torch.stack([torch.stack(row, dim=1) for row in inverse_rows], dim=1)
    eye = torch.eye(3, dtype=m.dtype, device=m.device).view(1, 3, 3, *[1] * (m.dim() - 3))
    return torch.where(singular[:, None, None], eye, result), singular


def apply_affine(
    matrix: Tensor,  # [B, 3, 3, h, w]
    offset: Tensor,  # [B, 3, h, w]
    image: Tensor,  # [B, 3, h, w]
) -> Tensor:  # [B, 3, h, w]
    """Return A x + b at each pixel. Written as products and sums, so that A = I, b = 0 returns x to the last bit."""
    return (matrix * image[:, None]).sum(dim=2) + offset

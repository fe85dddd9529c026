"""The Cayley map from gl(3) to GL(3), in closed form."""

import torch
from torch import Tensor

SINGULAR_DET = 1e-6
"""Below this |det(I - M/2)| the map has no usable value and the identity is taken instead."""


def cayley(
    matrix: Tensor,  # [B, 3, 3, ...]; B matrices, or one per pixel
) -> tuple[Tensor, Tensor]:  # [B, 3, 3, ...] float32 or float64, [B, ...] bool
    """Map M to A = (I - M/2)^-1 (I + M/2), and say where M was too close to singular.

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
    scale = 2.0 / torch.where(singular, torch.ones_like(det), det)

    inverse_rows = (
        (ca * scale - 1, (c * h - b * i) * scale, (b * f - c * e) * scale),
        (cb * scale, (a * i - c * g) * scale - 1, (c * d - a * f) * scale),
        (cc * scale, (b * g - a * h) * scale, (a * e - b * d) * scale - 1),
    )
    result = torch.stack([torch.stack(row, dim=1) for row in inverse_rows], dim=1)
    eye = torch.eye(3, dtype=m.dtype, device=m.device).view(1, 3, 3, *[1] * (m.dim() - 3))
    return torch.where(singular[:, None, None], eye, result), singular

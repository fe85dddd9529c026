"""GroupNorm followed by GELU, and the affine form that a convolution's sums fold it into."""

import torch
import torch.nn.functional as F
from torch import Tensor


def residual_norm(
    x: Tensor,  # [N, C, h, w]
    weight: Tensor,  # [C]
    bias: Tensor,  # [C]
    groups: int,
    *,
    eps: float = 1e-5,
    activate: bool = True,
    residual: Tensor | None = None,  # [N, C, h, w]
    keep: Tensor | None = None,  # [N], the branch's factor; needed with a residual
) -> Tensor:  # [N, C, h, w]
    """GELU(GN(x)) or GN(x), or the residual plus `keep` times that: stochastic depth."""
    y = F.group_norm(x, groups, weight, bias, eps)
    y = F.gelu(y) if activate else y
    if residual is None or keep is None:
        return y
    return residual + y * keep[:, None, None, None]


def fold_sums(
    sums: Tensor,  # [B, tiles, 2, G]: sums and sums of squares
    weight: Tensor,  # [C]
    bias: Tensor,  # [C]
    count: int,  # values per group: pixels times channels of a group
    *,
    eps: float = 1e-5,
) -> Tensor:  # [B, 2, C]: factor and summand per channel
    """GroupNorm as y = factor * x + summand, from what the producer of x summed up."""
    total = sums.double().sum(1) / count  # [B, 2, G]
    mean, variance = total[:, 0], (total[:, 1] - total[:, 0] ** 2).clamp_min(0.0)
    rstd = (variance + eps).rsqrt()
    repeat = weight.shape[0] // sums.shape[-1]
    factor = rstd.repeat_interleave(repeat, 1) * weight.double()
    summand = bias.double() - mean.repeat_interleave(repeat, 1) * factor
    return torch.stack([factor, summand], dim=1).float()

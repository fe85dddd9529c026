"""GroupNorm, GELU and the residual connection of training, in plain torch."""

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
    keep: Tensor | None = None,  # [N]
) -> Tensor:  # [N, C, h, w]
    """GELU(GN(x)) or GN(x), or the residual plus `keep` times that.

    Args:
        groups: Groups of channels; a power of two for the kernel.
        activate: False leaves GELU out.
        residual: What the branch is added to.
        keep: Factor of each sample's branch, for stochastic depth; needed with a residual.
    """
    y = F.group_norm(x, groups, weight, bias, eps)
    y = F.gelu(y) if activate else y
    if residual is None or keep is None:
        return y
    return residual + y * keep[:, None, None, None]


def add_bias(
    x: Tensor,  # [N, C, h, w], from a convolution without its bias
    bias: Tensor,  # [C]
    residual: Tensor | None = None,  # [N, C, h, w]
) -> Tensor:  # [N, C, h, w]
    y = x + bias[:, None, None]
    return y if residual is None else y + residual

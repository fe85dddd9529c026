"""The pixel loss."""

import torch
from torch import Tensor


def charbonnier(prediction: Tensor, target: Tensor, *, epsilon: float = 1e-3) -> Tensor:  # []
    """Mean of sqrt(difference^2 + epsilon^2): L1 with a rounded tip."""
    dtype = torch.promote_types(prediction.dtype, torch.float32)  # sixteen bits cannot hold epsilon squared
    difference = prediction.to(dtype) - target.to(dtype)
    return torch.sqrt(difference.square() + epsilon**2).mean()

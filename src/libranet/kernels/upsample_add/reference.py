"""The network's last step in plain torch: frame + upsampled correction + shuffled residual, clamped."""

import torch.nn.functional as F
from torch import Tensor

from libranet.kernels.resample.reference import upsample


def upsample_add(
    frame: Tensor,  # [B, 3, H, W] fp32, data: it gets no gradient
    correction: Tensor,  # [B, 3, H / scale, W / scale] fp32
    residual: Tensor,  # [B, 3 * scale^2, H / scale, W / scale]
) -> Tensor:  # [B, 3, H, W] in [0, 1]
    """clamp(frame + upsample(correction) + pixel_shuffle(residual))."""
    height, width = frame.shape[-2:]
    scale = height // correction.shape[-2]
    return (frame + upsample(correction, (height, width)) + F.pixel_shuffle(residual, scale)).clamp(0.0, 1.0)

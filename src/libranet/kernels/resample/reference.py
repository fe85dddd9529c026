"""Resizing and padding of frames."""

import torch
import torch.nn.functional as F
from torch import Tensor


def downsample(
    image: Tensor,  # [B, 3, H, W] in [0, 1]
    size: tuple[int, int],  # (h, w)
) -> Tensor:  # [B, 3, h, w] in [0, 1], float32 at least
    """Reduce with a triangle filter as wide as the step, so that fine texture averages out instead of aliasing.

    The filter's weights sum to one only up to rounding; the clamp keeps its result inside the input's range.
    """
    dtype = torch.promote_types(image.dtype, torch.float32)
    small = F.interpolate(image.to(dtype), size=size, mode="bilinear", align_corners=False, antialias=True)
    return small.clamp(0.0, 1.0)


def upsample(
    image: Tensor,  # [B, C, h, w]
    size: tuple[int, int],  # (H, W)
) -> Tensor:  # [B, C, H, W]
    """Enlarge bilinearly between pixel centres."""
    return F.interpolate(image, size=size, mode="bilinear", align_corners=False)


def pad_to_multiple(
    image: Tensor,  # [B, C, H, W]
    multiple: int,
) -> Tensor:  # [B, C, H', W'], H' and W' multiples of `multiple`
    """Continue the image by reflection at the right and the bottom."""
    h, w = image.shape[-2:]
    bottom, right = -h % multiple, -w % multiple
    return F.pad(image, (0, right, 0, bottom), mode="reflect") if bottom or right else image

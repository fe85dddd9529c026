"""Resizing and padding of frames, in plain torch."""

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


def pick_frames(frames: Tensor, first: int, count: int) -> Tensor:  # [ring, ...] -> [count, ...]
    """Frames of a ring from slot `first` on."""
    return frames[[(first + index) % len(frames) for index in range(count)]]


def reduce_frames_out(
    frames: Tensor,  # [ring, H, W, 3] uint8
    out: Tensor,  # [B, size, size, 4] fp16, written, in [-1, 1]; the fourth channel is zero
    *,
    first: int = 0,
) -> None:
    """Reduce B frames of a ring, from slot `first` on, to the square that the encoders see."""
    b, size = out.shape[:2]
    picked = pick_frames(frames, first, b).permute(0, 3, 1, 2) / 255.0
    out[..., :3] = (downsample(picked, (size, size)) * 2.0 - 1.0).permute(0, 2, 3, 1)
    out[..., 3] = 0.0

"""Steadiness of a restored clip: tOF, the difference to the flow-warped previous frame, and sigma-PSNR."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.errors import InputError
from libranet.metrics.frame_pair import check_pair


def warp(
    image: Tensor,  # [3, H, W]
    flow: Tensor,  # [2, H, W], in pixels, x then y
) -> tuple[Tensor, Tensor]:  # [3, H, W], [H, W] bool
    """Fetch each pixel from `image` at its own place plus `flow`, bilinearly, and say where that was inside."""
    height, width = image.shape[1:]
    ys = torch.arange(height, device=image.device, dtype=torch.float32)[:, None] + flow[1]
    xs = torch.arange(width, device=image.device, dtype=torch.float32)[None, :] + flow[0]
    inside = (xs >= 0) & (xs <= width - 1) & (ys >= 0) & (ys <= height - 1)
    grid = torch.stack((2 * xs / max(width - 1, 1) - 1, 2 * ys / max(height - 1, 1) - 1), dim=-1)
    warped = F.grid_sample(image[None].float(), grid[None], mode="bilinear", padding_mode="border", align_corners=True)
    return warped[0], inside


def warp_error(
    image: Tensor,  # [3, H, W] in [0, 1], frame t
    previous: Tensor,  # [3, H, W] in [0, 1], frame t-1
    flow: Tensor,  # [2, H, W], where each pixel of frame t was in frame t-1
) -> float:
    """Mean |J_t - warp(J_{t-1})| over colours and the pixels whose origin lies inside the frame. 0 if there is none.

    The flow should come from the clear frames (or, without them, from the input), not from the restored ones: all
    models then answer for the same motion, and none can hide flicker in its own flow.
    """
    check_pair(image, previous)
    if flow.shape != (2, *image.shape[1:]):
        raise InputError(f"expected a flow of [2, {image.shape[1]}, {image.shape[2]}], got {tuple(flow.shape)}")
    if not bool(flow.any()):  # nothing moved: no interpolation, no rounding
        return float((image.float() - previous.float()).abs().mean())
    warped, inside = warp(previous, flow)
    count = int(inside.sum())
    if count == 0:
        return 0.0
    difference = (image.float() - warped).abs().sum(dim=0)
    return float(torch.where(inside, difference, difference.new_zeros(())).double().sum()) / (3 * count)


def sigma_psnr(values: Sequence[float]) -> float:
    """The population standard deviation of the PSNR of a clip's frames, in dB. NaN without frames."""
    if not values:
        return math.nan
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))

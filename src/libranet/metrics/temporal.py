"""Temporal consistency of a restored clip: tOF, the difference to the flow-warped previous frame, and sigma-PSNR."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from libranet.errors import InputError
from libranet.metrics.frame_pair import check_pair


def warp_error(
    image: Tensor,  # [3, H, W] in [0, 1], frame t
    warped: Tensor,  # [3, H, W] in [0, 1], frame t-1 warped to frame t
    inside: Tensor,  # [H, W] bool, where the warp found its origin inside frame t-1
) -> float:
    """Compute tOF: mean |J_t - warp(J_{t-1})| over colours and the pixels that are `inside`. 0 if there are none.

    Warp with `libranet.flow.warp_tensor`, along the flow of the clear frames (or, without them, of the input), not of
    the restored ones: all models then answer for the same motion, and none can hide flicker in its own flow.
    """
    check_pair(image, warped)
    if inside.shape != image.shape[1:]:
        raise InputError(f"expected a mask of {tuple(image.shape[1:])}, got {tuple(inside.shape)}")
    count = int(inside.sum())
    if count == 0:
        return 0.0
    difference = (image.float() - warped.float()).abs().sum(dim=0)
    return float(torch.where(inside, difference, difference.new_zeros(())).double().sum()) / (3 * count)


def sigma_psnr(values: Sequence[float]) -> float:
    """Compute the population standard deviation of the PSNR of a clip's frames, in dB. NaN without frames."""
    if not values:
        return math.nan
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))

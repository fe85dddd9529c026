"""BRISQUE: quality guessed from a frame's statistics by a regression trained on LIVE (Mittal et al. 2012).

Lower is better. The features are OpenCV's, the regression is the published one.
"""

from collections.abc import Mapping

import cv2
import torch
from torch import Tensor

from libranet.errors import InputError, MissingDependencyError
from libranet.metrics.frame_pair import check_frame

_LEAST = 16


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


def brisque_features(
    image: Tensor,  # [3, H, W] in [0, 1]
) -> Tensor:  # [36], float64
    """Eighteen statistics of the 8-bit frame at full and eighteen at half size, as OpenCV computes them."""
    check_frame(image)
    if min(image.shape[1:]) < _LEAST:
        raise InputError(f"BRISQUE needs frames of at least {_LEAST}x{_LEAST}, got {image.shape[2]}x{image.shape[1]}")
    if not hasattr(cv2, "quality"):
        raise MissingDependencyError(
            "BRISQUE needs OpenCV with its quality module: install opencv-contrib-python-headless and no other OpenCV"
        )
    bgr = (image.flip(0) * 255).round().clamp(0, 255).to("cpu", torch.uint8).permute(1, 2, 0).contiguous()
    features = cv2.quality.QualityBRISQUE_computeFeatures(bgr.numpy())  # type: ignore[attr-defined]
    return torch.from_numpy(features.ravel()).double()

"""Seven metrics of what a frozen detector and segmenter find in a frame. Their formulas are in docs/evaluation.md."""

import math
from dataclasses import dataclass

import cv2
import numpy as np
from torch import Tensor

from libranet.errors import InputError

MIN_CONFIDENCE = 0.25
"""Detections below this do not count."""
HIGH_CONFIDENCE = 0.5
SMALL_SIDE = 32.0
REFERENCE_SIDE = 640.0
"""An object is small when its area is below 32x32 once the frame's long side is scaled to 640, the detector's view."""


@dataclass(frozen=True)
class DetectionMetrics:
    """One frame's detections in four numbers."""

    count: int
    """Det: how many objects."""
    confidence: float
    """Conf: their mean confidence; NaN without objects."""
    high_confidence: float
    """HighConf: the share with a confidence of at least 0.5; NaN without objects."""
    small: int
    """SmallObj: how many small objects."""


@dataclass(frozen=True)
class SegmentationMetrics:
    """One frame's class map in three numbers."""

    boundary: float
    """BdryE: the share of pixels whose right or lower neighbour belongs to another class."""
    entropy: float
    """ClassH: entropy of the class shares, divided by the logarithm of the number of classes."""
    components: int
    """NumComp: connected regions of one class, diagonal neighbours included."""


def measure_detections(
    boxes: Tensor,  # [N, 4] in pixels: left, top, right, bottom
    scores: Tensor,  # [N] in [0, 1]
    *,
    width: int,
    height: int,
) -> DetectionMetrics:
    """Count what a detector found in a frame of that size."""
    if boxes.shape != (len(scores), 4):
        raise InputError(f"expected boxes as [{len(scores)}, 4], got {tuple(boxes.shape)}")
    kept = scores >= MIN_CONFIDENCE
    boxes, scores = boxes[kept].double(), scores[kept].double()
    if len(scores) == 0:
        return DetectionMetrics(0, math.nan, math.nan, 0)
    scale = REFERENCE_SIDE / max(width, height)
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]) * scale**2
    return DetectionMetrics(
        count=len(scores),
        confidence=float(scores.mean()),
        high_confidence=float((scores >= HIGH_CONFIDENCE).double().mean()),
        small=int((area < SMALL_SIDE**2).sum()),
    )


def measure_segmentation(
    classes: np.ndarray,  # [H, W], integers 0 .. number - 1
    number: int,
) -> SegmentationMetrics:
    """Describe a class map. `number` is how many classes the segmenter knows."""
    if classes.ndim != 2 or number < 2 or int(classes.max()) >= number or int(classes.min()) < 0:
        raise InputError(f"expected a class map [H, W] with values below {number}, got shape {classes.shape}")
    edge = np.zeros(classes.shape, dtype=bool)
    edge[:, :-1] |= classes[:, :-1] != classes[:, 1:]
    edge[:-1] |= classes[:-1] != classes[1:]
    shares = np.bincount(classes.ravel(), minlength=number) / classes.size
    present = np.flatnonzero(shares)
    entropy = -float(np.sum(shares[present] * np.log(shares[present]))) / math.log(number)
    components = sum(cv2.connectedComponents((classes == c).astype(np.uint8), connectivity=8)[0] - 1 for c in present)
    return SegmentationMetrics(float(edge.mean()), max(entropy, 0.0), int(components))

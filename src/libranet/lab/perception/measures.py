"""What frozen networks make of a restored frame: seven metrics of a detector and a segmenter, and MUSIQ.

Their formulas are in docs/metrics.md. `libranet eval` finds this module when an option names such a network.
"""

import math
from pathlib import Path

import cv2
import numpy as np
from torch import Tensor

from libranet.errors import InputError
from libranet.evaluation.metric_table import Need
from libranet.lab.perception.detectors import MIN_CONFIDENCE, Detector, open_detector
from libranet.lab.perception.musiq import MUSIQ_FILE, Musiq, read_musiq_weights
from libranet.lab.perception.segmenters import TransformersSegmenter
from libranet.thirdparty import find_model

HIGH_CONFIDENCE = 0.5
SMALL_SIDE = 32.0
REFERENCE_SIDE = 640.0
"""An object is small when its area is below 32x32 once the frame's long side is scaled to 640, the detector's view."""


def open_metric(
    need: Need, place: Path, *, device: str = "cpu", cache: Path | None = None
) -> "Musiq | DetectionMetric | SegmentationMetric":
    """Open the network that an option of `libranet eval` names."""
    if need == "musiq":
        return Musiq(read_musiq_weights(place), source=place.name, device=device)
    if need == "detector":
        return DetectionMetric(open_detector(place, device, cache=cache))
    return SegmentationMetric(TransformersSegmenter(place, device))


def why_missing(need: Need) -> str:
    """Say in one sentence how to name such a network."""
    if need == "musiq":
        repository = "https://huggingface.co/chaofengc/IQA-PyTorch-Weights"
        return f"no weights given: use --musiq with a file; KonIQ's are at {repository}, file {MUSIQ_FILE}"
    if need == "detector":
        return (
            "no detector given: use --detector with yolov8n, yolov8s or fastestdet from the cache, or with a file; "
            f"the paper's is yolov8x ({find_model('yolov8x').source})"
        )
    source = find_model("segformer-b5").source
    return f"no segmenter given: use --segmenter with a folder; the paper's is segformer-b5 ({source})"


class DetectionMetric:
    """How many objects a detector finds in a frame, and how sure it is."""

    def __init__(self, detector: Detector) -> None:
        self._detector, self.name = detector, detector.name

    def measure(self, image: Tensor) -> dict[str, float]:  # [3, H, W] in [0, 1]
        """Det, Conf, HighConf and SmallObj."""
        boxes, scores, _ = self._detector.detect(image)
        return measure_detections(boxes, scores, width=image.shape[2], height=image.shape[1])


class SegmentationMetric:
    """How a segmenter divides a frame."""

    def __init__(self, segmenter: TransformersSegmenter) -> None:
        self._segmenter, self.name = segmenter, segmenter.name

    def measure(self, image: Tensor) -> dict[str, float]:  # [3, H, W] in [0, 1]
        """BdryE, ClassH and NumComp."""
        return measure_segmentation(self._segmenter.segment(image), self._segmenter.classes)


def measure_detections(
    boxes: Tensor,  # [N, 4] in pixels: left, top, right, bottom
    scores: Tensor,  # [N] in [0, 1]
    *,
    width: int,
    height: int,
) -> dict[str, float]:
    """Count what a detector found in a frame of that size.

    Returns:
        `det`, the number of objects; `conf`, their mean confidence, and `highconf`, the share with at least 0.5, both
        NaN without objects; `smallobj`, the number of small objects.
    """
    if boxes.shape != (len(scores), 4):
        raise InputError(f"expected boxes as [{len(scores)}, 4], got {tuple(boxes.shape)}")
    kept = scores >= MIN_CONFIDENCE
    boxes, scores = boxes[kept].double(), scores[kept].double()
    if len(scores) == 0:
        return {"det": 0, "conf": math.nan, "highconf": math.nan, "smallobj": 0}
    scale = REFERENCE_SIDE / max(width, height)
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]) * scale**2
    return {
        "det": len(scores),
        "conf": float(scores.mean()),
        "highconf": float((scores >= HIGH_CONFIDENCE).double().mean()),
        "smallobj": int((area < SMALL_SIDE**2).sum()),
    }


def measure_segmentation(
    classes: np.ndarray,  # [H, W], integers 0 .. number - 1
    number: int,
) -> dict[str, float]:
    """Describe a class map. `number` is how many classes the segmenter knows.

    Returns:
        `bdrye`, the share of pixels whose right or lower neighbour belongs to another class; `classh`, the entropy of
        the class shares, divided by the logarithm of the number of classes; `numcomp`, the number of connected regions
        of one class, diagonal neighbours included.
    """
    if classes.ndim != 2 or number < 2 or int(classes.max()) >= number or int(classes.min()) < 0:
        raise InputError(f"expected a class map [H, W] with values below {number}, got shape {classes.shape}")
    edge = np.zeros(classes.shape, dtype=bool)
    edge[:, :-1] |= classes[:, :-1] != classes[:, 1:]
    edge[:-1] |= classes[:-1] != classes[1:]
    shares = np.bincount(classes.ravel(), minlength=number) / classes.size
    present = np.flatnonzero(shares)
    entropy = -float(np.sum(shares[present] * np.log(shares[present]))) / math.log(number)
    components = sum(cv2.connectedComponents((classes == c).astype(np.uint8), connectivity=8)[0] - 1 for c in present)
    return {"bdrye": float(edge.mean()), "classh": max(entropy, 0.0), "numcomp": int(components)}

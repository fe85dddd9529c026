"""Average precision of a detector on boxes that people drew: what dehazing is worth to a machine that looks."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from libranet.errors import InputError
from libranet.lab.perception.detectors import Detector

COCO_CLASSES = {"person": 0, "bicycle": 1, "car": 2, "motorbike": 3, "bus": 5}
"""The classes that boxes may have, by their numbers in COCO."""
LEAST_CONFIDENCE = 0.01  # a precision-recall curve needs unsure detections, too
LEAST_OVERLAP = 0.5  # intersection over union at which a detection has found a box
RESAMPLINGS = 1000

Box = tuple[str, bool, float, float, float, float]
"""Class, whether it is difficult, left, top, right, bottom in pixels."""
FrameValues = Mapping[str, float]
"""A frame's columns: `boxes.CLASS` is how many boxes it has, `hit.CLASS.N` and `false.CLASS.N` are confidences."""


def read_boxes(path: Path) -> dict[str, list[Box]]:
    """Read boxes by the name of their photo, without suffix."""
    try:
        content = json.loads(path.read_text())
        found = {
            Path(name).stem if Path(name).suffix.lower() in (".jpg", ".jpeg", ".png") else name: [
                (str(label), bool(difficult), *map(float, sides)) for label, difficult, *sides in boxes
            ]
            for name, boxes in content.items()
        }
        wrong = next((box for boxes in found.values() for box in boxes if len(box) != 6), None)
        unknown = next((box[0] for boxes in found.values() for box in boxes if box[0] not in COCO_CLASSES), None)
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path} does not hold boxes ({error}): expected {_FORM}") from None
    if wrong or unknown:
        raise InputError(f"{path} does not hold boxes (got {wrong or unknown!r}): expected {_FORM}")
    return found  # type: ignore[return-value]  # six parts, as was checked


_FORM = f"photo -> [class, difficult, left, top, right, bottom] with classes {', '.join(COCO_CLASSES)}"


class KnownObjects:
    """Measures restored frames against the boxes of their clip."""

    def __init__(self, detector: Detector, boxes: Mapping[str, Sequence[Box]]) -> None:
        self._detector, self._boxes = detector, boxes

    def measure(self, clip: str, image: Tensor) -> dict[str, float]:  # [3, H, W] in [0, 1]
        """The columns of one frame."""
        boxes, scores, labels = self._detector.detect(image, least=LEAST_CONFIDENCE)
        found: dict[str, float] = {}
        for name, number in COCO_CLASSES.items():
            mine = [box for box in self._boxes[clip] if box[0] == name]
            chosen = labels == number
            found |= match_boxes(name, mine, boxes[chosen], scores[chosen])
        return found


def match_boxes(
    name: str,
    truth: Sequence[Box],
    boxes: Tensor,  # [N, 4]
    scores: Tensor,  # [N]
) -> dict[str, float]:
    """Match detections of one class, best first, each with the box that it overlaps most.

    As in PASCAL VOC: a second detection of a box is false; difficult boxes count neither as found nor as missed.
    """
    values: dict[str, float] = {f"boxes.{name}": sum(not box[1] for box in truth)}
    sides = torch.tensor([box[2:] for box in truth]).reshape(-1, 4)
    taken: set[int] = set()
    for rank, index in enumerate(scores.argsort(descending=True, stable=True).tolist()):
        overlaps = _overlap(boxes[index].to(sides), sides)
        best = int(overlaps.argmax()) if len(truth) else -1
        if best < 0 or overlaps[best] < LEAST_OVERLAP or (best in taken and not truth[best][1]):
            values[f"false.{name}.{rank}"] = float(scores[index])
        elif not truth[best][1]:
            taken.add(best)
            values[f"hit.{name}.{rank}"] = float(scores[index])
    return values


def _overlap(box: Tensor, others: Tensor) -> Tensor:  # [4], [N, 4] -> [N]
    """Intersection over union."""
    corner, end = torch.maximum(box[:2], others[:, :2]), torch.minimum(box[2:], others[:, 2:])
    shared = (end - corner).clamp_min(0).prod(dim=1)
    areas = [(sides[..., 2:] - sides[..., :2]).prod(dim=-1) for sides in (box, others)]
    return shared / (areas[0] + areas[1] - shared).clamp_min(1e-9)


def average_precision(frames: Sequence[FrameValues]) -> float:
    """Mean over the classes that have boxes of the area under the precision-recall curve (VOC 2010, all points)."""
    return _mean_precision([_sorted_classes(frame) for frame in frames])


def resample(
    models: Sequence[Sequence[FrameValues]], measure: Callable[[list[float]], float], *, seed: int = 0
) -> tuple[float, float]:
    """Bootstrap over photos: the 95 % interval of a figure that is made of the average precisions of models.

    Args:
        models: The frames of each model, in one order: the same photos are drawn for all.
        measure: The figure, of the precisions in the order of `models`.
    """
    prepared = [[_sorted_classes(frame) for frame in frames] for frames in models]
    random, count = np.random.default_rng(seed), len(prepared[0])
    values = []
    for _ in range(RESAMPLINGS):
        drawn = random.integers(0, count, count)
        values.append(measure([_mean_precision([frames[i] for i in drawn]) for frames in prepared]))
    low, high = np.nanpercentile(values, (2.5, 97.5))
    return float(low), float(high)


def _sorted_classes(frame: FrameValues) -> dict[str, tuple[float, np.ndarray]]:
    """Number of boxes, and confidences with a 1 for hits, by class."""
    found = {}
    for name in COCO_CLASSES:
        rows = [
            (value, float(kind == "hit"))
            for kind in ("hit", "false")
            for key, value in frame.items()
            if key.startswith(f"{kind}.{name}.")
        ]
        found[name] = (frame.get(f"boxes.{name}", 0.0), np.array(rows).reshape(-1, 2))
    return found


def _mean_precision(frames: Sequence[dict[str, tuple[float, np.ndarray]]]) -> float:
    values = []
    for name in COCO_CLASSES:
        boxes = sum(frame[name][0] for frame in frames)
        if boxes:
            rows = np.concatenate([frame[name][1] for frame in frames])
            values.append(_area(rows[np.argsort(-rows[:, 0], kind="stable"), 1], boxes))
    return float(np.mean(values)) if values else float("nan")


def _area(hits: np.ndarray, boxes: float) -> float:  # [N], 1 or 0, best first
    right = np.cumsum(hits)
    precision = right / np.arange(1, len(hits) + 1)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]  # the best precision at this recall or a higher one
    return float((envelope * hits).sum() / boxes)

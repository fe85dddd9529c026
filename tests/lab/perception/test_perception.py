"""Detection and segmentation metrics on hand-made results."""

import math

import numpy as np
import pytest
import torch

from libranet.errors import InputError
from libranet.lab.perception.measures import measure_detections, measure_segmentation


def test_detections_by_hand() -> None:
    boxes = torch.tensor([[0, 0, 400, 300], [10, 10, 60, 60], [0, 0, 9, 9], [5, 5, 7, 7]], dtype=torch.float32)
    scores = torch.tensor([0.9, 0.5, 0.3, 0.1])
    found = measure_detections(boxes, scores, width=1280, height=720)  # at half scale the 50x50 box is 25x25: small
    assert found["det"] == 3
    assert found["conf"] == pytest.approx((0.9 + 0.5 + 0.3) / 3)
    assert found["highconf"] == pytest.approx(2 / 3)
    assert found["smallobj"] == 2


def test_small_is_relative_to_the_detectors_view() -> None:
    box, score = torch.tensor([[0.0, 0.0, 100.0, 100.0]]), torch.tensor([0.8])
    assert measure_detections(box, score, width=640, height=360)["smallobj"] == 0
    assert measure_detections(box, score, width=3840, height=2160)["smallobj"] == 1


def test_no_detections() -> None:
    found = measure_detections(torch.zeros(0, 4), torch.zeros(0), width=64, height=64)
    assert (found["det"], found["smallobj"]) == (0, 0)
    assert math.isnan(found["conf"])
    assert math.isnan(found["highconf"])


def test_two_halves() -> None:
    classes = np.zeros((10, 20), dtype=np.int16)
    classes[:, 10:] = 1
    found = measure_segmentation(classes, 4)
    assert found["bdrye"] == pytest.approx(10 / 200)
    assert found["classh"] == pytest.approx(math.log(2) / math.log(4))
    assert found["numcomp"] == 2


def test_diagonal_neighbours_are_one_region() -> None:
    classes = np.zeros((4, 4), dtype=np.int16)
    classes[1, 1] = classes[2, 2] = 3
    assert measure_segmentation(classes, 5)["numcomp"] == 2
    classes[2, 2], classes[3, 3] = 0, 3
    assert measure_segmentation(classes, 5)["numcomp"] == 3


def test_one_class_has_no_entropy_and_no_boundary() -> None:
    found = measure_segmentation(np.full((5, 5), 2, dtype=np.int16), 3)
    assert found == {"bdrye": 0.0, "classh": 0.0, "numcomp": 1}


def test_bad_maps_are_refused() -> None:
    with pytest.raises(InputError, match="values below 3"):
        measure_segmentation(np.full((5, 5), 3, dtype=np.int16), 3)
    with pytest.raises(InputError, match=r"\[2, 4\]"):
        measure_detections(torch.zeros(3, 4), torch.zeros(2), width=10, height=10)

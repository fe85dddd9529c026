"""Dropping double detections."""

import torch
from torch import Tensor


def suppress_doubles(
    boxes: Tensor,  # [N, 4] left, top, right, bottom
    scores: Tensor,  # [N]
    labels: Tensor,  # [N]
    limit: float,
) -> Tensor:  # indices of the boxes to keep, best first
    """Greedy non-maximum suppression within each class: a box goes if it overlaps a better one by more than `limit`."""
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    order, kept = scores.argsort(descending=True), []
    while len(order):
        best, rest = order[0], order[1:]
        kept.append(best)
        left_top = torch.maximum(boxes[best, :2], boxes[rest, :2])
        right_bottom = torch.minimum(boxes[best, 2:], boxes[rest, 2:])
        overlap = (right_bottom - left_top).clamp_min(0).prod(dim=1)
        iou = overlap / (area[best] + area[rest] - overlap).clamp_min(1e-9)
        order = rest[(iou <= limit) | (labels[rest] != labels[best])]
    return torch.stack(kept) if kept else torch.zeros(0, dtype=torch.long)

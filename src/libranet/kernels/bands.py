"""Antialiased reductions of one axis as banded matrices, cut into the blocks that programs read."""

import torch
import torch.nn.functional as F
from torch import Tensor


def resize_matrix(size: int, target: int) -> Tensor:  # [size, target] fp32
    """The antialiased reduction of one axis as a matrix: what it makes of the unit matrix."""
    eye = torch.eye(size)[None, None]
    return F.interpolate(eye, size=(size, target), mode="bilinear", align_corners=False, antialias=True)[0, 0]


def band_blocks(
    matrix: Tensor,  # [size in, size out]
    block: int,
    step: int,
    *,
    align: int,
) -> tuple[Tensor, Tensor]:  # [blocks] int32; [blocks, steps, step, block] fp16
    """Where each block of outputs begins to read, and its weights from there on."""
    spans = []
    for columns in matrix.split(block, dim=1):
        used = (columns != 0).any(1).nonzero()[:, 0]
        spans.append((int(used[0]) // align * align, int(used[-1]) + 1))
    steps = max(-(-(end - start) // step) for start, end in spans)
    weights = torch.zeros(len(spans), steps * step, block)
    for number, (start, end) in enumerate(spans):
        part = matrix[start:end, number * block : (number + 1) * block]
        weights[number, : end - start, : part.shape[1]] = part
    return torch.tensor([start for start, _ in spans], dtype=torch.int32), weights.unflatten(1, (steps, step)).half()

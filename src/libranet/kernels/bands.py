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
    colours: bool = False,
) -> tuple[Tensor, Tensor]:  # [blocks] int32; [blocks, steps, step, block] fp16
    """Where each block of outputs begins to read, and its weights from there on.

    With `colours`, inputs are pixels of three bytes, and `step` and `align` count bytes. Outputs are groups of red,
    green, blue and nothing: [blocks, steps, step, block * 4]. Only the band is laid out: the whole matrix of a 4K frame
    would have 12 million numbers, and looking through them took most of a first frame's preparation.
    """
    wide, deep = (4, 3) if colours else (1, 1)
    spans = []
    for columns in matrix.split(block, dim=1):
        used = (columns != 0).any(1).nonzero()[:, 0]
        first, end = int(used[0]), int(used[-1]) + 1
        spans.append((deep * first // align * align, first, end))
    steps = max(-(-(deep * end - start) // step) for start, _, end in spans)
    weights = torch.zeros(len(spans), steps * step, block * wide)
    for number, (start, first, end) in enumerate(spans):
        part = matrix[first:end, number * block : (number + 1) * block]
        if colours:
            part = torch.einsum("po,cd->pcod", part, torch.eye(3, 4)).reshape(deep * len(part), -1)
        begin = deep * first - start
        weights[number, begin : begin + len(part), : part.shape[1]] = part
    return torch.tensor([start for start, _, _ in spans], dtype=torch.int32), weights.unflatten(1, (steps, step)).half()

"""Reducing frames by matrix products and a convolution: the form that every inference runtime can run.

Many runtimes have no antialiased Resize. Its weights are tents as wide as the step, so it is a product with one matrix
per axis, and for a whole step a strided convolution.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.kernels.color_field.tents import tent

COLOURS = 3


def downsample(
    image: Tensor,  # [B, C, H, W] in [0, 1]
    size: tuple[int, int],  # (h, w)
) -> Tensor:  # [B, C, h, w] float32 in [0, 1]
    """Reduce with a triangle filter, as `reference.downsample` does, by one matrix product per axis."""
    rows, columns = (tent_matrix(image.shape[axis], size[axis + 2], image) for axis in (-2, -1))
    return (rows @ (image.float() @ columns.transpose(0, 1))).clamp(0.0, 1.0)


def tent_matrix(
    length: int,
    reduced: int,
    like: Tensor,
) -> Tensor:  # [reduced, length] float32, rows sum to one
    """The weights of the triangle filter along one axis. `length` may be a traced size."""
    step = torch.as_tensor(length / reduced, dtype=torch.float32, device=like.device)
    centres = (torch.arange(reduced, device=like.device, dtype=torch.float32) + 0.5) * step
    places = torch.arange(length, device=like.device, dtype=torch.float32) + 0.5
    weights = tent((places[None] - centres[:, None]) / step.clamp(min=1.0))
    return weights / weights.sum(dim=1, keepdim=True)


def reduce_by(
    image: Tensor,  # [B, 3, H, W] in [0, 1], H and W multiples of `step`
    step: int,
) -> Tensor:  # [B, 3, H / step, W / step] float32 in [0, 1]
    """Reduce by a whole step, as `reference.downsample` does: a strided convolution with tents.

    Taps outside the image count as zero, and dividing by the weight that is left inside makes up for them.
    """
    weights = [max(0.0, 1.0 - abs(place + 0.5 - step / 2) / step) for place in range(-step, 2 * step)]
    padding = step - weights.count(0.0) // 2
    taps = torch.tensor([weight for weight in weights if weight], device=image.device)
    kernel = (taps[:, None] * taps).repeat(COLOURS, 1, 1, 1)
    sums = F.conv2d(image.float(), kernel, stride=step, padding=padding, groups=COLOURS)
    ones = torch.ones_like(image[:1, :1], dtype=torch.float32)
    rows = F.conv2d(ones[..., :1], taps.view(1, 1, -1, 1), stride=(step, 1), padding=(padding, 0))
    columns = F.conv2d(ones[..., :1, :], taps.view(1, 1, 1, -1), stride=(1, step), padding=(0, padding))
    return (sums / (rows * columns)).clamp(0.0, 1.0)


def continue_to_multiple(
    image: Tensor,  # [B, C, H, W]
    multiple: int,
) -> Tensor:  # [B, C, H', W'], H' and W' multiples of `multiple`
    """Continue by reflection, as `reference.pad_to_multiple` does, by reading rows and columns.

    The size may be unknown when the graph is made, so there is no branch on it.
    """
    for axis in (2, 3):
        length = image.shape[axis]
        places = torch.arange(length + (-length) % multiple, device=image.device)
        image = image.index_select(axis, (length - 1) - (places - (length - 1)).abs())
    return image

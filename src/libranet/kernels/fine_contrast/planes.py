"""The passes of fine contrast on a CPU (`planes.c`), as `reference` has them."""

import numpy as np
import torch
from torch import Tensor

from libranet.kernels.fine_contrast.reference import GRAIN, STEP, TINY, Room
from libranet.kernels.native.library import call


def contrast_cells(luma: Tensor, side: int) -> tuple[Tensor, Tensor]:
    height, width = luma.shape
    means = np.empty((2, -(-height // side), -(-width // side)), np.float32)
    call("contrast_cells", luma.contiguous().numpy(), *means, height, width, side, *means.shape[1:])
    mean, square = torch.from_numpy(means)
    return mean, square


def raise_contrast(luma: Tensor, room: Room, maps: tuple[Tensor, Tensor], side: int) -> Tensor:
    change = torch.empty_like(luma, memory_format=torch.contiguous_format)
    planes = (one.contiguous().numpy() for one in (luma, *room, *maps, change))
    call("raise_contrast", *planes, *luma.shape, side, *maps[0].shape, max(1, side // STEP), GRAIN, TINY)
    return change

"""Quieting the change of a plane of whole codes on a CPU (`planes.c`), as `reference` does.

A plane has one channel, 8 or 16 bits, and at least a block each way.
"""

import numpy as np
import torch
from torch import Tensor

from libranet.kernels.native.library import call
from libranet.kernels.quiet_change.reference import BLOCK, HOLD, KEPT, Maps, Memory

_WIDE = {torch.uint8: 0, torch.uint16: 1}


def look_at_blocks(before: Tensor, after: Tensor, memory: Memory | None) -> tuple[Tensor, Tensor, Tensor | None]:
    height, width = before.shape[-2:]
    rows, columns = -(-height // BLOCK), -(-width // BLOCK)
    blocks = np.empty((4, rows, columns), np.float32)
    usual = None if memory is None else memory.usual.numpy()
    samples = (plane.contiguous().numpy() for plane in (before, after))
    call("look_at_blocks", *samples, _WIDE[before.dtype], usual, *blocks,
         height, width, rows, columns)  # fmt: skip
    found = torch.from_numpy(blocks)[:, None, None]  # means, change, moved, texture: [1, 1, rows, columns] each
    return found[1], found[3], None if memory is None else found[2]


def quiet_plane(before: Tensor, after: Tensor, memory: Memory | None, maps: Maps, peak: float) -> tuple[Tensor, Memory]:
    change, share, kept = maps
    height, width = before.shape[-2:]
    if memory is None or kept is None:
        memory, kept = Memory(*(torch.empty(1, 1, height, width) for _ in range(3))), None
    result = torch.empty(after.shape, dtype=after.dtype)
    floats = (memory.usual, memory.change, memory.written, change.contiguous(), share.contiguous())
    stays = None if kept is None else kept.contiguous().numpy()
    samples = (plane.contiguous().numpy() for plane in (before, after, result))
    call("quiet_plane", *samples, _WIDE[before.dtype],
         *(one.numpy() for one in floats), stays, height, width, *change.shape[-2:], float(peak),
         (HOLD - 0.5) / KEPT)  # fmt: skip
    return result, memory

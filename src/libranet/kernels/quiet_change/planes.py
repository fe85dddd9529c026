"""Quieting the change of a plane of whole codes on a CPU (`planes.c`), as `reference` does."""

import numpy as np
import torch
from torch import Tensor

from libranet.kernels.native.library import call, level
from libranet.kernels.quiet_change.reference import BLOCK, HOLD, KEPT, Blocks, Memory

_WIDE = {torch.uint8: 0, torch.uint16: 1}


def covers(plane: Tensor) -> bool:  # [1, c, h, w]
    """Whether the kernels take such a plane here."""
    small = min(plane.shape[-2:]) < BLOCK
    return plane.device.type == "cpu" and plane.dtype in _WIDE and plane.shape[1] == 1 and not small and bool(level())


def look_at_blocks(before: Tensor, after: Tensor, memory: Memory | None) -> Blocks:
    height, width = before.shape[-2:]
    rows, columns = -(-height // BLOCK), -(-width // BLOCK)
    blocks = np.empty((4, rows, columns), np.float32)
    own_means, change, moved, texture = blocks
    usual = None if memory is None else memory.usual.numpy()
    samples = (_samples(plane) for plane in (before, after))
    call("look_at_blocks", *samples, _WIDE[before.dtype], usual, own_means, change, moved, texture,
         height, width, rows, columns)  # fmt: skip
    found = torch.from_numpy(blocks)[:, None, None]  # [4, 1, 1, rows, columns]
    return Blocks(found[1], found[3], None if memory is None else found[2])


def quiet_plane(
    before: Tensor,
    after: Tensor,
    memory: Memory | None,
    change: Tensor,
    share: Tensor,
    kept: Tensor | None,
    *,
    peak: float,
) -> tuple[Tensor, Memory]:
    height, width = before.shape[-2:]
    if memory is None or kept is None:
        memory, kept = Memory(*(torch.empty(1, 1, height, width) for _ in range(3))), None
    result = torch.empty(after.shape, dtype=after.dtype)
    maps = (memory.usual, memory.change, memory.written, change.contiguous(), share.contiguous())
    stays = None if kept is None else kept.contiguous().numpy()
    call("quiet_plane", _samples(before), _samples(after), _samples(result), _WIDE[before.dtype],
         *(one.numpy() for one in maps), stays, height, width, *change.shape[-2:], float(peak),
         (HOLD - 0.5) / KEPT)  # fmt: skip
    return result, memory


def _samples(plane: Tensor) -> np.ndarray:
    return plane.contiguous().numpy()

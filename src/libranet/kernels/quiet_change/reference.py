"""One plane of a frame whose change is quieted: what `engine.quiet_change` needs to see of it, and what is written.

Shares are maps of blocks; at a pixel counts what lies between the blocks around it.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

KEPT = 0.9  # share of the mean that stays in a place that does not change: about ten frames count
HOLD = 0.75  # codes by which the mean may leave the value that is written, where nothing changes
BLOCK = 4  # pixels of the squares in which frames are compared: single pixels are noise
Maps = tuple[Tensor, Tensor, Tensor | None]
"""The change in blocks, how much of it counts in the place of each pixel's own, and how much of the memory stays: none
of a first frame's."""


@dataclass
class Memory:
    """What is remembered of one plane. `quiet_plane` changes it in place."""

    usual: Tensor  # [1, c, h, w] fp32, the mean of its samples
    change: Tensor  # the mean of its change
    written: Tensor  # the change of the last frame, rounded


def look_at_blocks(
    before: Tensor,  # [1, c, h, w], samples of any type
    after: Tensor,  # the same, restored
    memory: Memory | None,
) -> tuple[Tensor, Tensor, Tensor | None]:  # [1, c, rows, columns] and [1, 1, rows, columns] twice
    """Return means over blocks: of the change, of the largest distance of the channels from the blocks' own means, and
    of that from the usual plane."""
    before, after = before.float(), after.float()
    texture = _means((before - _enlarged(_means(before), before)).abs_()).amax(1, keepdim=True)
    moved = None if memory is None else _means((before - memory.usual).abs_()).amax(1, keepdim=True)
    return _means(after - before), texture, moved


def quiet_plane(
    before: Tensor,  # [1, c, h, w]
    after: Tensor,  # [1, c, h, w]
    memory: Memory | None,
    maps: Maps,
    peak: float,
) -> tuple[Tensor, Memory]:  # [1, c, h, w], as `after`
    """Return what is written, and what is remembered."""
    change, share, kept = maps
    plane = before.float()
    own = after.float() - plane
    own = torch.lerp(own, _enlarged(change, plane), _enlarged(share, plane))
    if memory is None or kept is None:
        memory = Memory(plane.clone(), own, own.round())
    else:
        stays = _enlarged(kept, plane)
        memory.usual = torch.lerp(plane, memory.usual, stays)
        memory.change = torch.lerp(own, memory.change, stays)
        left = (memory.change - memory.written).abs_() > stays.mul_((HOLD - 0.5) / KEPT).add_(0.5)
        # Exact, as all are whole codes, and `torch.where` takes three times as long on a CPU.
        memory.written = torch.addcmul(memory.written, left.to(torch.float32), memory.change.round() - memory.written)
    written = memory.change if after.is_floating_point() else memory.written
    return (plane + written).clamp_(0, peak).to(after.dtype), memory


def _means(values: Tensor) -> Tensor:
    return F.avg_pool2d(values, min(BLOCK, *values.shape[-2:]), ceil_mode=True)


def _enlarged(blocks: Tensor, plane: Tensor) -> Tensor:
    return F.interpolate(blocks, size=(plane.shape[-2], plane.shape[-1]), mode="bilinear", align_corners=False)

"""The fine contrast that fog took, given back: a gain of luma around its mean over a neighbourhood.

Fog blurs as well as it veils, so what a network restores of dense fog still lacks contrast over short distances. Where
a neighbourhood has little contrast it gets the most, where it has none it gets none: that is sky, and noise. A gain
around a local mean neither darkens nor brightens, and adds nothing that was not there.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

ACROSS = 100
"""Cells along the short side of a frame: contrast is measured between their means, and in each of them."""
REACH = 7
"""Cells from the middle of a neighbourhood to its border."""
NEAR = 2
"""The same where it is asked whether anything is seen at all: over longer distances an empty sky has gradients."""
ENOUGH = 0.02
"""Deviation of luma from which on a neighbourhood gets less than half of the gain."""
NOISE = 0.003
"""Deviation of luma as it came up to which a neighbourhood gets less than half of it: it may hold nothing but noise."""
GRAIN = 0.15
"""Share of each of a place's neighbours in what is enlarged: single ones are grain."""
GRAIN_SIDE = 5
"""A place is this part of a cell, and at least a pixel: large frames have large grain."""
_TINY = 1e-4


def fine_contrast(
    given: Tensor,  # [1, 1, H, W] in [0, 1], luma as the frame came
    luma: Tensor,  # [1, 1, H, W] in [0, 1], restored
    room: tuple[Tensor, Tensor],  # [1, 1, H, W] each, or `luma` and its complement: how far down and up it may go
    gain: Tensor | float,  # that of a neighbourhood with hardly any contrast
) -> Tensor:  # [1, 1, H, W]
    """Return what to add to the luma. The more of its room a change would take, the less is made of it."""
    height, width = luma.shape[-2:]
    side = max(1, round(min(height, width) / ACROSS))
    given, restored = (F.pad(one, (0, -width % side, 0, -height % side), mode="replicate") for one in (given, luma))
    # The means of cells have little noise: only what they show was seen.
    seen, mean = F.avg_pool2d(given, side), F.avg_pool2d(restored, side)
    came = _variance(seen, seen * seen, NEAR)
    variance = _variance(mean, F.avg_pool2d(restored * restored, side), REACH)
    shown = came / (came + NOISE**2)
    mean = _around(mean, REACH)
    local = _around(gain * shown * ENOUGH**2 / (variance + ENOUGH**2), 1)
    local, mean = (_enlarged(cells, side)[..., :height, :width] for cells in (local, mean))
    fine = max(1, side // GRAIN_SIDE)
    detail = _enlarged(_without_grain(F.avg_pool2d(restored, fine)), fine)[..., :height, :width]
    change = (detail - mean).mul_(local)
    down, up = room
    limit = torch.where(change < 0.0, down, up).clamp_min(0.0)
    return change * limit / (limit + change.abs() + _TINY)


def _variance(means: Tensor, squares: Tensor, reach: int) -> Tensor:  # [1, 1, h, w] each, of cells
    """The variance in the neighbourhood of each cell."""
    return (_around(squares, reach) - _around(means, reach).square()).clamp_min(0.0)


def _around(cells: Tensor, reach: int) -> Tensor:
    return F.avg_pool2d(F.pad(cells, (reach,) * 4, mode="replicate"), 2 * reach + 1, stride=1)


def _enlarged(cells: Tensor, side: int) -> Tensor:
    if side == 1:
        return cells
    return F.interpolate(cells, scale_factor=float(side), mode="bilinear", align_corners=False)


def _without_grain(luma: Tensor) -> Tensor:
    around = F.pad(luma, (1, 1, 1, 1), mode="replicate")
    rows = torch.lerp(around[..., 1:-1], 0.5 * (around[..., :-2] + around[..., 2:]), 2.0 * GRAIN)
    return torch.lerp(rows[..., 1:-1, :], 0.5 * (rows[..., :-2, :] + rows[..., 2:, :]), 2.0 * GRAIN)

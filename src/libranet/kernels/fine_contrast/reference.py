"""The fine contrast that fog took, given back: a gain of luma around its mean over a neighbourhood.

Fog blurs as well as it veils, so what a network restores of dense fog still lacks contrast over short distances. Where
a neighbourhood has little contrast it gets the most, where it has none it gets none: that is sky, and noise. A gain
around a local mean neither darkens nor brightens, and adds nothing that was not there.
"""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

ACROSS = 100
"""Cells along the short side of a frame: contrast is measured between their means, and in each of them."""
REACH = 7
"""Cells from the middle of a neighbourhood to its border."""
NEAR = 2
"""The same where it is asked whether anything is seen at all: over longer distances an empty sky has gradients."""
ENOUGH = 0.017
"""Deviation of luma from which on a neighbourhood gets less than half of the gain."""
NOISE = 0.003
"""Deviation of luma as it came up to which a neighbourhood gets less than half of it: it may hold nothing but noise."""
GRAIN = 0.15
"""Share of each of a pixel's neighbours in what is enlarged: a single pixel is grain."""
STEP = 5
"""Its neighbours are this part of a cell away, and at least a pixel: large frames have large grain."""
TINY = 1e-4

Room = tuple[Tensor, Tensor]  # [H, W] each: how far down and up the luma may go


class Passes(Protocol):
    """The two passes over a frame: these below, or `planes` on a CPU."""

    def contrast_cells(self, luma: Tensor, side: int) -> tuple[Tensor, Tensor]: ...
    def raise_contrast(self, luma: Tensor, room: Room, maps: tuple[Tensor, Tensor], side: int) -> Tensor: ...


def fine_contrast(
    given: Tensor,  # [H, W] float32 in [0, 1], luma as the frame came
    luma: Tensor,  # [H, W] float32 in [0, 1], restored
    room: Room,
    gain: Tensor | float,  # that of a neighbourhood with hardly any contrast
    passes: Passes,
) -> Tensor:  # [H, W]
    """Return what to add to the luma. The more of its room a change would take, the less is made of it."""
    side = max(1, round(min(luma.shape) / ACROSS))
    # The means of cells have little noise: only what they show was seen.
    seen = passes.contrast_cells(given, side)[0].double()  # a variance is a small difference of large numbers
    mean, square = passes.contrast_cells(luma, side)
    came, variance = _variance(seen, seen * seen, NEAR).float(), _variance(mean, square, REACH)
    shown = came / (came + NOISE**2)
    local = _around(gain * shown * ENOUGH**2 / (variance + ENOUGH**2), 1)
    return passes.raise_contrast(luma, room, (local, _around(mean, REACH)), side)


def contrast_cells(luma: Tensor, side: int) -> tuple[Tensor, Tensor]:  # [H, W] -> [h, w] twice
    """Return the means of squares, and of what is left of them at the border, and those of luma's square."""
    height, width = luma.shape
    rows, columns = -(-height // side), -(-width // side)
    whole = F.pad(luma, (0, columns * side - width, 0, rows * side - height))
    counts = [  # pixels of a cell, down and across
        (torch.arange(cells, device=luma.device) * -side + length).clamp_max(side)
        for cells, length in ((rows, height), (columns, width))
    ]
    # A sum over axes: torch's pooling is many times slower for windows of this size on a GPU.
    sums = [values.view(rows, side, columns, side).sum(dim=(1, 3)) for values in (whole, whole * whole)]
    mean, square = (one / (counts[0][:, None] * counts[1]) for one in sums)
    return mean, square


def raise_contrast(luma: Tensor, room: Room, maps: tuple[Tensor, Tensor], side: int) -> Tensor:  # [H, W]
    """Return the distance from the mean times the gain, `maps` of cells, within the room."""
    gain, mean = (_enlarged(cells, side)[: luma.shape[0], : luma.shape[1]] for cells in maps)
    change = (_without_grain(luma, max(1, side // STEP)) - mean) * gain
    limit = torch.where(change < 0.0, *room)
    return change * limit / (limit + change.abs() + TINY)


def _variance(means: Tensor, squares: Tensor, reach: int) -> Tensor:  # [h, w] each, of cells
    """The variance in the neighbourhood of each cell."""
    return (_around(squares, reach) - _around(means, reach).square()).clamp_min(0.0)


def _around(cells: Tensor, reach: int) -> Tensor:
    return F.avg_pool2d(F.pad(cells[None], (reach,) * 4, mode="replicate"), 2 * reach + 1, stride=1)[0]


def _enlarged(cells: Tensor, side: int) -> Tensor:
    if side == 1:
        return cells
    return F.interpolate(cells[None, None], scale_factor=float(side), mode="bilinear", align_corners=False)[0, 0]


def _without_grain(luma: Tensor, step: int) -> Tensor:
    around = F.pad(luma[None], (step,) * 4, mode="replicate")[0]
    rows = torch.lerp(around[:, step:-step], 0.5 * (around[:, : -2 * step] + around[:, 2 * step :]), 2.0 * GRAIN)
    return torch.lerp(rows[step:-step], 0.5 * (rows[: -2 * step] + rows[2 * step :]), 2.0 * GRAIN)

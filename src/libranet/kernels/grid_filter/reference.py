"""A filter of the grids over time, in the Lie algebra, so that restored video does not pump.

The filtered grid F of frame t is a weighted mean of the grids G of the frames around it, at each cell on its own:

    F_t = sum_a k(a) s_a G_(t-a) / sum_a k(a) s_a
    k(a) = 1 - (a / (rate * seconds))^2                     for the ages a, in frames, where it is positive
    s_a  = 1 / (1 + mean_rgb (L_(t-a) - L_t)^2 / 0.02^2)    with L the frame's mean colour in the cell

A grid of the past counts as far as the frame looked then as it looks now. So light that changes is followed at once,
while a grid that changes under a frame that does not is averaged away. Nothing older than `seconds` counts: the memory
is finite, which makes a resumed run exact. Negative ages are frames of the look-ahead. The first frame of a stream
stands for those before it, so that a shot is as steady in its first second as later.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.errors import InputError

LOOK_CHANGE = 0.04
"""A change of a cell's mean colour, in the encoders' range of -1 to 1, that halves the weight of a grid: 0.02 in the
frame's range of 0 to 1, about 5 of 255 levels. Measured: a quarter to four times as much calms real clips alike, and
larger values cost PSNR where the camera moves (research/lab-notes.md, run F1).
"""
NOTHING_SEEN, ALL_SEEN = 8.0 / 255.0, 64.0 / 255.0
"""Contrast of a frame, in the encoders' range of -1 to 1, below which there is nothing to restore, and from which on
all of it is: 4 and 32 levels. Of 332 real hazy and clear images none has less than 47.
"""
SEEN_CELLS = 16  # contrast is that of the means over so many places across and down
MAX_SECONDS = 2.0
DEFAULT_RATE = 25.0  # frames per second of streams that do not say theirs
MAX_RATE = 120.0
"""Higher rates count as this one: they bound the memory, and some files state a clock instead of a rate."""


@dataclass(frozen=True)
class GridFilter:
    """How long grids are averaged."""

    seconds: float = 1.0
    """How far back the mean reaches, 0 to 2; 0 is no filter."""
    rate: float = DEFAULT_RATE

    def __post_init__(self) -> None:
        if not 0.0 <= self.seconds <= MAX_SECONDS:
            raise InputError(f"expected steady from 0 to {MAX_SECONDS:g} seconds, got {self.seconds}")
        if not self.rate > 0.0:
            raise InputError(f"expected a frame rate above 0, got {self.rate}")

    @property
    def span(self) -> float:
        """`seconds` in frames."""
        return self.seconds * min(self.rate, MAX_RATE)

    @property
    def memory(self) -> int:
        """How many frames before the present one take part."""
        return max(ceil(self.span) - 1, 0)

    @property
    def reach(self) -> int:
        """How many frames back a restored frame depends on: residuals of the memory depend on grids of theirs."""
        return 2 * self.memory

    def age_weight(self, age: int) -> float:
        """k(a) of an age from 1 on; the present frame has 1. Look-ahead counts by its distance in time, too."""
        return 1.0 - (age / self.span) ** 2 if age < self.span else 0.0


def cell_means(
    small: Tensor,  # [N, 3, S, S] in [-1, 1], the encoders' input
    side: int,
) -> Tensor:  # [N, 3, side, side] in [-1, 1], float32
    """Return the mean colour of every grid cell."""
    return F.avg_pool2d(small.float(), small.shape[-1] // side)


def visibility(small: Tensor) -> Tensor:  # [N, 3, S, S] in [-1, 1], the encoders' input -> [N] in [0, 1]
    """Return how much of a frame can be seen: 0 for an even one, 1 from the contrast of the densest real fog on.

    Where nothing can be seen there is nothing to clear, and the network's GroupNorms would enlarge rounding errors and
    the border's padding to a pattern. Means over 1/16 of the frame each way, because noise is nothing to see.
    """
    cells = cell_means(small, SEEN_CELLS).flatten(2)
    contrast = (cells.amax(dim=2) - cells.amin(dim=2)).amax(dim=1)
    share = ((contrast - NOTHING_SEEN) / (ALL_SEEN - NOTHING_SEEN)).clamp(0.0, 1.0)
    return share * share * (3.0 - 2.0 * share)


def similarity(
    look: Tensor,  # [N, 3, gh, gw], the cell means of another frame
    now: Tensor,  # [N, 3, gh, gw], those of the present one
) -> Tensor:  # [N, gh, gw] in (0, 1]
    """Return s: how much of another frame's grid counts now."""
    return 1.0 / (1.0 + (look - now).square().mean(dim=1) / LOOK_CHANGE**2)


def weighted_mean(
    now: Tensor,  # [N, ..., gh, gw], the present frame's grid
    others: Iterable[tuple[Tensor, Tensor]],  # the same shape each, and weights [N, gh, gw]; the present one's is 1
) -> Tensor:  # [N, ..., gh, gw], float32
    """Average grids, as the present one plus a mean difference: equal grids come back bit for bit.

    The order decides the rounding: give the others oldest first.
    """
    now = now.float()
    total, mass = torch.zeros_like(now), torch.ones(len(now), *now.shape[-2:], device=now.device)
    shape = (len(now), *[1] * (now.dim() - 3), *now.shape[-2:])
    for grid, weight in others:
        total.addcmul_(grid.float() - now, weight.view(shape))
        mass += weight
    return now + total / mass.view(shape)


def filter_out(
    grids: Tensor,  # [R, ..., gh, gw] fp32, the grid of frame i in slot i modulo R
    looks: Tensor,  # [R, 3, gh, gw] fp32 in [-1, 1], the frames' cell means
    clock: Tensor,  # [2] int64: the number of a frame, and how many frames the stream has
    out: Tensor,  # [B, ..., gh, gw] fp32, written
    *,
    grid_filter: GridFilter,
    delay: int,
    ahead: int,
) -> None:
    """Filter the grids of B frames in a row.

    Args:
        grids: A ring, long enough for all frames that take part.
        clock: On the device, so that a captured graph can count.
        delay: How far the first of the frames lags behind the clock.
        ahead: How many frames after each of them take part, where the stream has them.
    """
    first, count = clock.tolist()
    first -= delay
    for place, now in enumerate(range(first, first + len(out))):
        if not 0 <= now < count:
            continue  # before the stream, or after it
        ages = [*range(grid_filter.memory, 0, -1), *range(-1, -min(ahead, count - 1 - now) - 1, -1)]
        slots = [max(now - age, 0) % len(grids) for age in ages]
        here = looks[now % len(grids)][None]
        others = [
            (grids[s][None], similarity(looks[s][None], here) * grid_filter.age_weight(abs(age)))
            for age, s in zip(ages, slots, strict=True)
        ]
        out[place] = weighted_mean(grids[now % len(grids)][None], others)[0]

"""Launches of the filter over time."""

from torch import Tensor

from libranet.kernels.grid_filter.reference import LOOK_CHANGE, GridFilter
from libranet.kernels.launch import launch
from libranet.kernels.tiles import ceil_div

CHANNELS, CELLS = 8, 64  # the block of one program


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
    """Filter the grids of B frames in a row, as `reference.filter_out` does."""
    ring, cells = len(grids), grids.shape[-2] * grids.shape[-1]
    channels = grids[0].numel() // cells
    assert delay + grid_filter.memory < ring, "the ring is too short for the memory"
    assert grids.is_contiguous()
    assert looks.is_contiguous()
    assert out.is_contiguous()
    span = grid_filter.span
    launch("grid_filter.triton._filter_kernel", (ceil_div(cells, CELLS), ceil_div(channels, CHANNELS), len(out)))(
        grids, looks, clock, out,
        channels, cells, ring, delay,
        1.0 / span**2 if span else 0.0, 1.0 / (3.0 * LOOK_CHANGE**2),
        MEMORY=grid_filter.memory, AHEAD=ahead, CHANNELS=CHANNELS, CELLS=CELLS, num_warps=2,
    )  # fmt: skip

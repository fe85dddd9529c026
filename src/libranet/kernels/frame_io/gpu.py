"""Launches of the passes over 8-bit RGB frames."""

import torch
from torch import Tensor

from libranet.kernels.launch import launch
from libranet.kernels.tiles import PixelTile, ceil_div


def read_cells_out(
    frames: Tensor,  # [ring, H, W, 3] uint8, H and W multiples of 4
    low: Tensor,  # [B, 3, h, w] fp32, written
    cells: Tensor,  # [B, h, w, 64] fp16, written
    *,
    first: int = 0,
) -> None:
    """Reduce B frames of a ring to a quarter, and lay each 4x4 cell out along channels, over 256."""
    b, _, height, width = low.shape
    words = frames.flatten(1).view(torch.int32)
    launch("frame_io.triton._reduce_kernel", (ceil_div(width, 128), height, b))(
        words, low, height, width, first, frames.shape[0], BLOCK=128, num_warps=4
    )
    launch("frame_io.triton._cells_kernel", (ceil_div(width, 64), height, b))(
        frames, cells, height, width, first, frames.shape[0], BLOCK=64, num_warps=4
    )


def finish_frame_out(
    frames: Tensor,  # [ring, H, W, 3] uint8
    residual: Tensor,  # [B, h, w, 64] fp16
    delta: Tensor,  # [B, 3, h, w] fp32
    strength: Tensor,  # [B] fp32
    out: Tensor,  # [B, H, W, 3] uint8, written
    *,
    first: int = 0,
    tile: PixelTile,  # in cells
) -> None:
    """Frame + upsampled correction + residual, clamped and rounded to bytes."""
    b, height, width, _ = residual.shape
    launch("frame_io.triton._finish_kernel", (tile.parts(width), height, b))(
        residual, frames, delta, strength, out, height, width, first, frames.shape[0],
        BLOCK=tile.block, num_warps=tile.warps,
    )  # fmt: skip

"""Launches of the reduction to the encoders' square, with the matrices it reads."""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from libranet.kernels.bands import band_blocks, resize_matrix
from libranet.kernels.launch import launch
from libranet.kernels.tiles import ceil_div

BLOCK = 16  # output rows and columns per program
LINES, BYTES = 16, 128  # frame rows, and bytes of a frame row, per step


@dataclass(frozen=True)
class ResizeBands:
    """Both banded matrices, in the blocks that programs read."""

    first_line: Tensor  # [blocks] int32
    vertical: Tensor  # [blocks, steps, 16, LINES] fp16
    first_byte: Tensor  # [blocks] int32, multiples of 16
    horizontal: Tensor  # [blocks, steps, BYTES, 64] fp16; 64 is (column, red green blue nothing)

    @classmethod
    def make(cls, height: int, width: int, size: int) -> "ResizeBands":
        down, across = resize_matrix(height, size), resize_matrix(width, size)
        first_line, vertical = band_blocks(down, BLOCK, LINES, align=1)
        first_byte, horizontal = band_blocks(across, BLOCK, BYTES, align=16, colours=True)
        return cls(first_line, vertical.transpose(2, 3).contiguous(), first_byte, horizontal)

    def to(self, device: torch.device) -> "ResizeBands":
        return ResizeBands(*(getattr(self, field.name).to(device) for field in fields(self)))


def reduce_frames_out(
    frames: Tensor,  # [ring, H, W, 3] uint8
    out: Tensor,  # [B, size, size, 4] fp16, written, in [-1, 1]; the fourth channel is zero
    *,
    bands: ResizeBands,  # for H, W and size
    first: int = 0,
) -> None:
    ring, height, width, _ = frames.shape
    b, size = out.shape[:2]
    steps = bands.vertical.shape[1]
    launch("resample.triton._input_kernel", (ceil_div(size, BLOCK), ceil_div(size, BLOCK), b))(
        frames, bands.first_line, bands.vertical, bands.first_byte, bands.horizontal, out,
        height, 3 * width, size, first, ring,
        LINE_STEPS=steps, BYTE_STEPS=bands.horizontal.shape[1],
        BLOCK=BLOCK, LINES=LINES, BYTES=BYTES, num_warps=4,
        num_stages=2 if steps <= 32 else 1,  # all steps of a patch are fetched ahead, and must fit
    )  # fmt: skip

"""Launches of the passes over frames in their own samples, with the matrices they read."""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from libranet.frames import FrameFormat
from libranet.kernels.bands import band_blocks, resize_matrix
from libranet.kernels.launch import launch
from libranet.kernels.samples.reference import SampleCodes
from libranet.kernels.tiles import ceil_div

BLOCK = 16  # output rows and columns per program of the encoders' input
LINES, COLUMNS = 16, 64  # frame rows, and pixels of a frame row, per step of the encoders' input


@dataclass(frozen=True)
class SampleBands:
    """The reduction to the encoders' square as two banded matrices, in the blocks that programs read."""

    first_line: Tensor  # [blocks] int32
    vertical: Tensor  # [blocks, steps, 16, LINES] fp16
    first_column: Tensor  # [blocks] int32
    horizontal: Tensor  # [blocks, steps, COLUMNS, 16] fp16

    @classmethod
    def make(cls, height: int, width: int, size: int) -> "SampleBands":
        first_line, vertical = band_blocks(resize_matrix(height, size), BLOCK, LINES, align=1)
        first_column, horizontal = band_blocks(resize_matrix(width, size), BLOCK, COLUMNS, align=1)
        return cls(first_line, vertical.transpose(2, 3).contiguous(), first_column, horizontal.contiguous())

    def to(self, device: torch.device) -> "SampleBands":
        return SampleBands(*(getattr(self, field.name).to(device) for field in fields(self)))


def read_samples_out(
    planes: tuple[Tensor, ...],
    low: Tensor,  # [B, 3, h, w] fp32, written, in [0, 1]
    cells: Tensor,  # [B, h, w, 64] fp16, written, in [0, 1)
    *,
    format_: FrameFormat,
    codes: SampleCodes,
    first: int = 0,
) -> None:
    """Reduce B frames of a ring to a quarter, and lay each 4x4 cell out along channels, times 255 / 256."""
    b, _, down, across = low.shape
    for kernel, out, block in (("_low_kernel", low, 64), ("_cells_kernel", cells, 32)):
        launch(f"samples.triton.{kernel}", (ceil_div(across, block), down, b))(
            *codes.components(planes), codes.numbers, out, format_.height, format_.width, first, len(planes[0]),
            **codes.constants(), CELLS=block, num_warps=4,
        )  # fmt: skip


def reduce_samples_out(
    planes: tuple[Tensor, ...],
    out: Tensor,  # [B, size, size, 4] fp16, written, in [-1, 1]; the fourth channel is zero
    *,
    format_: FrameFormat,
    codes: SampleCodes,
    bands: SampleBands,  # for the format's size in whole cells
    first: int = 0,
) -> None:
    b, size = out.shape[:2]
    launch("samples.triton._input_kernel", (ceil_div(size, BLOCK), ceil_div(size, BLOCK), b))(
        *codes.components(planes), codes.numbers,
        bands.first_line, bands.vertical, bands.first_column, bands.horizontal, out,
        format_.height, format_.width, size, first, len(planes[0]),
        LINE_STEPS=bands.vertical.shape[1], COLUMN_STEPS=bands.horizontal.shape[1],
        **codes.constants(), BLOCK=BLOCK, LINES=LINES, COLUMNS=COLUMNS, num_warps=4, num_stages=1,
    )  # fmt: skip


def finish_samples_out(
    planes: tuple[Tensor, ...],
    residual: Tensor,  # [B, h, w, 64] fp16
    delta: Tensor,  # [B, 3, h, w] fp32
    strength: Tensor,  # [B] fp32
    out: tuple[Tensor, ...],  # B frames, written
    *,
    format_: FrameFormat,
    codes: SampleCodes,
    first: int = 0,
) -> None:
    """Add the change of RGB, clamped to what RGB can hold, to the frames' own samples."""
    rows, columns = ceil_div(format_.height, codes.sub_y), ceil_div(format_.width, codes.sub_x)
    launch("samples.triton._finish_kernel", (ceil_div(columns, 128), rows, len(residual)))(
        *codes.components(planes), codes.numbers, residual, delta, strength, *codes.components(out),
        format_.height, format_.width, first, len(planes[0]),
        **codes.constants(), FLOATING=codes.floating, COLUMNS=128, num_warps=4,
    )  # fmt: skip

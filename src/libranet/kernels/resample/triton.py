# mypy: disable-error-code="no-untyped-def"
"""Frames reduced to the encoders' square, antialiased along both axes, in one pass over their bytes.

Both reductions are banded matrices, so a block of 16x16 output pixels needs one patch of the frame: two small matrix
products per patch, the first along the height, the second along the bytes of a row, which also sorts out colours.
"""

from dataclasses import dataclass, fields

import torch
import triton
import triton.language as tl
from torch import Tensor

from libranet.kernels.bands import band_blocks, resize_matrix
from libranet.kernels.launch import launch

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
        by_byte = torch.zeros(width, 3, size, 4)
        for colour in range(3):
            by_byte[:, colour, :, colour] = across
        first_line, vertical = band_blocks(down, BLOCK, LINES, align=1)
        first_byte, horizontal = band_blocks(by_byte.view(3 * width, 4 * size), 4 * BLOCK, BYTES, align=16)
        return cls(first_line, vertical.transpose(2, 3).contiguous(), first_byte, horizontal)

    def to(self, device: torch.device) -> "ResizeBands":
        return ResizeBands(*(getattr(self, field.name).to(device) for field in fields(self)))


@triton.jit(do_not_specialize=["height", "size", "first", "ring"])
def _input_kernel(
    frame_ptr,  # [ring, H, row_bytes] uint8
    first_line_ptr, vertical_ptr, first_byte_ptr, horizontal_ptr,  # as in `ResizeBands`
    out_ptr,  # [B, size, size, 4] fp16
    height, row_bytes, size, first, ring,
    LINE_STEPS: tl.constexpr, BYTE_STEPS: tl.constexpr,
    BLOCK: tl.constexpr, LINES: tl.constexpr, BYTES: tl.constexpr,
):  # fmt: skip
    across, down, b = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    frame_ptr += ((first + b) % ring).to(tl.int64) * height * row_bytes
    line0 = tl.load(first_line_ptr + down)
    byte0 = tl.multiple_of(tl.load(first_byte_ptr + across), 16)
    i, line, k, n = tl.arange(0, BLOCK), tl.arange(0, LINES), tl.arange(0, BYTES), tl.arange(0, 4 * BLOCK)
    acc = tl.zeros((BLOCK, 4 * BLOCK), tl.float32)
    for byte_step in range(BYTE_STEPS):
        column = byte0 + byte_step * BYTES + k
        rows = tl.zeros((BLOCK, BYTES), tl.float32)
        for line_step in tl.static_range(LINE_STEPS):
            y = line0 + line_step * LINES + line
            weight = tl.load(
                vertical_ptr + ((down * LINE_STEPS + line_step) * BLOCK + i[:, None]) * LINES + line[None, :]
            )
            inside = (y < height)[:, None] & (column < row_bytes)[None, :]
            patch = tl.load(frame_ptr + y[:, None] * row_bytes + column[None, :], mask=inside, other=0)
            rows = tl.dot(weight, patch.to(tl.float16), rows)
        weight = tl.load(
            horizontal_ptr + ((across * BYTE_STEPS + byte_step) * BYTES + k[:, None]) * (4 * BLOCK) + n[None, :]
        )
        acc = tl.dot((rows * (1.0 / 255.0)).to(tl.float16), weight, acc)
    row, place = down * BLOCK + i[:, None], across * BLOCK * 4 + n[None, :]
    value = tl.minimum(tl.maximum(acc * 2.0 - 1.0, -1.0), 1.0)
    value = tl.where(n[None, :] % 4 < 3, value, 0.0)
    inside = (row < size) & (place < size * 4)
    tl.store(out_ptr + (b * size + row) * size * 4 + place, value.to(tl.float16), mask=inside)


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
    launch(_input_kernel, (triton.cdiv(size, BLOCK), triton.cdiv(size, BLOCK), b))(
        frames, bands.first_line, bands.vertical, bands.first_byte, bands.horizontal, out,
        height, 3 * width, size, first, ring,
        LINE_STEPS=steps, BYTE_STEPS=bands.horizontal.shape[1],
        BLOCK=BLOCK, LINES=LINES, BYTES=BYTES, num_warps=4,
        num_stages=2 if steps <= 32 else 1,  # all steps of a patch are fetched ahead, and must fit
    )  # fmt: skip

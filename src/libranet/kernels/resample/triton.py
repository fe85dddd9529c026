# mypy: disable-error-code="no-untyped-def"
"""Frames reduced to the encoders' square, antialiased along both axes, in one pass over their bytes.

Both reductions are banded matrices, so a block of 16x16 output pixels needs one patch of the frame: two small matrix
products per patch, the first along the height, the second along the bytes of a row, which also sorts out colours.
"""

import triton
import triton.language as tl


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

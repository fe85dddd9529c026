# ruff: noqa: SIM108 - kernels take many arguments, and their branches on constants are not expressions
# mypy: disable-error-code="no-untyped-def"
"""Passes over 8-bit frames: reduce and lay out cells on the way in, add everything up and round on the way out."""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from libranet.ops.conv_triton import ConvTile, convolve_tile, pick_row, tile_count


@triton.jit
def _add_pixel(red, green, blue, word_a, word_b, BYTE: tl.constexpr, weight):
    """Add weight * pixel, whose three bytes start at BYTE of the eight in two words."""
    for c in tl.static_range(3):
        if BYTE + c < 4:
            value = (word_a >> (8 * (BYTE + c))) & 255
        else:
            value = (word_b >> (8 * (BYTE + c - 4))) & 255
        if c == 0:
            red += weight * value
        elif c == 1:
            green += weight * value
        else:
            blue += weight * value
    return red, green, blue


@triton.jit(do_not_specialize=["height", "width", "first", "ring"])
def _reduce_kernel(
    word_ptr,  # [ring, 4 h, 3 w] int32: the frames' bytes, four to a word
    low_ptr,  # [B, 3, h, w] fp32
    height, width, first, ring,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The triangle filter [1 3 5 7 7 5 3 1] on both axes, in exact integers; cut at the border and renormalised."""
    b, y = tl.program_id(2), tl.program_id(1)
    x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = x < width
    word_ptr += ((first + b) % ring).to(tl.int64) * height * 4 * width * 3
    has_left, has_right = (x > 0) & inside, x + 1 < width
    red = tl.zeros((BLOCK,), tl.int32)
    green, blue = red, red
    norm_y = 0
    for t in tl.static_range(8):
        row = 4 * y + t - 2
        tap = 2 * t + 1 if t < 4 else 15 - 2 * t
        valid = (row >= 0) & (row < 4 * height)
        norm_y += tl.where(valid, tap, 0)
        place = word_ptr + row * width * 3 + x * 3
        left1 = tl.load(place - 2, mask=has_left & valid, other=0)
        left2 = tl.load(place - 1, mask=has_left & valid, other=0)
        own0 = tl.load(place, mask=inside & valid, other=0)
        own1 = tl.load(place + 1, mask=inside & valid, other=0)
        own2 = tl.load(place + 2, mask=inside & valid, other=0)
        right0 = tl.load(place + 3, mask=has_right & valid, other=0)
        right1 = tl.load(place + 4, mask=has_right & valid, other=0)
        red, green, blue = _add_pixel(red, green, blue, left1, left2, 2, tap * 1)
        red, green, blue = _add_pixel(red, green, blue, left2, left2, 1, tap * 3)
        red, green, blue = _add_pixel(red, green, blue, own0, own1, 0, tap * 5)
        red, green, blue = _add_pixel(red, green, blue, own0, own1, 3, tap * 7)
        red, green, blue = _add_pixel(red, green, blue, own1, own2, 2, tap * 7)
        red, green, blue = _add_pixel(red, green, blue, own2, own2, 1, tap * 5)
        red, green, blue = _add_pixel(red, green, blue, right0, right1, 0, tap * 3)
        red, green, blue = _add_pixel(red, green, blue, right0, right1, 3, tap * 1)
    norm = norm_y * (24 + tl.where(has_left, 4, 0) + tl.where(has_right, 4, 0)) * 255
    place = low_ptr + (b.to(tl.int64) * 3 * height + y) * width + x
    tl.store(place, red.to(tl.float32) / norm, mask=inside)
    tl.store(place + height * width, green.to(tl.float32) / norm, mask=inside)
    tl.store(place + 2 * height * width, blue.to(tl.float32) / norm, mask=inside)


@triton.jit(do_not_specialize=["height", "width", "first", "ring"])
def _cells_kernel(
    frame_ptr,  # [ring, 4 h, 4 w, 3] uint8
    cells_ptr,  # [B, h, w, 48] fp16, or 64 channels with WIDE: each pixel row of 12 padded to 16 with zeros
    height, width, first, ring,
    BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    b, y = tl.program_id(2), tl.program_id(1)
    x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    n = tl.arange(0, 64)[None, :]
    real = (x < width) & (n % 16 < 12)
    frame_ptr += ((first + b) % ring).to(tl.int64) * height * width * 48
    bytes_ = tl.load(frame_ptr + (4 * y + n // 16) * (12 * width) + x * 12 + n % 16, mask=real, other=0)
    if WIDE:
        place = cells_ptr + ((b.to(tl.int64) * height + y) * width + x) * 64 + n
        tl.store(place, (bytes_.to(tl.float32) * (1.0 / 256.0)).to(tl.float16), mask=x < width)
    else:
        place = cells_ptr + (b.to(tl.int64) * height + y) * width * 48 + x * 48 + (n // 16) * 12 + n % 16
        tl.store(place, (bytes_.to(tl.float32) * (1.0 / 256.0)).to(tl.float16), mask=real)


@triton.jit
def _finish_cells(
    residual,  # [BLOCK, 64] fp32
    frame_ptr, delta_ptr, out_ptr,  # of one frame
    strength, y, x0, height, width,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Carrier + bilinear enlargement of the correction + residual for a row of cells, rounded to bytes."""
    x = x0 + tl.arange(0, BLOCK)[:, None]
    n = tl.arange(0, 64)[None, :]
    row, column, colour = n // 16, (n % 16) // 3, n % 16 % 3
    real = (x < width) & (n % 16 < 12) & (y < height)
    # Pixel row r of a cell lies (r - 1.5) / 4 cells below its centre, towards the upper or the lower neighbour.
    top, left = y - (row < 2).to(tl.int32), x - (column < 2).to(tl.int32)
    below = 0.625 + 0.25 * row - (row >= 2).to(tl.float32)
    beside = 0.625 + 0.25 * column - (column >= 2).to(tl.float32)
    top, bottom = tl.maximum(top, 0) * width, tl.minimum(top + 1, height - 1) * width
    left, right = tl.maximum(left, 0), tl.minimum(left + 1, width - 1)
    plane = delta_ptr + colour * height * width
    upper = tl.load(plane + top + left, mask=real, other=0.0) * (1.0 - beside)
    upper += tl.load(plane + top + right, mask=real, other=0.0) * beside
    lower = tl.load(plane + bottom + left, mask=real, other=0.0) * (1.0 - beside)
    lower += tl.load(plane + bottom + right, mask=real, other=0.0) * beside
    at = (4 * y + row) * (12 * width) + x * 12 + n % 16
    carrier = tl.load(frame_ptr + at, mask=real, other=0).to(tl.float32)
    value = carrier + 255.0 * (upper * (1.0 - below) + lower * below + strength * residual)
    tl.store(out_ptr + at, (tl.minimum(tl.maximum(value, 0.0), 255.0) + 0.5).to(tl.uint8), mask=real)


@triton.jit(do_not_specialize=["height", "width", "first", "ring"])
def _finish_kernel(
    residual_ptr,  # [B, h, w, 64] fp16
    frame_ptr,  # [ring, 4 h, 4 w, 3] uint8
    delta_ptr,  # [B, 3, h, w] fp32
    strength_ptr,  # [1] fp32
    out_ptr,  # [B, 4 h, 4 w, 3] uint8
    height, width, first, ring,
    BLOCK: tl.constexpr,
):  # fmt: skip
    b, y = tl.program_id(2).to(tl.int64), tl.program_id(1)
    x0 = tl.program_id(0) * BLOCK
    x = x0 + tl.arange(0, BLOCK)[:, None]
    place = residual_ptr + ((b * height + y) * width + x) * 64 + tl.arange(0, 64)[None, :]
    residual = tl.load(place, mask=x < width, other=0.0).to(tl.float32)
    pixels = height * width
    _finish_cells(
        residual, frame_ptr + ((first + b) % ring) * pixels * 48, delta_ptr + b * pixels * 3, out_ptr + b * pixels * 48,
        tl.load(strength_ptr), y, x0, height, width, BLOCK,
    )  # fmt: skip


@triton.jit(do_not_specialize=["height", "width", "first", "ring"])
def _finish_product_kernel(
    residual_ptr, frame_ptr, delta_ptr, strength_ptr,  # as in `_finish_kernel`
    enlarge_ptr,  # [32, 64] fp16, from `frame_torch.enlargement`
    out_ptr,  # [B, 4 h, 4 w, 3] uint8
    height, width, first, ring,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """`_finish_kernel` with the enlargement of the correction as a matrix product: 27 fetches a cell, not 192."""
    b, y = tl.program_id(2).to(tl.int64), tl.program_id(1)
    x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    n, k = tl.arange(0, 64)[None, :], tl.arange(0, 32)[None, :]
    pixels = height * width
    frame_ptr += ((first + b) % ring) * pixels * 48 + y * (48 * width)  # whole frames apart by 64-bit scalars,
    residual_ptr += (b * height + y) * width * 64  # so that places inside a frame are 32-bit numbers
    delta_ptr += b * pixels * 3
    out_ptr += b * pixels * 48 + y * (48 * width)
    near_y = tl.minimum(tl.maximum(y + k // 9 - 1, 0), height - 1)
    near_x = tl.minimum(tl.maximum(x + (k // 3) % 3 - 1, 0), width - 1)
    near = tl.load(delta_ptr + (k % 3) * pixels + near_y * width + near_x, mask=(k < 27) & (x < width), other=0.0)
    coarse = near.to(tl.float16)  # two halves of a float32: the weights are multiples of 1/64, so nothing is lost
    fine = (near - coarse.to(tl.float32)).to(tl.float16)
    enlarge = tl.load(enlarge_ptr + tl.arange(0, 32)[:, None] * 64 + n)
    change = tl.dot(fine, enlarge, tl.dot(coarse, enlarge))
    residual = tl.load(residual_ptr + x * 64 + n, mask=x < width, other=0.0)
    real = (x < width) & (n % 16 < 12)
    at = (n // 16) * (12 * width) + x * 12 + n % 16
    carrier = tl.load(frame_ptr + at, mask=real, other=0).to(tl.float32)
    value = carrier + 255.0 * (change + tl.load(strength_ptr) * residual.to(tl.float32))
    value = tl.minimum(tl.maximum(value, 0.0), 255.0) + 0.5
    tl.store(out_ptr + at, value.to(tl.uint8), mask=real)


@triton.jit(do_not_specialize=["height", "width", "first", "ring"])
def _project_kernel(
    x_desc,  # [B, h, w, CIN] fp16
    weight_desc,  # [9, 64, CIN] fp16
    bias_ptr,  # [64] fp32
    frame_ptr, delta_ptr, strength_ptr, out_ptr,  # as in `_finish_kernel`
    height, width, first, ring,
    CIN: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, BLOCK_K: tl.constexpr, PIXELS_FIRST: tl.constexpr,
):  # fmt: skip
    """The last convolution, its result added to the frame without ever being stored."""
    tiles_x = tl.cdiv(width, COLS)
    tiles = tiles_x * tl.cdiv(height, ROWS)
    tile = tl.program_id(0) % tiles
    b = tl.program_id(0) // tiles
    y0 = (tile // tiles_x) * ROWS
    x0 = (tile % tiles_x) * COLS
    acc0, acc1, acc2, acc3 = convolve_tile(x_desc, weight_desc, b, y0, x0, CIN, 64, ROWS, COLS, BLOCK_K, PIXELS_FIRST)
    pixels = height * width
    frame_ptr += ((first + b) % ring).to(tl.int64) * pixels * 48
    delta_ptr += b.to(tl.int64) * pixels * 3
    out_ptr += b.to(tl.int64) * pixels * 48
    strength = tl.load(strength_ptr)
    bias = tl.load(bias_ptr + tl.arange(0, 64))
    for r in tl.static_range(ROWS):
        acc = pick_row(acc0, acc1, acc2, acc3, r)
        if not PIXELS_FIRST:
            acc = acc.T
        _finish_cells(
            acc + bias[None, :], frame_ptr, delta_ptr, out_ptr, strength, y0 + r, x0, height, width, COLS
        )  # fmt: skip


def read_cells_out(
    frames: Tensor,  # [ring, H, W, 3] uint8, H and W multiples of 4
    low: Tensor,  # [B, 3, h, w] fp32, written
    cells: Tensor,  # [B, h, w, 48 or 64] fp16, written; 64 is what `pack_cell_weight(wide=True)` expects
    *,
    first: int = 0,
) -> None:
    """What `frame_torch.read_cells` computes, for B frames of a ring beginning at `first`."""
    b, _, height, width = low.shape
    words = frames.flatten(1).view(torch.int32)
    _reduce_kernel[(triton.cdiv(width, 128), height, b)](
        words, low, height, width, first, frames.shape[0], BLOCK=128, num_warps=4
    )
    _cells_kernel[(triton.cdiv(width, 64), height, b)](
        frames, cells, height, width, first, frames.shape[0], BLOCK=64, WIDE=cells.shape[3] == 64, num_warps=4
    )


def finish_frame_out(
    frames: Tensor,  # [ring, H, W, 3] uint8
    residual: Tensor,  # [B, h, w, 64] fp16
    delta: Tensor,  # [B, 3, h, w] fp32
    strength: Tensor,  # [1] fp32
    out: Tensor,  # [B, H, W, 3] uint8, written
    *,
    first: int = 0,
    enlarge: Tensor | None = None,  # `frame_torch.enlargement`: enlarge by a matrix product
    cut: tuple[int, int] = (64, 4),  # cells and warps per program
) -> None:
    """What `frame_torch.finish_frame` computes."""
    b, height, width, _ = residual.shape
    block, warps = cut
    grid = (triton.cdiv(width, block), height, b)
    if enlarge is not None:
        _finish_product_kernel[grid](
            residual, frames, delta, strength, enlarge, out, height, width, first, frames.shape[0],
            BLOCK=block, num_warps=warps,
        )  # fmt: skip
        return
    _finish_kernel[grid](
        residual, frames, delta, strength, out, height, width, first, frames.shape[0], BLOCK=block, num_warps=warps
    )


def project_frame_out(
    x: Tensor,  # [B, h, w, Cin] fp16
    weight: Tensor,  # [9, 64, Cin] fp16, packed from `frame_torch.pack_project`
    bias: Tensor,  # [64] fp32
    frames: Tensor,  # [ring, H, W, 3] uint8
    delta: Tensor,  # [B, 3, h, w] fp32
    strength: Tensor,  # [1] fp32
    out: Tensor,  # [B, H, W, 3] uint8, written
    *,
    first: int = 0,
    tile: ConvTile,
) -> None:
    """The last convolution and `finish_frame_out` in one pass."""
    b, height, width, cin = x.shape
    x_desc = TensorDescriptor(x, list(x.shape), list(x.stride()), [1, 1, tile.cols, tile.block_k])
    w_desc = TensorDescriptor(weight, list(weight.shape), list(weight.stride()), [1, 64, tile.block_k])
    _project_kernel[(b * tile_count(tile, height, width),)](
        x_desc, w_desc, bias, frames, delta, strength, out, height, width, first, frames.shape[0],
        CIN=cin, ROWS=tile.rows, COLS=tile.cols, BLOCK_K=tile.block_k, PIXELS_FIRST=tile.pixels_first,
        num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip

# ruff: noqa: SIM108 - kernels take many arguments, and their branches on constants are not expressions
# mypy: disable-error-code="no-untyped-def"
"""3x3 convolution over channels-last maps on the tensor cores, with GroupNorm's sums of its output.

An implicit matrix product. One program makes ROWS x COLS output pixels and keeps one accumulator per row, so that an
input row is fetched once per horizontal tap and used for up to three output rows: at 64 channels the convolution is
bound by fetches from the cache, and four rows halve them. Every thread fetches by its own pointers, with zeros outside
the map, which is the padding: this runs on every GPU from compute capability 8.0 on.
"""

import triton
import triton.language as tl


@triton.jit
def _tap(acc, pixels, w0, w1, w2, DY: tl.constexpr, PIXELS_FIRST: tl.constexpr):
    """Add one tap's product to an output row's accumulator; DY outside 0..2 means this input row is not its."""
    if DY == 0:
        weight = w0
    elif DY == 1:
        weight = w1
    else:
        weight = w2
    if DY >= 0 and DY <= 2:
        if PIXELS_FIRST:
            acc = tl.dot(pixels, weight.T, acc)
        else:
            acc = tl.dot(weight, pixels.T, acc)
    return acc


@triton.jit
def _fetch_pixels(
    x_ptr, y, x, k, height, width, x_step,
    CIN: tl.constexpr, COLS: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Pixels of one row, [COLS, BLOCK_K]; zeros outside the map."""
    column, c = x + tl.arange(0, COLS), k + tl.arange(0, BLOCK_K)
    inside = (column >= 0) & (column < width) & (y >= 0) & (y < height)
    place = x_ptr + (y * width + column)[:, None] * x_step + c[None, :]
    if CIN % BLOCK_K == 0:
        pixels = tl.load(place, mask=inside[:, None], other=0.0)
    else:
        pixels = tl.load(place, mask=inside[:, None] & (c < CIN)[None, :], other=0.0)
    return pixels


@triton.jit
def _fetch_weight(weight_ptr, tap, k, CIN: tl.constexpr, COUT: tl.constexpr, BLOCK_K: tl.constexpr):
    """One tap's weights, [COUT, BLOCK_K]."""
    n, c = tl.arange(0, COUT), k + tl.arange(0, BLOCK_K)
    place = weight_ptr + (tap * COUT + n)[:, None] * CIN + c[None, :]
    if CIN % BLOCK_K == 0:
        weight = tl.load(place)
    else:
        weight = tl.load(place, mask=(c < CIN)[None, :], other=0.0)
    return weight


@triton.jit
def _convolve_tile(
    x_ptr, weight_ptr, y0, x0, height, width, x_step,
    CIN: tl.constexpr, COUT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, BLOCK_K: tl.constexpr,
    PIXELS_FIRST: tl.constexpr,
):  # fmt: skip
    """Accumulators of up to four output rows of one tile, [COLS, COUT] or [COUT, COLS] each."""
    if PIXELS_FIRST:
        acc0 = tl.zeros((COLS, COUT), tl.float32)
    else:
        acc0 = tl.zeros((COUT, COLS), tl.float32)
    acc1, acc2, acc3 = acc0, acc0, acc0

    chunks: tl.constexpr = (CIN + BLOCK_K - 1) // BLOCK_K
    for step in tl.range(0, 3 * chunks):
        dx = step // chunks
        k = (step % chunks) * BLOCK_K
        w0 = _fetch_weight(weight_ptr, dx, k, CIN, COUT, BLOCK_K)
        w1 = _fetch_weight(weight_ptr, 3 + dx, k, CIN, COUT, BLOCK_K)
        w2 = _fetch_weight(weight_ptr, 6 + dx, k, CIN, COUT, BLOCK_K)
        for i in tl.static_range(ROWS + 2):
            pixels = _fetch_pixels(x_ptr, y0 + i - 1, x0 + dx - 1, k, height, width, x_step, CIN, COLS, BLOCK_K)
            acc0 = _tap(acc0, pixels, w0, w1, w2, i, PIXELS_FIRST)
            if ROWS > 1:
                acc1 = _tap(acc1, pixels, w0, w1, w2, i - 1, PIXELS_FIRST)
            if ROWS > 2:
                acc2 = _tap(acc2, pixels, w0, w1, w2, i - 2, PIXELS_FIRST)
            if ROWS > 3:
                acc3 = _tap(acc3, pixels, w0, w1, w2, i - 3, PIXELS_FIRST)
    return acc0, acc1, acc2, acc3


@triton.jit
def pick_row(acc0, acc1, acc2, acc3, R: tl.constexpr):
    """The accumulator of one row."""
    if R == 0:
        acc = acc0
    elif R == 1:
        acc = acc1
    elif R == 2:
        acc = acc2
    else:
        acc = acc3
    return acc


@triton.jit
def _finish_row(
    acc, bias_ptr, out_ptr, y, x0, height, width, out_step,
    total, squares,  # [COUT]
    COLS: tl.constexpr, COUT: tl.constexpr, PIXELS_FIRST: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_SUMS: tl.constexpr,
):  # fmt: skip
    """Add the bias, store one output row and add it to the channels' sums."""
    channels = tl.arange(0, COUT)
    if HAS_BIAS:
        bias = tl.load(bias_ptr + channels)
        if PIXELS_FIRST:
            acc += bias[None, :]
        else:
            acc += bias[:, None]
    column = x0 + tl.arange(0, COLS)
    inside = (column < width) & (y < height)
    if HAS_SUMS:
        if PIXELS_FIRST:
            kept = tl.where(inside[:, None], acc, 0.0)
            total += tl.sum(kept, axis=0)
            squares += tl.sum(kept * kept, axis=0)
        else:
            kept = tl.where(inside[None, :], acc, 0.0)
            total += tl.sum(kept, axis=1)
            squares += tl.sum(kept * kept, axis=1)
    result = acc.to(tl.float16)
    if not PIXELS_FIRST:
        result = result.T
    place = out_ptr + (y * width + column)[:, None] * out_step + channels[None, :]
    tl.store(place, result, mask=inside[:, None])
    return total, squares


@triton.jit(do_not_specialize=["height", "width"])
def _conv3x3_kernel(
    x_ptr,  # [B, h, w, CIN] fp16, pixels x_step values apart
    weight_ptr,  # [9, COUT, CIN] fp16
    bias_ptr,  # [COUT] fp32
    out_ptr,  # [B, h, w, COUT] fp16, pixels out_step values apart
    sums_ptr,  # [B, tiles, 2, GROUPS] fp32: sums and sums of squares of one tile
    height, width, x_step, out_step,
    CIN: tl.constexpr, COUT: tl.constexpr, GROUPS: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, BLOCK_K: tl.constexpr,
    PIXELS_FIRST: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_SUMS: tl.constexpr,
):  # fmt: skip
    tiles_x = tl.cdiv(width, COLS)
    tiles = tiles_x * tl.cdiv(height, ROWS)
    tile = tl.program_id(0) % tiles
    b = (tl.program_id(0) // tiles).to(tl.int64)
    y0 = (tile // tiles_x) * ROWS
    x0 = (tile % tiles_x) * COLS

    acc0, acc1, acc2, acc3 = _convolve_tile(
        x_ptr + b * height * width * x_step, weight_ptr, y0, x0, height, width, x_step,
        CIN, COUT, ROWS, COLS, BLOCK_K, PIXELS_FIRST,
    )  # fmt: skip
    out_ptr += b * height * width * out_step
    total = tl.zeros((COUT,), tl.float32)
    squares = total
    for r in tl.static_range(ROWS):
        total, squares = _finish_row(
            pick_row(acc0, acc1, acc2, acc3, r), bias_ptr, out_ptr, y0 + r, x0, height, width, out_step, total, squares,
            COLS, COUT, PIXELS_FIRST, HAS_BIAS, HAS_SUMS,
        )  # fmt: skip
    if HAS_SUMS:
        place = sums_ptr + tl.program_id(0) * 2 * GROUPS + tl.arange(0, GROUPS)
        tl.store(place, tl.sum(total.reshape(GROUPS, COUT // GROUPS), axis=1))
        tl.store(place + GROUPS, tl.sum(squares.reshape(GROUPS, COUT // GROUPS), axis=1))

# mypy: disable-error-code="no-untyped-def"
"""The layers of two encoders at once: same layers, own weights, maps [2, B, side, side, C] channels last.

The maps are small (at most 128x128), so launches and idle multiprocessors cost more than arithmetic: one launch covers
encoder x frame x tile. A convolution is an implicit matrix product. Every thread fetches by its own pointers, which
every GPU from compute capability 8.0 on can; through tensor descriptors a program of so few steps waits longer for its
pixels (measured: up to 1.8 times as long at 16x16). GroupNorm's sums leave with the output, one part per program; the
pass that normalises adds the parts up in a fixed order, so that results are the same bits every time. Normalising is a
pass of its own and not part of the next convolution's fetch: fetched pixels are shared by several products, and each
would have to activate them again.
"""

import triton
import triton.language as tl

from libranet.kernels.conv3x3.triton import pick_row
from libranet.kernels.gelu import gelu


@triton.jit
def _tap(acc, pixels, w0, w1, w2, DY: tl.constexpr):
    """Add one tap's product to an accumulator; DY outside 0..2 means this input row is not its."""
    if DY == 0:
        acc = tl.dot(pixels, w0.T, acc)
    elif DY == 1:
        acc = tl.dot(pixels, w1.T, acc)
    elif DY == 2:
        acc = tl.dot(pixels, w2.T, acc)
    return acc


@triton.jit
def _fetch_pixels(
    x_ptr, m, y, x0, k,
    SIDE: tl.constexpr, WIDTH: tl.constexpr, CIN: tl.constexpr, ROW: tl.constexpr, STEP: tl.constexpr,
    STRIDE: tl.constexpr, LINES: tl.constexpr, COLS: tl.constexpr, BLOCK_K: tl.constexpr,
    PAIRS: tl.constexpr,
):  # fmt: skip
    """One tap's pixels, [LINES * COLS, BLOCK_K]; zeros outside the map."""
    pixel, c = tl.arange(0, LINES * COLS), k + tl.arange(0, BLOCK_K)
    row, column = y + STRIDE * (pixel // COLS), x0 + STRIDE * (pixel % COLS)
    inside = (row >= 0) & (row < STRIDE * SIDE)
    if not PAIRS:
        inside = inside & (column >= 0) & (column < STRIDE * WIDTH)
    elif WIDTH % COLS != 0:
        inside = inside & (column < WIDTH)
    place = x_ptr + m * (STRIDE * SIDE * ROW) + (row * ROW + column * STEP)[:, None] + c[None, :]
    if CIN % BLOCK_K == 0:
        pixels = tl.load(place, mask=inside[:, None], other=0.0)
    else:
        pixels = tl.load(place, mask=inside[:, None] & (c < CIN)[None, :], other=0.0)
    return pixels


@triton.jit
def _fetch_weight(
    weight_ptr, tap, n0, k, CIN: tl.constexpr, COUT: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    """One tap's weights, [BLOCK_N, BLOCK_K]."""
    n, c = n0 + tl.arange(0, BLOCK_N), k + tl.arange(0, BLOCK_K)
    place = weight_ptr + (tap * COUT + n)[:, None] * CIN + c[None, :]
    return tl.load(place, mask=(n < COUT)[:, None] & (c < CIN)[None, :], other=0.0)


@triton.jit
def _convolve(
    x_ptr, weight_ptr, m, tap0, y0, x0, n0,
    SIDE: tl.constexpr, WIDTH: tl.constexpr, CIN: tl.constexpr, COUT: tl.constexpr, ROW: tl.constexpr,
    STEP: tl.constexpr, STRIDE: tl.constexpr, ROWS: tl.constexpr, LINES: tl.constexpr, COLS: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, PAIRS: tl.constexpr,
):  # fmt: skip
    """Accumulators of up to four products of one tile, [LINES * COLS, BLOCK_N] each."""
    acc0 = tl.zeros((LINES * COLS, BLOCK_N), tl.float32)
    acc1, acc2, acc3 = acc0, acc0, acc0
    across: tl.constexpr = 1 if PAIRS else 3
    chunks: tl.constexpr = (CIN + BLOCK_K - 1) // BLOCK_K
    for step in tl.range(0, across * chunks):
        dx = step // chunks
        k = (step % chunks) * BLOCK_K
        w0 = _fetch_weight(weight_ptr, tap0 + dx, n0, k, CIN, COUT, BLOCK_N, BLOCK_K)
        w1 = _fetch_weight(weight_ptr, tap0 + across + dx, n0, k, CIN, COUT, BLOCK_N, BLOCK_K)
        w2 = _fetch_weight(weight_ptr, tap0 + 2 * across + dx, n0, k, CIN, COUT, BLOCK_N, BLOCK_K)
        column = STRIDE * x0 + dx - across // 2
        for i in tl.static_range(ROWS + 2):
            pixels = _fetch_pixels(
                x_ptr, m, STRIDE * y0 + i - 1, column, k,
                SIDE, WIDTH, CIN, ROW, STEP, STRIDE, LINES, COLS, BLOCK_K, PAIRS,
            )  # fmt: skip
            acc0 = _tap(acc0, pixels, w0, w1, w2, i)
            if ROWS > 1:
                acc1 = _tap(acc1, pixels, w0, w1, w2, i - 1)
            if ROWS > 2:
                acc2 = _tap(acc2, pixels, w0, w1, w2, i - 2)
            if ROWS > 3:
                acc3 = _tap(acc3, pixels, w0, w1, w2, i - 3)
    return acc0, acc1, acc2, acc3


@triton.jit
def _store_group_sums(place, total, squares, group, GROUPS: tl.constexpr):
    """Add channels up to groups and store sums and sums of squares."""
    g = tl.arange(0, GROUPS)
    member = group[None, :] == g[:, None]
    tl.store(place + g, tl.sum(tl.where(member, total[None, :], 0.0), axis=1))
    tl.store(place + GROUPS + g, tl.sum(tl.where(member, squares[None, :], 0.0), axis=1))


@triton.jit
def _finish(
    acc, bias_ptr, out, m, y, x0, n0,
    SIDE: tl.constexpr, WIDTH: tl.constexpr, COUT: tl.constexpr, ROWS: tl.constexpr, LINES: tl.constexpr,
    COLS: tl.constexpr, BLOCK_N: tl.constexpr, HAS_BIAS: tl.constexpr, ACTIVATE: tl.constexpr, PLANES: tl.constexpr,
):  # fmt: skip
    """Bias and GELU where wanted, and store, channels last or as planes. Returns what lies inside the map."""
    pixel = tl.arange(0, LINES * COLS)
    row, column = y + pixel // COLS, x0 + pixel % COLS
    n = n0 + tl.arange(0, BLOCK_N)
    inside = (row < SIDE) & (column < WIDTH)
    if HAS_BIAS:
        acc += tl.load(bias_ptr + n, mask=n < COUT, other=0.0)[None, :]
    if ACTIVATE:
        acc = gelu(acc)
    if PLANES:
        place = out + (m * COUT + n[None, :]) * (SIDE * WIDTH) + (row * WIDTH + column)[:, None]
        tl.store(place, acc, mask=inside[:, None] & (n < COUT)[None, :])
    else:
        place = out + ((m * SIDE + row) * WIDTH + column)[:, None] * COUT + n[None, :]
        tl.store(place, acc.to(tl.float16), mask=inside[:, None] & (n < COUT)[None, :])
    if WIDTH % COLS != 0 or SIDE % (ROWS * LINES) != 0:
        acc = tl.where(inside[:, None], acc, 0.0)
    return acc


@triton.jit(do_not_specialize=["each"])
def _conv_kernel(
    x_ptr,  # [maps, STRIDE * SIDE, STRIDE * WIDTH, CIN] fp16, rows ROW values apart, pixels STEP
    weight_ptr,  # [encoders * taps, COUT, CIN] fp16
    bias_ptr,  # [COUT] fp32
    out,  # [maps, side, width, COUT] fp16; with PLANES [maps, COUT, side, width] fp32
    sums_ptr,  # [maps, parts, 2, GROUPS] fp32
    each,  # maps per encoder
    SIDE: tl.constexpr, WIDTH: tl.constexpr, CIN: tl.constexpr, COUT: tl.constexpr, CHANNELS: tl.constexpr,
    GROUPS: tl.constexpr, ROW: tl.constexpr, STEP: tl.constexpr, STRIDE: tl.constexpr,
    ROWS: tl.constexpr, LINES: tl.constexpr, COLS: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    PAIRS: tl.constexpr,
    HAS_BIAS: tl.constexpr, ACTIVATE: tl.constexpr, PLANES: tl.constexpr, HAS_SUMS: tl.constexpr,
):  # fmt: skip
    tiles_x: tl.constexpr = (WIDTH + COLS - 1) // COLS
    blocks_n: tl.constexpr = (COUT + BLOCK_N - 1) // BLOCK_N
    part, m = tl.program_id(0), tl.program_id(1)
    n0 = (part % blocks_n) * BLOCK_N
    tile = part // blocks_n
    y0 = (tile // tiles_x) * (ROWS * LINES)
    x0 = (tile % tiles_x) * COLS
    tap0 = (m // each) * (3 if PAIRS else 9)

    acc0, acc1, acc2, acc3 = _convolve(
        x_ptr, weight_ptr, m, tap0, y0, x0, n0,
        SIDE, WIDTH, CIN, COUT, ROW, STEP, STRIDE, ROWS, LINES, COLS, BLOCK_N, BLOCK_K, PAIRS,
    )  # fmt: skip
    for r in tl.static_range(ROWS):
        kept = _finish(
            pick_row(acc0, acc1, acc2, acc3, r), bias_ptr, out, m, y0 + r, x0, n0,
            SIDE, WIDTH, COUT, ROWS, LINES, COLS, BLOCK_N, HAS_BIAS, ACTIVATE, PLANES,
        )  # fmt: skip
        if r == 0:
            total, squares = kept, kept * kept
        else:
            total, squares = total + kept, squares + kept * kept
    if HAS_SUMS:
        place = sums_ptr + (m * tl.num_programs(0) + part) * 2 * GROUPS
        n = n0 + tl.arange(0, BLOCK_N)
        group = tl.where(n < COUT, n % CHANNELS // (CHANNELS // GROUPS), GROUPS)
        _store_group_sums(place, tl.sum(total, axis=0), tl.sum(squares, axis=0), group, GROUPS)


@triton.jit
def _stem_kernel(
    x_ptr,  # [B, 2 SIDE, 2 SIDE, 4] fp16
    weight_ptr,  # [64, 2 PAD] fp16: (row, four pixels, four channels) padded to 64; (encoder, channel padded to PAD)
    out_ptr,  # [2, B, SIDE, SIDE, COUT] fp16
    sums_ptr,  # [2, B, parts, 2, GROUPS] fp32
    SIDE: tl.constexpr, COUT: tl.constexpr, PAD: tl.constexpr, GROUPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The first convolution, stride 2, of both encoders: they share its input."""
    part, b, batch = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    p = part * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, 64)
    tap = k[None, :] // 4  # three rows of four pixels; the fourth pixel and the rest have no weight
    row, column = 2 * (p // SIDE)[:, None] + tap // 4 - 1, 2 * (p % SIDE)[:, None] + tap % 4 - 1
    inside = (row >= 0) & (column >= 0) & (column < 2 * SIDE) & (tap < 12) & (p < SIDE * SIDE)[:, None]
    place = x_ptr + ((b * 2 * SIDE + row) * 2 * SIDE + column) * 4 + k[None, :] % 4
    pixels = tl.load(place, mask=inside, other=0.0)
    n = tl.arange(0, 2 * PAD)
    acc = tl.dot(pixels, tl.load(weight_ptr + k[:, None] * (2 * PAD) + n[None, :]))
    encoder, c = n // PAD, n % PAD
    place = out_ptr + (((encoder * batch + b) * SIDE * SIDE)[None, :] + p[:, None]) * COUT + c[None, :]
    tl.store(place, acc.to(tl.float16), mask=(p < SIDE * SIDE)[:, None] & (c < COUT)[None, :])
    total, squares = tl.sum(acc, axis=0), tl.sum(acc * acc, axis=0)
    for e in tl.static_range(2):
        group = tl.where(encoder == e, c // (COUT // GROUPS), GROUPS)
        place = sums_ptr + ((e * batch + b) * tl.num_programs(0) + part) * 2 * GROUPS
        _store_group_sums(place, total, squares, group, GROUPS)


@triton.jit(do_not_specialize=["each", "parts", "out_stride"])
def _normalise_kernel(
    raw_ptr,  # [encoders, each, PIXELS, CHANNELS] fp16
    sums_ptr,  # [encoders, each, parts, 2, GROUPS] fp32
    weight_ptr, bias_ptr,  # [encoders, CHANNELS] fp32
    skip_ptr,  # [encoders, each, SIDE, SIDE + SKIP_GAP, CHANNELS] fp16
    out_ptr,  # [encoders, each, SIDE, SIDE + OUT_GAP, CHANNELS] fp16, encoders out_stride pixels apart
    each, parts, out_stride, eps,
    SIDE: tl.constexpr, CHANNELS: tl.constexpr, PAD: tl.constexpr, GROUPS: tl.constexpr, PARTS_PAD: tl.constexpr,
    BLOCK: tl.constexpr, ACTIVATE: tl.constexpr, HAS_SKIP: tl.constexpr,
    SKIP_GAP: tl.constexpr, OUT_GAP: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(1)
    encoder = m // each
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    c = tl.arange(0, PAD)
    real = c < CHANNELS
    at = p * CHANNELS + c[None, :]
    inside = (p < SIDE * SIDE) & real[None, :]
    raw = tl.load(raw_ptr + m * (SIDE * SIDE * CHANNELS) + at, mask=inside, other=0.0)
    if HAS_SKIP:
        place = skip_ptr + m * (SIDE * (SIDE + SKIP_GAP) * CHANNELS) + at + p // SIDE * (SKIP_GAP * CHANNELS)
        skip = tl.load(place, mask=inside, other=0.0)

    part, g = tl.arange(0, PARTS_PAD)[:, None], tl.arange(0, GROUPS)
    place = sums_ptr + (m * parts + part) * 2 * GROUPS + g[None, :]
    count: tl.constexpr = SIDE * SIDE * (CHANNELS // GROUPS)
    mean = tl.sum(tl.load(place, mask=part < parts, other=0.0), axis=0) / count
    square = tl.sum(tl.load(place + GROUPS, mask=part < parts, other=0.0), axis=0) / count
    rstd = 1.0 / tl.sqrt(tl.maximum(square - mean * mean, 0.0) + eps)
    member = (c // (CHANNELS // GROUPS))[:, None] == g[None, :]
    mean = tl.sum(tl.where(member, mean[None, :], 0.0), axis=1)
    factor = tl.sum(tl.where(member, rstd[None, :], 0.0), axis=1)
    factor *= tl.load(weight_ptr + encoder * CHANNELS + c, mask=real, other=0.0)
    summand = tl.load(bias_ptr + encoder * CHANNELS + c, mask=real, other=0.0) - mean * factor

    y = raw.to(tl.float32) * factor[None, :] + summand[None, :]
    if ACTIVATE:
        y = gelu(y)
    if HAS_SKIP:
        y += skip.to(tl.float32)
    place = out_ptr + encoder * out_stride * CHANNELS + (m % each) * (SIDE * (SIDE + OUT_GAP) * CHANNELS) + at
    place += p // SIDE * (OUT_GAP * CHANNELS)
    tl.store(place, y.to(tl.float16), mask=inside)

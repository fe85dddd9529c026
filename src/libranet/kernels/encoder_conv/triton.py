# mypy: disable-error-code="no-untyped-def"
"""Convolutions and norms of two encoders at once: same layers, own weights, maps [2, B, side, side, C] channels last.

The maps are small (at most 128x128), so launches and idle multiprocessors cost more than arithmetic: one launch covers
encoder x frame x tile. A convolution is an implicit matrix product. Every thread fetches by its own pointers: through
tensor descriptors a program of so few steps waits longer for its pixels (measured: up to 1.8 times as long at 16x16).
GroupNorm's sums leave with the output, one part per program; the pass that normalises adds the parts up in a fixed
order, so that results are the same bits every time.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from libranet.kernels.conv3x3.triton import pick_row
from libranet.kernels.gelu import gelu

GROUPS = 8


@dataclass(frozen=True)
class EncoderTile:
    """How a convolution is cut up. Results differ only by rounding."""

    cols: int
    """Output columns per product."""
    lines: int = 1
    """Output rows per product: a product has lines * cols pixels."""
    rows: int = 1
    """Products per program, 1 to 4, one below the other, which share fetched rows; only with lines = 1 and stride 1."""
    block_n: int = 64
    """Output channels per program."""
    block_k: int = 32
    """Input channels per fetch."""
    warps: int = 4
    stages: int = 2
    """Fetches in flight."""
    pairs: bool = False
    """Two pixels side by side as one of twice the channels, for narrow maps: see `pack_pairs`. Only with stride 1."""

    def __str__(self) -> str:
        wide = "x2" if self.pairs else ""
        return f"{self.rows}x{self.lines}x{self.cols}{wide}n{self.block_n}k{self.block_k}w{self.warps}s{self.stages}"

    def parts(self, side: int, channels: int) -> int:
        """Programs per map, which is how many parts its sums come in."""
        wide = 2 if self.pairs else 1
        down, across = triton.cdiv(side, self.rows * self.lines), triton.cdiv(side // wide, self.cols)
        return down * across * triton.cdiv(wide * channels, self.block_n)


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
        out.store([m, y, x0, n0], acc.to(tl.float16).reshape(1, LINES, COLS, BLOCK_N))
    if WIDTH % COLS != 0 or SIDE % (ROWS * LINES) != 0:
        acc = tl.where(inside[:, None], acc, 0.0)
    return acc


@triton.jit(do_not_specialize=["each"])
def _conv_kernel(
    x_ptr,  # [maps, STRIDE * SIDE, STRIDE * WIDTH, CIN] fp16, rows ROW values apart, pixels STEP
    weight_ptr,  # [encoders * taps, COUT, CIN] fp16
    bias_ptr,  # [COUT] fp32
    out,  # descriptor of [maps, side, width, COUT] fp16; with PLANES pointer to [maps, COUT, side, width] fp32
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
    at = p[:, None, None]
    tap = tl.arange(0, 16)[None, :, None]  # three rows of four pixels, of which the fourth has no weight, and nothing
    row, column = 2 * (at // SIDE) + tap // 4 - 1, 2 * (at % SIDE) + tap % 4 - 1
    inside = (row >= 0) & (column >= 0) & (column < 2 * SIDE) & (tap < 12) & (at < SIDE * SIDE)
    place = x_ptr + ((b * 2 * SIDE + row) * 2 * SIDE + column) * 4 + tl.arange(0, 4)[None, None, :]
    pixels = tl.load(place, mask=inside, other=0.0).reshape(BLOCK, 64)
    k = tl.arange(0, 64)
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


def pack_stem(
    weights: Tensor,  # [2, Cout, 3, 3, 3]
) -> Tensor:  # [64, 2 * Cout rounded up to a power of two] fp16
    """The first convolutions' weights as `stem_out` reads them."""
    _, cout, _, _, _ = weights.shape
    pad = max(triton.next_power_of_2(cout), 8)
    packed = torch.zeros(2, pad, 4, 4, 4, device=weights.device)  # [encoder, channel out, row, pixel, channel in]
    packed[:, :cout, :3, :3, :3] = weights.detach().permute(0, 1, 3, 4, 2)
    return packed.flatten(0, 1).flatten(1).T.half().contiguous()


def pack_weights(
    weights: Tensor,  # [encoders, Cout, Cin, 3, 3]
) -> Tensor:  # [encoders * 9, Cout, Cin] fp16
    """Order the encoders' weights by tap."""
    return weights.detach().permute(0, 3, 4, 1, 2).flatten(0, 2).half().contiguous()


def pack_pairs(
    weights: Tensor,  # [encoders, Cout, Cin, 3, 3]
) -> Tensor:  # [encoders * 3, 2 Cout, 4 Cin] fp16
    """Weights for two output pixels side by side from the four input pixels of a row around them.

    A third of them are zero, but four pixels of 24 channels are 96 contiguous values, which is what tensor cores and
    fetches like, where 24 is not; each pixel is fetched twice instead of three times.
    """
    encoders, cout, cin = weights.shape[:3]
    packed = torch.zeros(encoders, 3, 2, cout, 4, cin, device=weights.device)
    by_tap = weights.detach().permute(0, 3, 4, 1, 2)  # [encoders, row, column, Cout, Cin]
    for right in range(2):
        packed[:, :, right, :, right : right + 3] = by_tap.transpose(2, 3)
    return packed.flatten(0, 1).flatten(1, 2).flatten(2).half().contiguous()


def make_maps(
    encoders: int, batch: int, side: int, channels: int, device: torch.device | str
) -> Tensor:  # [encoders, B, side, side, C] fp16
    """Maps of zeros whose rows lie one pixel apart, with one pixel before the first: what `pairs` reads over the edges.

    Nothing may write to those gaps.
    """
    gapped = (encoders, batch, side, side + 1, channels)
    values = torch.zeros(torch.Size(gapped).numel() + channels, dtype=torch.float16, device=device)
    return values[channels:].view(gapped)[:, :, :, :side]


STEM_BLOCK = 256


def stem_parts(side: int) -> int:
    """Parts of the sums that `stem_out` leaves."""
    return triton.cdiv(side * side, STEM_BLOCK)


def stem_out(
    x: Tensor,  # [B, 2 side, 2 side, 4] fp16
    weight: Tensor,  # [64, N] fp16
    out: Tensor,  # [2, B, side, side, C] fp16, written
    sums: Tensor,  # [2, B, parts, 2, 8] fp32, written
) -> None:
    """Convolve with stride 2 by both encoders' weights."""
    _, b, side, _, channels = out.shape
    _stem_kernel[(stem_parts(side), b)](
        x, weight, out, sums,
        SIDE=side, COUT=channels, PAD=weight.shape[1] // 2, GROUPS=GROUPS, BLOCK=STEM_BLOCK, num_warps=8,
    )  # fmt: skip


def conv_out(
    x: Tensor,  # [E, B, side, side, Cin] fp16; with stride 2 twice the side; with `tile.pairs` made by `make_maps`
    weight: Tensor,  # [E * 9, Cout, Cin] fp16; with `tile.pairs` [E * 3, 2 Cout, 4 Cin]
    out: Tensor,  # [E, B, side, side, Cout] fp16, written; with `planes` [E, B, Cout, side, side] fp32
    *,
    tile: EncoderTile,
    stride: int = 1,
    bias: Tensor | None = None,  # [Cout] fp32
    sums: Tensor | None = None,  # [E, B, parts, 2, 8] fp32, written
    activate: bool = False,
    planes: bool = False,
) -> None:
    """Convolve each encoder's maps by its own weights, padding 1; `sums` are for `normalise_out`."""
    encoders, each, _, _, channels = x.shape
    _, cout, cin = weight.shape
    side, maps, row = x.shape[2] // stride, encoders * each, x.stride(2)
    width, step, start = side, channels, x.storage_offset()
    if tile.pairs:
        assert row == (side + 1) * channels
        width, step, start = side // 2, 2 * channels, start - channels
    source = x.as_strided((maps, stride * side, stride * width, cin), (stride * side * row, row, step, 1), start)
    target: Tensor | TensorDescriptor = out
    if not planes:
        block = [1, tile.lines, tile.cols, tile.block_n]
        target = TensorDescriptor.from_tensor(out.view(maps, side, width, cout), block)
    _conv_kernel[(tile.parts(side, weight.shape[1] // (side // width)), maps)](
        source, weight, bias, target, sums, each,
        SIDE=side, WIDTH=width, CIN=cin, COUT=cout, CHANNELS=cout // (side // width), GROUPS=GROUPS,
        ROW=row, STEP=step, STRIDE=stride,
        ROWS=tile.rows, LINES=tile.lines, COLS=tile.cols, BLOCK_N=tile.block_n, BLOCK_K=tile.block_k,
        PAIRS=tile.pairs, HAS_BIAS=bias is not None, ACTIVATE=activate, PLANES=planes, HAS_SUMS=sums is not None,
        num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip

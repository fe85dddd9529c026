# mypy: disable-error-code="no-untyped-def"
"""Residual + keep * GELU(GroupNorm(x)) over channels-last maps for training, forward and backward.

Every sample is divided into chunks of pixels, a program sees [pixels, channels]. Sums leave a chunk per channel and are
added up in a fixed order by one small program per sample, so that the same input gives the same bits.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from libranet.kernels.gelu import gelu, gelu_slope

CHUNKS = 64  # most chunks a sample's sums are taken over
TILE = 4096  # values per step of a program
STEPS = 8  # steps over which a program adds up before it leaves its sums, on maps large enough


@triton.jit
def _tile(block, pixels, C: tl.constexpr, C_PAD: tl.constexpr, BLOCK: tl.constexpr):
    """Offsets and mask of [BLOCK, C_PAD] values of one sample."""
    p = block * BLOCK + tl.arange(0, BLOCK)[:, None]
    c = tl.arange(0, C_PAD)[None, :]
    return p * C + c, (p < pixels) & (c < C)


@triton.jit
def _affine(stats_ptr, weight_ptr, bias_ptr, n, C: tl.constexpr, C_PAD: tl.constexpr, G: tl.constexpr):
    """Mean, 1 / standard deviation, weight and bias of each channel, [1, C_PAD]."""
    c = tl.arange(0, C_PAD)
    real = c < C
    place = stats_ptr + n * 2 * G + c // (C // G)
    mean = tl.load(place, mask=real, other=0.0)[None, :]
    rstd = tl.load(place + G, mask=real, other=0.0)[None, :]
    weight = tl.load(weight_ptr + c, mask=real, other=0.0).to(tl.float32)[None, :]
    return mean, rstd, weight, tl.load(bias_ptr + c, mask=real, other=0.0).to(tl.float32)[None, :]


@triton.jit
def _store_sums(sums_ptr, n, first, second, C: tl.constexpr, C_PAD: tl.constexpr):
    """Leave a chunk's two sums per channel."""
    c = tl.arange(0, C_PAD)
    place = sums_ptr + (n * tl.num_programs(0) + tl.program_id(0)) * 2 * C + c
    tl.store(place, tl.sum(first, axis=0), mask=c < C)
    tl.store(place + C, tl.sum(second, axis=0), mask=c < C)


@triton.jit(do_not_specialize=["pixels"])
def _sums_kernel(
    x_ptr,  # [N, pixels, C]
    sums_ptr,  # [N, chunks, 2, C] fp32: sums and sums of squares
    pixels,
    C: tl.constexpr, C_PAD: tl.constexpr, BLOCK: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(1).to(tl.int64)
    total = tl.zeros((BLOCK, C_PAD), tl.float32)
    squares = tl.zeros((BLOCK, C_PAD), tl.float32)
    for step in range(STEPS):
        at, inside = _tile(tl.program_id(0) * STEPS + step, pixels, C, C_PAD, BLOCK)
        x = tl.load(x_ptr + n * pixels * C + at, mask=inside, other=0.0).to(tl.float32)
        total += x
        squares += x * x
    _store_sums(sums_ptr, n, total, squares, C, C_PAD)


@triton.jit
def _add_chunks(sums_ptr, n, chunks, at, mask, C: tl.constexpr, CHUNKS: tl.constexpr, WHICH: tl.constexpr):
    """One of a sample's two sums at channels [G, PER_PAD], added up over its chunks."""
    chunk = tl.arange(0, CHUNKS)[:, None, None]
    place = sums_ptr + ((n * chunks + chunk) * 2 + WHICH) * C + at[None, :, :]
    return tl.sum(tl.load(place, mask=(chunk < chunks) & mask[None, :, :], other=0.0), axis=0)


@triton.jit(do_not_specialize=["chunks", "count"])
def _stats_kernel(
    sums_ptr,  # [N, chunks, 2, C] fp32
    stats_ptr,  # [N, 2, G] fp32: mean and 1 / standard deviation
    chunks, count, eps,
    C: tl.constexpr, G: tl.constexpr, PER_PAD: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0)
    g, j = tl.arange(0, G), tl.arange(0, PER_PAD)[None, :]
    at, mask = g[:, None] * (C // G) + j, (g[:, None] >= 0) & (j < C // G)
    mean = tl.sum(_add_chunks(sums_ptr, n, chunks, at, mask, C, CHUNKS, 0), axis=1) / count
    square = tl.sum(_add_chunks(sums_ptr, n, chunks, at, mask, C, CHUNKS, 1), axis=1) / count
    tl.store(stats_ptr + n * 2 * G + g, mean)
    tl.store(stats_ptr + n * 2 * G + G + g, 1.0 / tl.sqrt(tl.maximum(square - mean * mean, 0.0) + eps))


@triton.jit(do_not_specialize=["pixels"])
def _normalise_kernel(
    x_ptr,  # [N, pixels, C]
    stats_ptr,  # [N, 2, G] fp32
    weight_ptr, bias_ptr,  # [C]
    residual_ptr,  # [N, pixels, C]
    keep_ptr,  # [N] fp32
    out_ptr,  # [N, pixels, C]
    pixels,
    C: tl.constexpr, C_PAD: tl.constexpr, G: tl.constexpr, BLOCK: tl.constexpr, ACTIVATE: tl.constexpr,
    RESIDUAL: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(1).to(tl.int64)
    mean, rstd, weight, bias = _affine(stats_ptr, weight_ptr, bias_ptr, n, C, C_PAD, G)
    at, inside = _tile(tl.program_id(0), pixels, C, C_PAD, BLOCK)
    at += n * pixels * C
    y = (tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32) - mean) * (rstd * weight) + bias
    if ACTIVATE:
        y = gelu(y)
    if RESIDUAL:
        y = y * tl.load(keep_ptr + n) + tl.load(residual_ptr + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + at, y.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["pixels"])
def _backward_sums_kernel(
    x_ptr, dy_ptr,  # [N, pixels, C]
    stats_ptr, weight_ptr, bias_ptr, keep_ptr,
    sums_ptr,  # [N, chunks, 2, C] fp32: sums of dz and of dz * xhat
    pixels,
    C: tl.constexpr, C_PAD: tl.constexpr, G: tl.constexpr, BLOCK: tl.constexpr, ACTIVATE: tl.constexpr,
    RESIDUAL: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(1).to(tl.int64)
    mean, rstd, weight, bias = _affine(stats_ptr, weight_ptr, bias_ptr, n, C, C_PAD, G)
    total = tl.zeros((BLOCK, C_PAD), tl.float32)
    scaled = tl.zeros((BLOCK, C_PAD), tl.float32)
    for step in range(STEPS):
        at, inside = _tile(tl.program_id(0) * STEPS + step, pixels, C, C_PAD, BLOCK)
        at += n * pixels * C
        xhat = (tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32) - mean) * rstd
        dz = tl.load(dy_ptr + at, mask=inside, other=0.0).to(tl.float32)
        if ACTIVATE:
            dz *= gelu_slope(xhat * weight + bias)
        total += dz
        scaled += dz * xhat
    if RESIDUAL:
        keep = tl.load(keep_ptr + n)
        total *= keep
        scaled *= keep
    _store_sums(sums_ptr, n, total, scaled, C, C_PAD)


@triton.jit(do_not_specialize=["chunks", "count"])
def _backward_stats_kernel(
    sums_ptr,  # [N, chunks, 2, C] fp32
    weight_ptr,
    slopes_ptr,  # [N, 2, C] fp32: a sample's gradients of bias and weight
    means_ptr,  # [N, 2, G] fp32: means over a group of dz * weight and of dz * weight * xhat
    chunks, count,
    C: tl.constexpr, G: tl.constexpr, PER_PAD: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0)
    g, j = tl.arange(0, G), tl.arange(0, PER_PAD)[None, :]
    at, mask = g[:, None] * (C // G) + j, (g[:, None] >= 0) & (j < C // G)
    weight = tl.load(weight_ptr + at, mask=mask, other=0.0).to(tl.float32)
    for which in tl.static_range(2):
        total = _add_chunks(sums_ptr, n, chunks, at, mask, C, CHUNKS, which)
        tl.store(slopes_ptr + (n * 2 + which) * C + at, total, mask=mask)
        tl.store(means_ptr + (n * 2 + which) * G + g, tl.sum(total * weight, axis=1) / count)


@triton.jit(do_not_specialize=["pixels"])
def _backward_kernel(
    x_ptr, dy_ptr,  # [N, pixels, C]
    stats_ptr, weight_ptr, bias_ptr, keep_ptr,
    means_ptr,  # [N, 2, G] fp32
    dx_ptr,
    pixels,
    C: tl.constexpr, C_PAD: tl.constexpr, G: tl.constexpr, BLOCK: tl.constexpr, ACTIVATE: tl.constexpr,
    RESIDUAL: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(1).to(tl.int64)
    mean, rstd, weight, bias = _affine(stats_ptr, weight_ptr, bias_ptr, n, C, C_PAD, G)
    shift, slope, _, _ = _affine(means_ptr, weight_ptr, bias_ptr, n, C, C_PAD, G)
    at, inside = _tile(tl.program_id(0), pixels, C, C_PAD, BLOCK)
    at += n * pixels * C
    xhat = (tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32) - mean) * rstd
    dz = tl.load(dy_ptr + at, mask=inside, other=0.0).to(tl.float32)
    if ACTIVATE:
        dz *= gelu_slope(xhat * weight + bias)
    if RESIDUAL:
        dz *= tl.load(keep_ptr + n)
    dx = (dz * weight - shift - xhat * slope) * rstd
    tl.store(dx_ptr + at, dx.to(dx_ptr.dtype.element_ty), mask=inside)


class _Tiling:
    """How a map is divided among programs."""

    def __init__(self, x: Tensor, groups: int) -> None:
        self.n, channels, height, width = x.shape
        self.pixels = height * width
        self.count = self.pixels * channels // groups
        pad = triton.next_power_of_2(channels)
        block = max(TILE // pad, 1)
        self.blocks = triton.cdiv(self.pixels, block)
        self.steps = max(min(STEPS, self.blocks // STEPS), triton.cdiv(self.blocks, CHUNKS), 1)
        self.chunks = triton.cdiv(self.blocks, self.steps)
        self.sums = {"C": channels, "C_PAD": pad, "BLOCK": block}
        self.tile = {**self.sums, "G": groups}
        per = triton.next_power_of_2(channels // groups)
        self.stats = {"C": channels, "G": groups, "PER_PAD": per, "CHUNKS": triton.next_power_of_2(self.chunks)}

    def partial(self, x: Tensor) -> Tensor:  # [N, chunks, 2, C]
        return torch.empty(self.n, self.chunks, 2, x.shape[1], device=x.device)


class _ResidualNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, residual: Tensor | None, keep: Tensor | None,
        groups: int, eps: float, activate: bool,
    ) -> Tensor:  # fmt: skip
        tiling = _Tiling(x, groups)
        sums, stats = tiling.partial(x), torch.empty(tiling.n, 2, groups, device=x.device)
        _sums_kernel[(tiling.chunks, tiling.n)](x, sums, tiling.pixels, **tiling.sums, STEPS=tiling.steps)
        _stats_kernel[(tiling.n,)](sums, stats, tiling.chunks, tiling.count, eps, **tiling.stats)
        out = torch.empty_like(x)
        switches = {"ACTIVATE": activate, "RESIDUAL": residual is not None}
        _normalise_kernel[(tiling.blocks, tiling.n)](
            x, stats, weight, bias, residual, keep, out, tiling.pixels, **tiling.tile, **switches
        )
        ctx.save_for_backward(x, stats, weight, bias, keep)
        ctx.groups, ctx.switches = groups, switches
        return out

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        x, stats, weight, bias, keep = ctx.saved_tensors
        tiling = _Tiling(x, ctx.groups)
        dy = dy.contiguous(memory_format=torch.channels_last)
        sums, dx = tiling.partial(x), torch.empty_like(x)
        slopes, means = torch.empty(tiling.n, 2, x.shape[1], device=x.device), torch.empty_like(stats)
        known = (x, dy, stats, weight, bias, keep)
        _backward_sums_kernel[(tiling.chunks, tiling.n)](
            *known, sums, tiling.pixels, **tiling.tile, **ctx.switches, STEPS=tiling.steps
        )
        _backward_stats_kernel[(tiling.n,)](sums, weight, slopes, means, tiling.chunks, tiling.count, **tiling.stats)
        _backward_kernel[(tiling.blocks, tiling.n)](*known, means, dx, tiling.pixels, **tiling.tile, **ctx.switches)
        dbias, dweight = slopes.sum(0)
        residual = dy if ctx.switches["RESIDUAL"] else None
        return dx, dweight.to(weight.dtype), dbias.to(bias.dtype), residual, None, None, None, None


@triton.jit(do_not_specialize=["pixels"])
def _bias_kernel(
    x_ptr,  # [N, pixels, C]
    bias_ptr,  # [C]
    residual_ptr,  # [N, pixels, C]
    out_ptr,  # [N, pixels, C]
    pixels,
    C: tl.constexpr, C_PAD: tl.constexpr, BLOCK: tl.constexpr, RESIDUAL: tl.constexpr,
):  # fmt: skip
    at, inside = _tile(tl.program_id(0), pixels, C, C_PAD, BLOCK)
    at += tl.program_id(1).to(tl.int64) * pixels * C
    c = tl.arange(0, C_PAD)[None, :]
    y = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    y += tl.load(bias_ptr + c, mask=c < C, other=0.0).to(tl.float32)
    if RESIDUAL:
        y += tl.load(residual_ptr + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + at, y.to(out_ptr.dtype.element_ty), mask=inside)


class _AddBias(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, residual: Tensor | None) -> Tensor:
        tiling, out = _Tiling(x, 1), torch.empty_like(x)
        ctx.bias_dtype, ctx.has_residual = bias.dtype, residual is not None
        _bias_kernel[(tiling.blocks, tiling.n)](
            x, bias, residual, out, tiling.pixels, **tiling.sums, RESIDUAL=ctx.has_residual
        )
        return out

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:  # type: ignore[override]
        dy = dy.contiguous(memory_format=torch.channels_last)
        tiling = _Tiling(dy, 1)
        sums = tiling.partial(dy)
        _sums_kernel[(tiling.chunks, tiling.n)](dy, sums, tiling.pixels, **tiling.sums, STEPS=tiling.steps)
        return dy, sums[:, :, 0].sum((0, 1)).to(ctx.bias_dtype), dy if ctx.has_residual else None


def add_bias(
    x: Tensor,  # [N, C, h, w], from a convolution without its bias
    bias: Tensor,  # [C]
    residual: Tensor | None = None,  # [N, C, h, w]
) -> Tensor:  # [N, C, h, w], channels last
    """x + bias + residual, and the bias's gradient in one pass over memory."""
    x = x.contiguous(memory_format=torch.channels_last)
    if residual is not None:
        residual = residual.contiguous(memory_format=torch.channels_last)
    return _AddBias.apply(x, bias, residual)


def residual_norm(
    x: Tensor,  # [N, C, h, w]
    weight: Tensor,  # [C]
    bias: Tensor,  # [C]
    groups: int,
    *,
    eps: float = 1e-5,
    activate: bool = True,
    residual: Tensor | None = None,  # [N, C, h, w]
    keep: Tensor | None = None,  # [N] fp32, the branch's factor; needed with a residual
) -> Tensor:  # [N, C, h, w], channels last
    """GELU(GN(x)) or GN(x), or the residual plus `keep` times that. `groups` is a power of two."""
    x = x.contiguous(memory_format=torch.channels_last)
    if residual is not None:
        residual = residual.contiguous(memory_format=torch.channels_last)
    return _ResidualNorm.apply(x, weight, bias, residual, keep, groups, eps, activate)

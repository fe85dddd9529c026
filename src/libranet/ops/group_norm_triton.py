# mypy: disable-error-code="no-untyped-def"
"""GroupNorm + GELU over channels-last maps, forward and backward: two passes over memory each.

PyTorch gives one block to each (sample, group), which leaves most of a large GPU idle on large maps. Here every
sample is cut into chunks of pixels; a program sees a chunk as [groups, pixels, channels of a group].
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from libranet.ops.gelu_triton import gelu, gelu_slope

MAX_CHUNKS = 128


@triton.jit
def _tile_offsets(
    chunk, pixels,
    CHANNELS: tl.constexpr, GROUPS: tl.constexpr, PER: tl.constexpr, PER_PAD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Offsets and mask of [GROUPS, BLOCK, PER_PAD] values of one sample, and offsets and mask of their channels."""
    g = tl.arange(0, GROUPS)[:, None, None]
    p = chunk * BLOCK + tl.arange(0, BLOCK)[None, :, None]
    j = tl.arange(0, PER_PAD)[None, None, :]
    return p * CHANNELS + g * PER + j, (p < pixels) & (j < PER), g * PER + j, (j < PER) & (g < GROUPS)


@triton.jit(do_not_specialize=["pixels"])
def _sums_kernel(
    x_ptr,  # [N, pixels, CHANNELS]
    sums_ptr,  # [N, chunks, 2, GROUPS] fp32
    pixels,
    CHANNELS: tl.constexpr, GROUPS: tl.constexpr, PER: tl.constexpr, PER_PAD: tl.constexpr, BLOCK: tl.constexpr,
    STEPS: tl.constexpr,
):  # fmt: skip
    chunk, n = tl.program_id(0), tl.program_id(1)
    x_ptr += n.to(tl.int64) * pixels * CHANNELS
    total = tl.zeros((GROUPS, BLOCK, PER_PAD), tl.float32)
    squares = total
    for step in range(STEPS):
        at, inside, _, _ = _tile_offsets(chunk * STEPS + step, pixels, CHANNELS, GROUPS, PER, PER_PAD, BLOCK)
        x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
        total += x
        squares += x * x
    place = sums_ptr + (n * tl.num_programs(0) + chunk) * 2 * GROUPS + tl.arange(0, GROUPS)
    tl.store(place, tl.sum(tl.sum(total, axis=2), axis=1))
    tl.store(place + GROUPS, tl.sum(tl.sum(squares, axis=2), axis=1))


@triton.jit
def _mean_rstd(sums_ptr, n, chunks, count, eps, GROUPS: tl.constexpr, CHUNKS_PAD: tl.constexpr):
    """Add up a sample's partial sums: mean and 1 / standard deviation, [GROUPS] each."""
    c = tl.arange(0, CHUNKS_PAD)[:, None]
    place = sums_ptr + (n * chunks + c) * 2 * GROUPS + tl.arange(0, GROUPS)[None, :]
    mean = tl.sum(tl.load(place, mask=c < chunks, other=0.0), axis=0) / count
    square = tl.sum(tl.load(place + GROUPS, mask=c < chunks, other=0.0), axis=0) / count
    return mean, 1.0 / tl.sqrt(tl.maximum(square - mean * mean, 0.0) + eps)


@triton.jit(do_not_specialize=["pixels", "chunks"])
def _normalise_kernel(
    x_ptr,  # [N, pixels, CHANNELS]
    sums_ptr,  # [N, chunks, 2, GROUPS] fp32
    weight_ptr, bias_ptr,  # [CHANNELS]
    residual_ptr,  # [N, pixels, CHANNELS]
    out_ptr,  # [N, pixels, CHANNELS]
    pixels, chunks, eps,
    CHANNELS: tl.constexpr, GROUPS: tl.constexpr, PER: tl.constexpr, PER_PAD: tl.constexpr, BLOCK: tl.constexpr,
    CHUNKS_PAD: tl.constexpr, ACTIVATE: tl.constexpr, HAS_RESIDUAL: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(1)
    mean, rstd = _mean_rstd(sums_ptr, n, chunks, pixels * PER, eps, GROUPS, CHUNKS_PAD)
    base = n.to(tl.int64) * pixels * CHANNELS
    at, inside, channel, real = _tile_offsets(tl.program_id(0), pixels, CHANNELS, GROUPS, PER, PER_PAD, BLOCK)
    x = tl.load(x_ptr + base + at, mask=inside, other=0.0).to(tl.float32)
    factor = tl.load(weight_ptr + channel, mask=real, other=0.0).to(tl.float32) * rstd[:, None, None]
    y = (x - mean[:, None, None]) * factor + tl.load(bias_ptr + channel, mask=real, other=0.0).to(tl.float32)
    if ACTIVATE:
        y = gelu(y)
    if HAS_RESIDUAL:
        y += tl.load(residual_ptr + base + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + base + at, y.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["pixels", "chunks"])
def _backward_sums_kernel(
    x_ptr, dy_ptr,  # [N, pixels, CHANNELS]
    sums_ptr,  # [N, chunks, 2, GROUPS] fp32
    weight_ptr, bias_ptr,
    out_ptr,  # [N, parts, 2, CHANNELS] fp32: sums of dz and of dz * xhat
    pixels, chunks, eps,
    CHANNELS: tl.constexpr, GROUPS: tl.constexpr, PER: tl.constexpr, PER_PAD: tl.constexpr, BLOCK: tl.constexpr,
    CHUNKS_PAD: tl.constexpr, ACTIVATE: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    part, n = tl.program_id(0), tl.program_id(1)
    mean, rstd = _mean_rstd(sums_ptr, n, chunks, pixels * PER, eps, GROUPS, CHUNKS_PAD)
    base = n.to(tl.int64) * pixels * CHANNELS
    total = tl.zeros((GROUPS, BLOCK, PER_PAD), tl.float32)
    scaled = total
    for step in range(STEPS):
        at, inside, channel, real = _tile_offsets(part * STEPS + step, pixels, CHANNELS, GROUPS, PER, PER_PAD, BLOCK)
        x = tl.load(x_ptr + base + at, mask=inside, other=0.0).to(tl.float32)
        dz = tl.load(dy_ptr + base + at, mask=inside, other=0.0).to(tl.float32)
        xhat = (x - mean[:, None, None]) * rstd[:, None, None]
        if ACTIVATE:
            weight = tl.load(weight_ptr + channel, mask=real, other=0.0).to(tl.float32)
            bias = tl.load(bias_ptr + channel, mask=real, other=0.0).to(tl.float32)
            dz *= gelu_slope(xhat * weight + bias)
        total += dz
        scaled += dz * xhat
    g = tl.arange(0, GROUPS)[:, None]
    j = tl.arange(0, PER_PAD)[None, :]
    place = out_ptr + (n * tl.num_programs(0) + part) * 2 * CHANNELS + g * PER + j
    tl.store(place, tl.sum(total, axis=1), mask=j < PER)
    tl.store(place + CHANNELS, tl.sum(scaled, axis=1), mask=j < PER)


@triton.jit(do_not_specialize=["pixels", "chunks"])
def _backward_kernel(
    x_ptr, dy_ptr,  # [N, pixels, CHANNELS]
    sums_ptr,  # [N, chunks, 2, GROUPS] fp32
    weight_ptr, bias_ptr,
    means_ptr,  # [N, 2, GROUPS] fp32: means over a group of dz * weight and of dz * weight * xhat
    dx_ptr,
    pixels, chunks, eps,
    CHANNELS: tl.constexpr, GROUPS: tl.constexpr, PER: tl.constexpr, PER_PAD: tl.constexpr, BLOCK: tl.constexpr,
    CHUNKS_PAD: tl.constexpr, ACTIVATE: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(1)
    mean, rstd = _mean_rstd(sums_ptr, n, chunks, pixels * PER, eps, GROUPS, CHUNKS_PAD)
    base = n.to(tl.int64) * pixels * CHANNELS
    at, inside, channel, real = _tile_offsets(tl.program_id(0), pixels, CHANNELS, GROUPS, PER, PER_PAD, BLOCK)
    x = tl.load(x_ptr + base + at, mask=inside, other=0.0).to(tl.float32)
    dz = tl.load(dy_ptr + base + at, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + channel, mask=real, other=0.0).to(tl.float32)
    xhat = (x - mean[:, None, None]) * rstd[:, None, None]
    if ACTIVATE:
        dz *= gelu_slope(xhat * weight + tl.load(bias_ptr + channel, mask=real, other=0.0).to(tl.float32))
    g = tl.arange(0, GROUPS)
    shift = tl.load(means_ptr + n * 2 * GROUPS + g)[:, None, None]
    slope = tl.load(means_ptr + n * 2 * GROUPS + GROUPS + g)[:, None, None]
    dx = (dz * weight - shift - xhat * slope) * rstd[:, None, None]
    tl.store(dx_ptr + base + at, dx.to(dx_ptr.dtype.element_ty), mask=inside)


class _GroupNormGelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, residual, groups, eps, activate):  # type: ignore[no-untyped-def]
        shape = _Shape(x, groups)
        sums = torch.empty(x.shape[0], shape.chunks, 2, groups, device=x.device, dtype=torch.float32)
        out = torch.empty_like(x)
        _sums_kernel[(shape.chunks, x.shape[0])](x, sums, shape.pixels, **shape.meta, STEPS=shape.steps)
        _normalise_kernel[(shape.blocks, x.shape[0])](
            x, sums, weight, bias, residual, out, shape.pixels, shape.chunks, eps, **shape.meta,
            CHUNKS_PAD=shape.chunks_pad, ACTIVATE=activate, HAS_RESIDUAL=residual is not None,
        )  # fmt: skip
        ctx.save_for_backward(x, weight, bias, sums)
        ctx.settings = (groups, eps, activate, residual is not None)
        return out

    @staticmethod
    def backward(ctx, dy):  # type: ignore[no-untyped-def]
        x, weight, bias, sums = ctx.saved_tensors
        groups, eps, activate, has_residual = ctx.settings
        shape, n = _Shape(x, groups), x.shape[0]
        dy = dy.contiguous(memory_format=torch.channels_last)
        parts = torch.empty(n, shape.chunks, 2, x.shape[1], device=x.device, dtype=torch.float32)
        common = {**shape.meta, "CHUNKS_PAD": shape.chunks_pad, "ACTIVATE": activate}
        _backward_sums_kernel[(shape.chunks, n)](
            x, dy, sums, weight, bias, parts, shape.pixels, shape.chunks, eps, **common, STEPS=shape.steps
        )
        per_channel = parts.sum(1)  # [N, 2, C]
        means = (per_channel * weight.float()).unflatten(2, (groups, -1)).sum(3) / (shape.pixels * shape.per)
        dx = torch.empty_like(x)
        _backward_kernel[(shape.blocks, n)](
            x, dy, sums, weight, bias, means, dx, shape.pixels, shape.chunks, eps, **common
        )
        dbias, dweight = per_channel.sum(0)
        return dx, dweight.to(weight.dtype), dbias.to(bias.dtype), dy if has_residual else None, None, None, None


class _Shape:
    """How a map is cut into chunks."""

    def __init__(self, x: Tensor, groups: int) -> None:
        _, channels, height, width = x.shape
        self.pixels, self.per = height * width, channels // groups
        per_pad = triton.next_power_of_2(self.per)
        block = max(16, 4096 // (groups * per_pad))
        self.blocks = triton.cdiv(self.pixels, block)
        self.steps = triton.cdiv(self.blocks, MAX_CHUNKS)
        self.chunks = triton.cdiv(self.blocks, self.steps)
        self.chunks_pad = triton.next_power_of_2(self.chunks)
        self.meta = {"CHANNELS": channels, "GROUPS": groups, "PER": self.per, "PER_PAD": per_pad, "BLOCK": block}


def group_norm_gelu(
    x: Tensor,  # [N, C, h, w], channels last
    weight: Tensor,  # [C]
    bias: Tensor,  # [C]
    groups: int,
    *,
    eps: float = 1e-5,
    activate: bool = True,
    residual: Tensor | None = None,  # [N, C, h, w], channels last
) -> Tensor:  # [N, C, h, w], channels last
    """What `group_norm_torch.group_norm_gelu` computes. `groups` is a power of two."""
    x = x.contiguous(memory_format=torch.channels_last)
    if residual is not None:
        residual = residual.contiguous(memory_format=torch.channels_last)
    return _GroupNormGelu.apply(x, weight, bias, residual, groups, eps, activate)

# mypy: disable-error-code="no-untyped-def"
"""The refiner's passes between convolutions: fold sums into GroupNorm, then normalise + GELU (+ mix + skip)."""

import triton
import triton.language as tl

from libranet.kernels.gelu import gelu


@triton.jit(do_not_specialize=["tiles", "count"])
def _fold_kernel(
    sums_ptr,  # [B, tiles, 2, GROUPS] fp32
    weight_ptr, bias_ptr,  # [CHANNELS] fp32
    fold_ptr,  # [B, 2, CHANNELS] fp32
    tiles, count, eps,
    CHANNELS: tl.constexpr, GROUPS: tl.constexpr, BLOCK: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    g, b = tl.program_id(0), tl.program_id(1)
    total = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for step in range(STEPS):
        t = step * BLOCK + tl.arange(0, BLOCK)
        place = sums_ptr + (b * tiles + t) * 2 * GROUPS + g
        total += tl.load(place, mask=t < tiles, other=0.0)
        squares += tl.load(place + GROUPS, mask=t < tiles, other=0.0)
    mean = tl.sum(total, axis=0) / count
    rstd = 1.0 / tl.sqrt(tl.maximum(tl.sum(squares, axis=0) / count - mean * mean, 0.0) + eps)
    c = g * (CHANNELS // GROUPS) + tl.arange(0, CHANNELS // GROUPS)
    factor = tl.load(weight_ptr + c) * rstd
    tl.store(fold_ptr + b * 2 * CHANNELS + c, factor)
    tl.store(fold_ptr + (b * 2 + 1) * CHANNELS + c, tl.load(bias_ptr + c) - mean * factor)


@triton.jit(do_not_specialize=["pixels"])
def _normalise_mix_kernel(
    raw_ptr,  # [B, pixels, CHANNELS] fp16, a convolution's output
    skip_ptr,  # [B, pixels, CHANNELS] fp16
    fold_ptr,  # [B, 2, CHANNELS] fp32
    mix_ptr,  # [CHANNELS out, CHANNELS in] fp16
    mix_bias_ptr,  # [CHANNELS] fp32
    out_ptr,  # [B, pixels, out_stride] fp16, its first CHANNELS written
    pixels, out_stride,
    CHANNELS: tl.constexpr, BLOCK: tl.constexpr, HAS_MIX: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(1).to(tl.int64)
    c = tl.arange(0, CHANNELS)
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    at = b * pixels * CHANNELS + (p * CHANNELS + c[None, :])
    inside = p < pixels
    factor = tl.load(fold_ptr + b * 2 * CHANNELS + c)[None, :]
    summand = tl.load(fold_ptr + (b * 2 + 1) * CHANNELS + c)[None, :]
    if HAS_MIX:
        mix = tl.load(mix_ptr + c[None, :] * CHANNELS + c[:, None])  # [in, out]
        mix_bias = tl.load(mix_bias_ptr + c)[None, :]
    y = gelu(tl.load(raw_ptr + at, mask=inside, other=0.0).to(tl.float32) * factor + summand)
    if HAS_MIX:
        skip = tl.load(skip_ptr + at, mask=inside, other=0.0)
        y = tl.dot(y.to(tl.float16), mix) + mix_bias + skip.to(tl.float32)
    tl.store(out_ptr + (b * pixels + p) * out_stride + c[None, :], y.to(tl.float16), mask=inside)


@triton.jit(do_not_specialize=["height", "width"])
def _structure_kernel(
    small_ptr,  # [B, 3, h, w] fp32 in [0, 1]
    weight_ptr,  # [CHANNELS, 32] fp16: 27 taps in the order (dy, dx, colour), then zeros
    fold_ptr,  # [B, 2, CHANNELS] fp32, read when APPLY
    sums_ptr,  # [B, h * tiles of a row, 2, GROUPS] fp32, written when not APPLY
    out_ptr,  # [B, h, w, CHANNELS] fp16, written when APPLY
    height, width,
    CHANNELS: tl.constexpr, GROUPS: tl.constexpr, BLOCK: tl.constexpr, APPLY: tl.constexpr,
):  # fmt: skip
    """The structure stream's first convolution. Three channels are so cheap to convolve that it is done twice, once
    for GroupNorm's sums and once for the result, instead of storing and reading the raw map.

    A program's pixels lie in one row, so that neighbouring threads fetch neighbouring pixels."""
    y, b = tl.program_id(1), tl.program_id(2).to(tl.int64)
    pixels = height * width
    x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    k, c = tl.arange(0, 32)[None, :], tl.arange(0, CHANNELS)
    near_y, near_x = y + k // 9 - 1, x + (k // 3) % 3 - 1
    real = (k < 27) & (x < width) & (near_y >= 0) & (near_y < height) & (near_x >= 0) & (near_x < width)
    place = small_ptr + b * 3 * pixels + ((k % 3) * pixels + near_y * width) + near_x
    window = tl.load(place, mask=real, other=0.0)  # [BLOCK, 32], all zero for pixels outside
    window = window.to(tl.float16)
    weight = tl.load(weight_ptr + c[:, None] * 32 + k)  # [CHANNELS, 32]
    if APPLY:
        raw = tl.dot(window, weight.T)
        factor = tl.load(fold_ptr + b * 2 * CHANNELS + c)[None, :]
        summand = tl.load(fold_ptr + (b * 2 + 1) * CHANNELS + c)[None, :]
        place = out_ptr + ((b * height + y) * width + x) * CHANNELS + c[None, :]
        tl.store(place, gelu(raw * factor + summand).to(tl.float16), mask=x < width)
    else:  # pixels outside have an all-zero window, so they add nothing
        raw = tl.dot(weight, window.T)  # pixels as columns: a thread adds its own up before threads add theirs
        tile = (b * height + y) * tl.num_programs(0) + tl.program_id(0)
        place = sums_ptr + tile * 2 * GROUPS + tl.arange(0, GROUPS)
        tl.store(place, tl.sum(tl.sum(raw, axis=1).reshape(GROUPS, CHANNELS // GROUPS), axis=1))
        tl.store(place + GROUPS, tl.sum(tl.sum(raw * raw, axis=1).reshape(GROUPS, CHANNELS // GROUPS), axis=1))

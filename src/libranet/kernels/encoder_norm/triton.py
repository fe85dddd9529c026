# mypy: disable-error-code="no-untyped-def"
"""GroupNorm of both encoders' maps, with the GELU or the skip connection that follows it.

A pass of its own and not part of the next convolution's fetch: fetched pixels are shared by several products, and each
would have to activate them again.
"""

import triton
import triton.language as tl
from torch import Tensor

from libranet.kernels.encoder_conv.triton import GROUPS
from libranet.kernels.gelu import gelu


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


def normalise_out(
    raw: Tensor,  # [E, B, side, side, C] fp16
    sums: Tensor,  # [E, B, parts, 2, 8] fp32
    weight: Tensor,  # [E, C] fp32
    bias: Tensor,  # [E, C] fp32
    out: Tensor,  # [E, B, side, side, C] fp16, written; may be `skip`
    *,
    eps: float = 1e-5,
    skip: Tensor | None = None,  # [E, B, side, side, C] fp16
    block: int = 4096,  # values per program
    warps: int = 4,
) -> None:
    """GELU(GroupNorm(raw)), or GroupNorm(raw) + skip."""
    encoders, each, side, _, channels = raw.shape
    pad = triton.next_power_of_2(channels)
    pixels = max(block // pad, 1)
    parts = sums.shape[2]
    _normalise_kernel[(triton.cdiv(side * side, pixels), encoders * each)](
        raw, sums, weight, bias, skip, out, each, parts, out.stride(0) // channels, eps,
        SIDE=side, CHANNELS=channels, PAD=pad, GROUPS=GROUPS, PARTS_PAD=triton.next_power_of_2(parts),
        BLOCK=pixels, ACTIVATE=skip is None, HAS_SKIP=skip is not None,
        SKIP_GAP=0 if skip is None else skip.stride(2) // channels - side, OUT_GAP=out.stride(2) // channels - side,
        num_warps=warps,
    )  # fmt: skip

# mypy: disable-error-code="no-untyped-def"
"""The transformer block along time, at each position of the grid on its own: two kernels from features to mixed map."""

import triton
import triton.language as tl

from libranet.kernels.gelu import gelu


@triton.jit(do_not_specialize_on_alignment=["windows_ptr"])
def _keys_kernel(
    features_ptr,  # [ring, POSITIONS, C] fp16
    windows_ptr,  # [B, T] int64, slots of the ring
    position_ptr,  # [T, C] fp32
    weight_ptr, bias_ptr,  # [3 N, C] fp16, [3 N] fp32
    out_ptr,  # [B, T, POSITIONS, 3 N] fp16; queries only where t is the centre
    eps,
    T: tl.constexpr, POSITIONS: tl.constexpr, C: tl.constexpr, N: tl.constexpr,
    BLOCK: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """LayerNorm(features + position) times the key, value and query matrices."""
    window, t = tl.program_id(1), tl.program_id(1) % T
    tile, n0 = tl.program_id(0) * BLOCK, tl.program_id(2) * BLOCK_N
    if n0 >= 2 * N and t != T // 2:
        return
    p = tile + tl.arange(0, BLOCK)
    n = n0 + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    there = p < POSITIONS
    source = features_ptr + tl.load(windows_ptr + window) * POSITIONS * C
    total = tl.zeros((BLOCK,), tl.float32)
    squares = total
    for chunk in tl.static_range((C + BLOCK_K - 1) // BLOCK_K):
        c = chunk * BLOCK_K + k
        x = tl.load(source + p[:, None] * C + c[None, :], mask=there[:, None] & (c < C)[None, :], other=0.0)
        x = x.to(tl.float32) + tl.load(position_ptr + t * C + c, mask=c < C, other=0.0)[None, :]
        total += tl.sum(x, axis=1)
        squares += tl.sum(x * x, axis=1)
    mean = total / C
    rstd = 1.0 / tl.sqrt(tl.maximum(squares / C - mean * mean, 0.0) + eps)
    acc = tl.zeros((BLOCK, BLOCK_N), tl.float32)
    for chunk in tl.static_range((C + BLOCK_K - 1) // BLOCK_K):
        c = chunk * BLOCK_K + k
        x = tl.load(source + p[:, None] * C + c[None, :], mask=there[:, None] & (c < C)[None, :], other=0.0)
        x = x.to(tl.float32) + tl.load(position_ptr + t * C + c, mask=c < C, other=0.0)[None, :]
        x = (x - mean[:, None]) * rstd[:, None]
        weight = tl.load(weight_ptr + n[None, :] * C + c[:, None], mask=(c < C)[:, None], other=0.0)
        acc = tl.dot(x.to(tl.float16), weight, acc)
    acc += tl.load(bias_ptr + n)[None, :]
    place = out_ptr + (window * POSITIONS + p[:, None]).to(tl.int64) * (3 * N) + n[None, :]
    tl.store(place, acc.to(tl.float16), mask=there[:, None])


@triton.jit
def _attend(
    keys_ptr, b, p, first,
    T: tl.constexpr, POSITIONS: tl.constexpr, N: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The centre frame's attention over the window, for HEADS heads from channel `first` on: [BLOCK, HEADS * WIDTH]."""
    h = tl.arange(0, HEADS)[None, :, None] * WIDTH + tl.arange(0, WIDTH)[None, None, :] + first
    there = (p < POSITIONS)[:, None, None]
    row = (b * T * POSITIONS + p).to(tl.int64)[:, None, None] * (3 * N) + h
    centre: tl.constexpr = T // 2
    query = tl.load(keys_ptr + row + centre * POSITIONS * 3 * N + 2 * N, mask=there, other=0.0).to(tl.float32)
    best = tl.full((BLOCK, HEADS), float("-inf"), tl.float32)
    norm = tl.zeros((BLOCK, HEADS), tl.float32)
    mixed = tl.zeros((BLOCK, HEADS, WIDTH), tl.float32)
    for t in tl.static_range(T):
        key = tl.load(keys_ptr + row + t * POSITIONS * 3 * N, mask=there, other=0.0).to(tl.float32)
        value = tl.load(keys_ptr + row + t * POSITIONS * 3 * N + N, mask=there, other=0.0).to(tl.float32)
        score = tl.sum(query * key, axis=2)
        higher = tl.maximum(best, score)
        keep, share = tl.exp(best - higher), tl.exp(score - higher)
        norm = norm * keep + share
        mixed = mixed * keep[:, :, None] + share[:, :, None] * value
        best = higher
    return (mixed / norm[:, :, None]).reshape(BLOCK, HEADS * WIDTH)


@triton.jit(do_not_specialize_on_alignment=["windows_ptr"])
def _mix_kernel(
    features_ptr,  # [ring, POSITIONS, C] fp16
    windows_ptr,  # [B, T] int64
    position_ptr,  # [T, C] fp32
    keys_ptr,  # [B, T, POSITIONS, 3 N] fp16
    out_weight_ptr, out_bias_ptr,  # [N, C] fp16, [C] fp32
    expand_ptr, expand_bias_ptr,  # [C, HIDDEN] fp16, [HIDDEN] fp32
    shrink_ptr, shrink_bias_ptr,  # [HIDDEN, C] fp16, [C] fp32
    out_ptr,  # [B, POSITIONS, C] fp16
    eps,
    T: tl.constexpr, POSITIONS: tl.constexpr, C: tl.constexpr, PAD: tl.constexpr, N: tl.constexpr,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, HIDDEN: tl.constexpr, BLOCK: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    """Attention, its output matrix, skip, LayerNorm, feed-forward, skip. HEADS heads at a time."""
    b = tl.program_id(1)
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.arange(0, PAD)
    real = c < C
    inside = (p < POSITIONS)[:, None] & real[None, :]
    centre: tl.constexpr = T // 2
    slot = tl.load(windows_ptr + b * T + centre)
    kept = tl.load(features_ptr + (slot * POSITIONS + p[:, None]) * C + c[None, :], mask=inside, other=0.0).to(
        tl.float32
    )
    kept += tl.load(position_ptr + centre * C + c, mask=real, other=0.0)[None, :]
    kept += tl.load(out_bias_ptr + c, mask=real, other=0.0)[None, :]
    j = tl.arange(0, HEADS * WIDTH)
    for first in range(0, N, HEADS * WIDTH):
        mixed = _attend(keys_ptr, b, p, first, T, POSITIONS, N, HEADS, WIDTH, BLOCK)
        weight = tl.load(out_weight_ptr + (first + j)[:, None] * C + c[None, :], mask=real[None, :], other=0.0)
        kept = tl.dot(mixed.to(tl.float16), weight, kept)
    mean = tl.sum(tl.where(real[None, :], kept, 0.0), axis=1) / C
    apart = tl.where(real[None, :], kept - mean[:, None], 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(apart * apart, axis=1) / C + eps)
    normed = (apart * rstd[:, None]).to(tl.float16)
    kept += tl.load(shrink_bias_ptr + c, mask=real, other=0.0)[None, :]
    for h0 in range(0, HIDDEN, BLOCK_H):
        h = h0 + tl.arange(0, BLOCK_H)
        weight = tl.load(
            expand_ptr + c[:, None] * HIDDEN + h[None, :], mask=real[:, None] & (h < HIDDEN)[None, :], other=0.0
        )
        hidden = gelu(tl.dot(normed, weight) + tl.load(expand_bias_ptr + h, mask=h < HIDDEN, other=0.0)[None, :])
        weight = tl.load(
            shrink_ptr + h[:, None] * C + c[None, :], mask=real[None, :] & (h < HIDDEN)[:, None], other=0.0
        )
        kept = tl.dot(hidden.to(tl.float16), weight, kept)
    tl.store(out_ptr + (b * POSITIONS + p[:, None]) * C + c[None, :], kept.to(tl.float16), mask=inside)

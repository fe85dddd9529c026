# mypy: disable-error-code="no-untyped-def"
"""Attention over very short sequences, forward and backward, where a library's kernels compute mostly padding.

A program holds whole sequences of one head: [BLOCK, query, key, channel] fits into registers for T up to 8.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _places(
    t, n_total, T: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr, T_PAD: tl.constexpr,
    D_PAD: tl.constexpr,
):  # fmt: skip
    """Row numbers [BLOCK, T_PAD, 1], channels [1, 1, D_PAD] of one head, and the mask of both."""
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None, None]
    d = tl.arange(0, D_PAD)[None, None, :]
    return (n * T + t).to(tl.int64), tl.program_id(1) * D + d, (n < n_total) & (t < T) & (d < D)


@triton.jit
def _softmax(q, k, scale, T: tl.constexpr, T_PAD: tl.constexpr):
    """Weights [BLOCK, query, key]; padded keys weigh nothing."""
    scores = tl.sum(q[:, :, None, :] * k[:, None, :, :], axis=3) * scale
    scores = tl.where(tl.arange(0, T_PAD)[None, None, :] < T, scores, float("-inf"))
    weights = tl.exp(scores - tl.max(scores, axis=2)[:, :, None])
    return weights / tl.sum(weights, axis=2)[:, :, None]


@triton.jit(do_not_specialize=["n_total"])
def _attend_kernel(
    q_ptr,  # [N, T, HEADS * D]
    kv_ptr,  # [N, T, 2 * HEADS * D]
    out_ptr,  # [N, T, HEADS * D]
    n_total, scale,
    T: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr, T_PAD: tl.constexpr,
    D_PAD: tl.constexpr,
):  # fmt: skip
    t = tl.arange(0, T_PAD)[None, :, None]
    row, column, inside = _places(t, n_total, T, HEADS, D, BLOCK, T_PAD, D_PAD)
    width: tl.constexpr = HEADS * D
    q = tl.load(q_ptr + row * width + column, mask=inside, other=0.0).to(tl.float32)
    k = tl.load(kv_ptr + row * 2 * width + column, mask=inside, other=0.0).to(tl.float32)
    v = tl.load(kv_ptr + row * 2 * width + width + column, mask=inside, other=0.0).to(tl.float32)
    weights = _softmax(q, k, scale, T, T_PAD)
    out = tl.sum(weights[:, :, :, None] * v[:, None, :, :], axis=2)
    tl.store(out_ptr + row * width + column, out.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["n_total"])
def _attend_backward_kernel(
    q_ptr, kv_ptr, grad_ptr, dq_ptr, dkv_ptr,
    n_total, scale,
    T: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr, T_PAD: tl.constexpr,
    D_PAD: tl.constexpr,
):  # fmt: skip
    t = tl.arange(0, T_PAD)[None, :, None]
    row, column, inside = _places(t, n_total, T, HEADS, D, BLOCK, T_PAD, D_PAD)
    width: tl.constexpr = HEADS * D
    q = tl.load(q_ptr + row * width + column, mask=inside, other=0.0).to(tl.float32)
    k = tl.load(kv_ptr + row * 2 * width + column, mask=inside, other=0.0).to(tl.float32)
    v = tl.load(kv_ptr + row * 2 * width + width + column, mask=inside, other=0.0).to(tl.float32)
    grad = tl.load(grad_ptr + row * width + column, mask=inside, other=0.0).to(tl.float32)
    weights = _softmax(q, k, scale, T, T_PAD)
    dv = tl.sum(weights[:, :, :, None] * grad[:, :, None, :], axis=1)
    dweights = tl.sum(grad[:, :, None, :] * v[:, None, :, :], axis=3)
    dscores = weights * (dweights - tl.sum(weights * dweights, axis=2)[:, :, None]) * scale
    dq = tl.sum(dscores[:, :, :, None] * k[:, None, :, :], axis=2)
    dk = tl.sum(dscores[:, :, :, None] * q[:, :, None, :], axis=1)
    kind = dq_ptr.dtype.element_ty
    tl.store(dq_ptr + row * width + column, dq.to(kind), mask=inside)
    tl.store(dkv_ptr + row * 2 * width + column, dk.to(kind), mask=inside)
    tl.store(dkv_ptr + row * 2 * width + width + column, dv.to(kind), mask=inside)


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key_value: Tensor, heads: int) -> Tensor:
        ctx.save_for_backward(query, key_value)
        ctx.heads = heads
        out = torch.empty_like(query)
        grid, numbers, meta = _launch(query, heads)
        _attend_kernel[grid](query, key_value, out, *numbers, **meta)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:  # type: ignore[override]
        query, key_value = ctx.saved_tensors
        dq, dkv = torch.empty_like(query), torch.empty_like(key_value)
        grid, numbers, meta = _launch(query, ctx.heads)
        _attend_backward_kernel[grid](query, key_value, grad.contiguous(), dq, dkv, *numbers, **meta)
        return dq, dkv, None


def _launch(query: Tensor, heads: int) -> tuple[tuple[int, int], tuple[int, float], dict[str, int]]:
    n, t, width = query.shape
    d, block = width // heads, 4
    pads = {"T_PAD": triton.next_power_of_2(t), "D_PAD": triton.next_power_of_2(d)}
    return (triton.cdiv(n, block), heads), (n, d**-0.5), {"T": t, "HEADS": heads, "D": d, "BLOCK": block, **pads}


def attend(
    query: Tensor,  # [N, T, C]
    key_value: Tensor,  # [N, T, 2 * C]
    heads: int,
) -> Tensor:  # [N, T, C]
    """What `scaled_dot_product_attention` computes for each head, T at most 8."""
    return _Attend.apply(query.contiguous(), key_value.contiguous(), heads)

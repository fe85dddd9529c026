# mypy: disable-error-code="no-untyped-def"
"""Attention over very short sequences, forward and backward, where a library's kernels compute mostly padding.

A program holds a block of sequences and one head, and takes its pairs of query and key one by one.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 32


@triton.jit
def _row(ptr, n, n_total, t, width, column, D: tl.constexpr, T: tl.constexpr):
    """Step t of each sequence, [BLOCK, D_PAD]; `column` counts from the head's first channel."""
    d = tl.arange(0, column.shape[1])[None, :]
    inside = (n < n_total) & (d < D)
    return tl.load(ptr + (n * T + t) * width + column, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _store_row(ptr, value, n, n_total, t, width, column, D: tl.constexpr, T: tl.constexpr):
    d = tl.arange(0, column.shape[1])[None, :]
    inside = (n < n_total) & (d < D)
    tl.store(ptr + (n * T + t) * width + column, value.to(ptr.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["n_total"])
def _attend_kernel(
    q_ptr,  # [N, T, HEADS * D]
    kv_ptr,  # [N, T, 2 * HEADS * D]
    out_ptr,  # [N, T, HEADS * D]
    logsum_ptr,  # [HEADS, T, N] fp32: logarithm of each query's sum of exponentials
    n_total, scale,
    T: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr, D_PAD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    width: tl.constexpr = HEADS * D
    n = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)[:, None]
    column = tl.program_id(1) * D + tl.arange(0, D_PAD)[None, :]
    for i in range(T):
        q = _row(q_ptr, n, n_total, i, width, column, D, T) * scale
        largest = tl.full((BLOCK, 1), float("-inf"), tl.float32)
        total = tl.zeros((BLOCK, 1), tl.float32)
        mixed = tl.zeros((BLOCK, D_PAD), tl.float32)
        for j in range(T):
            k = _row(kv_ptr, n, n_total, j, 2 * width, column, D, T)
            score = tl.sum(q * k, axis=1)[:, None]
            higher = tl.maximum(largest, score)
            shrink, weight = tl.exp(largest - higher), tl.exp(score - higher)
            total = total * shrink + weight
            mixed = mixed * shrink + weight * _row(kv_ptr, n, n_total, j, 2 * width, width + column, D, T)
            largest = higher
        _store_row(out_ptr, mixed / total, n, n_total, i, width, column, D, T)
        place = logsum_ptr + (tl.program_id(1) * T + i) * n_total + n
        tl.store(place, largest + tl.log(total), mask=n < n_total)


@triton.jit
def _pair(q, k, v, grad, mean, logsum, scale):
    """A pair's weight and its score's gradient, [BLOCK, 1] each; `mean` is the gradient's weighted mean over keys."""
    weight = tl.exp(tl.sum(q * k, axis=1)[:, None] * scale - logsum)
    return weight, weight * (tl.sum(grad * v, axis=1)[:, None] - mean) * scale


@triton.jit(do_not_specialize=["n_total"])
def _attend_backward_kernel(
    q_ptr, kv_ptr, out_ptr, logsum_ptr, grad_ptr, dq_ptr, dkv_ptr,
    n_total, scale,
    T: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr, D_PAD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    width: tl.constexpr = HEADS * D
    n = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)[:, None]
    column = tl.program_id(1) * D + tl.arange(0, D_PAD)[None, :]
    logsum_ptr += tl.program_id(1) * T * n_total
    for i in range(T):
        q = _row(q_ptr, n, n_total, i, width, column, D, T)
        grad = _row(grad_ptr, n, n_total, i, width, column, D, T)
        mean = tl.sum(grad * _row(out_ptr, n, n_total, i, width, column, D, T), axis=1)[:, None]
        logsum = tl.load(logsum_ptr + i * n_total + n, mask=n < n_total, other=0.0)
        dq = tl.zeros((BLOCK, D_PAD), tl.float32)
        for j in range(T):
            k = _row(kv_ptr, n, n_total, j, 2 * width, column, D, T)
            v = _row(kv_ptr, n, n_total, j, 2 * width, width + column, D, T)
            _, slope = _pair(q, k, v, grad, mean, logsum, scale)
            dq += slope * k
        _store_row(dq_ptr, dq, n, n_total, i, width, column, D, T)
    for j in range(T):
        k = _row(kv_ptr, n, n_total, j, 2 * width, column, D, T)
        v = _row(kv_ptr, n, n_total, j, 2 * width, width + column, D, T)
        dk = tl.zeros((BLOCK, D_PAD), tl.float32)
        dv = tl.zeros((BLOCK, D_PAD), tl.float32)
        for i in range(T):
            q = _row(q_ptr, n, n_total, i, width, column, D, T)
            grad = _row(grad_ptr, n, n_total, i, width, column, D, T)
            mean = tl.sum(grad * _row(out_ptr, n, n_total, i, width, column, D, T), axis=1)[:, None]
            logsum = tl.load(logsum_ptr + i * n_total + n, mask=n < n_total, other=0.0)
            weight, slope = _pair(q, k, v, grad, mean, logsum, scale)
            dk += slope * q
            dv += weight * grad
        _store_row(dkv_ptr, dk, n, n_total, j, 2 * width, column, D, T)
        _store_row(dkv_ptr, dv, n, n_total, j, 2 * width, width + column, D, T)


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key_value: Tensor, heads: int) -> Tensor:
        n, t, width = query.shape
        d = width // heads
        out, logsum = torch.empty_like(query), torch.empty(heads, t, n, device=query.device)
        ctx.grid = (triton.cdiv(n, BLOCK), heads)
        ctx.numbers = {"n_total": n, "scale": d**-0.5, "T": t, "HEADS": heads, "D": d, "BLOCK": BLOCK}
        ctx.numbers["D_PAD"] = triton.next_power_of_2(d)
        _attend_kernel[ctx.grid](query, key_value, out, logsum, **ctx.numbers)
        ctx.save_for_backward(query, key_value, out, logsum)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:  # type: ignore[override]
        query, key_value, out, logsum = ctx.saved_tensors
        dq, dkv = torch.empty_like(query), torch.empty_like(key_value)
        _attend_backward_kernel[ctx.grid](query, key_value, out, logsum, grad.contiguous(), dq, dkv, **ctx.numbers)
        return dq, dkv, None


def attend(query: Tensor, key_value: Tensor, heads: int) -> Tensor:  # [N, T, C], [N, T, 2 * C] -> [N, T, C]
    return _Attend.apply(query.contiguous(), key_value.contiguous(), heads)

# mypy: disable-error-code="no-untyped-def"
"""Slice both grids, fuse, map by Cayley and apply, without ever storing a pixel's twelve coefficients.

Two exact rearrangements make it cheap. Interpolation weights sum to one, so the temporal plane can be added to every
colour bin of the red grid beforehand; and all pixels of a row share their place along the grid's height, so that axis
is interpolated once per row, not once per pixel. What is left per pixel is four cells of each grid.

Backward, a program owns the pixel rows between two rows of grid cells and adds up their gradients in registers: a
matrix product of interpolation weights and of the pixels' twelve gradients. No atomics, and the same bits every time.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from libranet.kernels.color_field.gpu import apply_field_out
from libranet.kernels.color_field.reference import SINGULAR_DET


@triton.jit(do_not_specialize=["height"])
def _rows_kernel(
    chromatic_ptr,  # [B, 2, 12, D, GH, GW] fp16 or fp32
    plane_ptr,  # [B, 12, GH, GW]
    strength_ptr,  # [B] fp32
    rows_ptr,  # [B, h, 2, D, GW, 16] fp32
    height,
    D: tl.constexpr, GH: tl.constexpr, GW: tl.constexpr,
):  # fmt: skip
    """Both grids at one pixel row, halved, the temporal plane added to the first, coefficients last."""
    y, b = tl.program_id(0), tl.program_id(1)
    at = tl.minimum(tl.maximum((y + 0.5) * GH / height - 0.5, 0.0), GH - 1.0)
    top = at.to(tl.int32)
    share = at - top.to(tl.float32)
    down = tl.minimum(top + 1, GH - 1) - top  # 0 on the last row
    strength = tl.load(strength_ptr + b)
    cell = tl.arange(0, D * GW)[:, None]
    k = tl.arange(0, 16)[None, :]
    z, x = cell // GW, cell % GW
    flat = plane_ptr + ((b * 12 + k) * GH + top) * GW + x
    temporal = tl.load(flat, mask=k < 12, other=0.0).to(tl.float32) * (1.0 - share)
    temporal += tl.load(flat + down * GW, mask=k < 12, other=0.0).to(tl.float32) * share
    for which in tl.static_range(2):
        grid = chromatic_ptr + ((((b * 2 + which) * 12 + k) * D + z) * GH + top) * GW + x
        value = tl.load(grid, mask=k < 12, other=0.0).to(tl.float32) * (1.0 - share)
        value += tl.load(grid + down * GW, mask=k < 12, other=0.0).to(tl.float32) * share
        value *= 0.5
        if which == 0:
            value += temporal
        place = rows_ptr + (((b.to(tl.int64) * height + y) * 2 + which) * D * GW + cell) * 16 + k
        tl.store(place, value * strength)


@triton.jit
def _slice_row(row_ptr, guide, x_left, x_right, x_share, k, D: tl.constexpr, GW: tl.constexpr):
    """Bilinear over (colour bin, column) of one row's grid: [BLOCK, 16]."""
    z = tl.minimum(tl.maximum(guide * D - 0.5, 0.0), D - 1.0)
    low = z.to(tl.int32)
    share = (z - low.to(tl.float32))[:, None]
    high = tl.minimum(low + 1, D - 1)
    near = tl.load(row_ptr + (low * GW + x_left)[:, None] * 16 + k) * (1.0 - x_share)
    near += tl.load(row_ptr + (low * GW + x_right)[:, None] * 16 + k) * x_share
    far = tl.load(row_ptr + (high * GW + x_left)[:, None] * 16 + k) * (1.0 - x_share)
    far += tl.load(row_ptr + (high * GW + x_right)[:, None] * 16 + k) * x_share
    return near * (1.0 - share) + far * share


@triton.jit
def _pick(values, k, i: tl.constexpr):
    """Column i of [BLOCK, 16]."""
    return tl.sum(tl.where(k == i, values, 0.0), axis=1)


@triton.jit
def _adjugate(c, k):
    """The adjugate of N = I - M / 2, row by row, and its determinant: A = 2 N^-1 - I, as in `reference.cayley`."""
    n0, n1, n2 = 1.0 - 0.5 * _pick(c, k, 0), -0.5 * _pick(c, k, 1), -0.5 * _pick(c, k, 2)
    n3, n4, n5 = -0.5 * _pick(c, k, 3), 1.0 - 0.5 * _pick(c, k, 4), -0.5 * _pick(c, k, 5)
    n6, n7, n8 = -0.5 * _pick(c, k, 6), -0.5 * _pick(c, k, 7), 1.0 - 0.5 * _pick(c, k, 8)
    a0, a3, a6 = n4 * n8 - n5 * n7, n5 * n6 - n3 * n8, n3 * n7 - n4 * n6
    a1, a4, a7 = n2 * n7 - n1 * n8, n0 * n8 - n2 * n6, n1 * n6 - n0 * n7
    a2, a5, a8 = n1 * n5 - n2 * n4, n2 * n3 - n0 * n5, n0 * n4 - n1 * n3
    return a0, a1, a2, a3, a4, a5, a6, a7, a8, n0 * a0 + n1 * a3 + n2 * a6


@triton.jit
def _hat(at, cell):
    """Weight of a cell in linear interpolation at `at`, which is clamped to the outermost cells' centres."""
    return tl.maximum(1.0 - tl.abs(at - cell), 0.0)


@triton.jit(do_not_specialize=["height", "width"])
def _field_kernel(
    low_ptr,  # [B, 3, h, w] fp32
    rows_ptr,  # [B, h, 2, D, GW, 16] fp32
    small_ptr,  # [B, 3, h, w] fp32, the restored small frame
    delta_ptr,  # [B, 3, h, w] fp32, small - low
    height, width,
    SINGULAR: tl.constexpr, D: tl.constexpr, GW: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    y, b = tl.program_id(1), tl.program_id(2).to(tl.int64)
    x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = x < width
    pixels = height * width
    place = b * 3 * pixels + y * width + x
    r = tl.load(low_ptr + place, mask=inside, other=0.0)
    g = tl.load(low_ptr + place + pixels, mask=inside, other=0.0)
    u = tl.load(low_ptr + place + 2 * pixels, mask=inside, other=0.0)

    column = tl.minimum(tl.maximum((x + 0.5) * GW / width - 0.5, 0.0), GW - 1.0)
    left = column.to(tl.int32)
    share = (column - left.to(tl.float32))[:, None]
    right = tl.minimum(left + 1, GW - 1)
    k = tl.arange(0, 16)[None, :]
    row_ptr = rows_ptr + (b * height + y) * 2 * D * GW * 16
    c = _slice_row(row_ptr, r, left, right, share, k, D, GW)
    c += _slice_row(row_ptr + D * GW * 16, g, left, right, share, k, D, GW)

    a0, a1, a2, a3, a4, a5, a6, a7, a8, det = _adjugate(c, k)
    usable = tl.abs(det) >= SINGULAR
    scale = 2.0 / tl.where(usable, det, 1.0)
    # A x = 2 adj(N) x / det - x.
    red = (a0 * r + a1 * g + a2 * u) * scale - r
    green = (a3 * r + a4 * g + a5 * u) * scale - g
    blue = (a6 * r + a7 * g + a8 * u) * scale - u
    red = tl.where(usable, red, r) + _pick(c, k, 9)
    green = tl.where(usable, green, g) + _pick(c, k, 10)
    blue = tl.where(usable, blue, u) + _pick(c, k, 11)
    red = tl.minimum(tl.maximum(red, 0.0), 1.0)
    green = tl.minimum(tl.maximum(green, 0.0), 1.0)
    blue = tl.minimum(tl.maximum(blue, 0.0), 1.0)
    tl.store(small_ptr + place, red, mask=inside)
    tl.store(small_ptr + place + pixels, green, mask=inside)
    tl.store(small_ptr + place + 2 * pixels, blue, mask=inside)
    tl.store(delta_ptr + place, red - r, mask=inside)
    tl.store(delta_ptr + place + pixels, green - g, mask=inside)
    tl.store(delta_ptr + place + 2 * pixels, blue - u, mask=inside)


@triton.jit(do_not_specialize=["height", "width"])
def _field_backward_kernel(
    low_ptr,  # [B, 3, h, w] fp32
    rows_ptr,  # [B, h, 2, D, GW, 16] fp32
    small_grad_ptr, delta_grad_ptr,  # [B, 3, h, w] fp32
    out_ptr,  # [B, GH + 1, 2, 2, D * GW, 16] fp32: per band and grid, for the row of cells above and for the one below
    height, width,
    SINGULAR: tl.constexpr, D: tl.constexpr, GH: tl.constexpr, GW: tl.constexpr, BLOCK: tl.constexpr,
    ROWS: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    which, band, b = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    # The pixel rows whose centres lie between those of cell rows `band - 1` and `band`, in exact integers.
    first = tl.maximum(((2 * band - 1) * height - GH + 2 * GH - 1) // (2 * GH), 0)
    last = tl.minimum(((2 * band + 1) * height - GH + 2 * GH - 1) // (2 * GH), height)
    pixels = height * width
    k = tl.arange(0, 16)[None, :]
    cell = tl.arange(0, D * GW)[:, None]
    above = tl.zeros((D * GW, 16), tl.float32)
    below = tl.zeros((D * GW, 16), tl.float32)
    for index in range(ROWS * STEPS):
        y, begin = first + index // STEPS, index % STEPS * BLOCK
        at = tl.minimum(tl.maximum((y + 0.5) * GH / height - 0.5, 0.0), GH - 1.0)
        share_y = at - (band - 1)
        row_ptr = rows_ptr + (b * height + tl.minimum(y, height - 1)) * 2 * D * GW * 16
        x = begin + tl.arange(0, BLOCK)
        inside = (x < width) & (y < last)
        place = b * 3 * pixels + y * width + x
        r = tl.load(low_ptr + place, mask=inside, other=0.0)
        g = tl.load(low_ptr + place + pixels, mask=inside, other=0.0)
        u = tl.load(low_ptr + place + 2 * pixels, mask=inside, other=0.0)
        column = tl.minimum(tl.maximum((x + 0.5) * GW / width - 0.5, 0.0), GW - 1.0)
        left = column.to(tl.int32)
        share = (column - left.to(tl.float32))[:, None]
        right = tl.minimum(left + 1, GW - 1)
        c = _slice_row(row_ptr, r, left, right, share, k, D, GW)
        c += _slice_row(row_ptr + D * GW * 16, g, left, right, share, k, D, GW)
        a0, a1, a2, a3, a4, a5, a6, a7, a8, det = _adjugate(c, k)
        usable = tl.abs(det) >= SINGULAR
        scale = tl.where(usable, 1.0 / tl.where(usable, det, 1.0), 0.0)
        # q = N^-1 x, so that A x = 2 q - x; where the clamp bound, nothing comes back.
        q0, q1, q2 = (
            (a0 * r + a1 * g + a2 * u) * scale,
            (a3 * r + a4 * g + a5 * u) * scale,
            (a6 * r + a7 * g + a8 * u) * scale,
        )
        d0 = _through_clamp(
            small_grad_ptr, delta_grad_ptr, place, inside, tl.where(usable, 2.0 * q0 - r, r) + _pick(c, k, 9)
        )
        d1 = _through_clamp(
            small_grad_ptr,
            delta_grad_ptr,
            place + pixels,
            inside,
            tl.where(usable, 2.0 * q1 - g, g) + _pick(c, k, 10),
        )
        d2 = _through_clamp(
            small_grad_ptr,
            delta_grad_ptr,
            place + 2 * pixels,
            inside,
            tl.where(usable, 2.0 * q2 - u, u) + _pick(c, k, 11),
        )
        # A's gradient is d x^T, hence M's is (N^-T d) (N^-1 x)^T.
        p0, p1, p2 = (
            (a0 * d0 + a3 * d1 + a6 * d2) * scale,
            (a1 * d0 + a4 * d1 + a7 * d2) * scale,
            (a2 * d0 + a5 * d1 + a8 * d2) * scale,
        )
        i, j = k // 3, k % 3
        p = tl.where(i == 0, p0[:, None], tl.where(i == 1, p1[:, None], p2[:, None]))
        q = tl.where(j == 0, q0[:, None], tl.where(j == 1, q1[:, None], q2[:, None]))
        d = tl.where(j == 0, d0[:, None], tl.where(j == 1, d1[:, None], d2[:, None]))
        gradient = tl.where(i < 3, p * q, tl.where(i == 3, d, 0.0))  # [BLOCK, 16]
        guide = tl.where(which == 0, r, g)
        z = tl.minimum(tl.maximum(guide * D - 0.5, 0.0), D - 1.0)
        weights = _hat(z[None, :], cell // GW) * _hat(column[None, :], cell % GW)  # [D * GW, BLOCK]
        row = tl.dot(weights, gradient, input_precision="ieee")
        above += row * (1.0 - share_y)
        below += row * share_y
    place = out_ptr + (((b * (GH + 1) + band) * 2 + which) * 2 * D * GW + cell) * 16 + k
    tl.store(place, above)
    tl.store(place + D * GW * 16, below)


@triton.jit
def _through_clamp(small_grad_ptr, delta_grad_ptr, place, inside, value):
    """The gradient of one channel before its clamp to [0, 1]."""
    d = tl.load(small_grad_ptr + place, mask=inside, other=0.0) + tl.load(
        delta_grad_ptr + place, mask=inside, other=0.0
    )
    return tl.where((value >= 0.0) & (value <= 1.0), d, 0.0)


class _Field(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, low: Tensor, chromatic: Tensor, plane: Tensor) -> tuple[Tensor, Tensor]:
        (b, _, height, _), (d, _, gw) = low.shape, chromatic.shape[3:]
        rows = torch.empty(b, height, 2, d, gw, 16, device=low.device)
        small, delta = torch.empty_like(low), torch.empty_like(low)
        apply_field_out(low, chromatic, plane, torch.ones(len(low), device=low.device), small, delta, scratch=rows)
        ctx.save_for_backward(low, rows)
        ctx.grids = (chromatic.shape, chromatic.dtype, plane.dtype)
        return small, delta

    @staticmethod
    def backward(ctx: Any, small_grad: Tensor, delta_grad: Tensor) -> tuple[None, Tensor, Tensor]:  # type: ignore[override]
        low, rows = ctx.saved_tensors
        shape, dtype, plane_dtype = ctx.grids
        (b, _, height, width), (d, gh, gw) = low.shape, shape[3:]
        block = 64
        bands = torch.empty(b, gh + 1, 2, 2, d, gw, 16, device=low.device)
        _field_backward_kernel[(2, gh + 1, b)](
            low, rows, small_grad.contiguous(), delta_grad.contiguous(), bands, height, width,
            SINGULAR=SINGULAR_DET, D=d, GH=gh, GW=gw, BLOCK=block,
            ROWS=triton.cdiv(height, gh), STEPS=triton.cdiv(width, block), num_warps=4,
        )  # fmt: skip
        above, below = bands[..., :12].unbind(3)  # [B, gh + 1, 2, D, gw, 12]; nothing lies above the first cells
        grids = (below[:, :-1] + above[:, 1:]).permute(0, 2, 5, 3, 1, 4)  # [B, 2, 12, D, gh, gw]
        # The plane was added to every colour bin of the red grid, whose weights sum to one.
        return None, (grids * 0.5).to(dtype), grids[:, 0].sum(2).to(plane_dtype)


def apply_field(
    low: Tensor,  # [B, 3, h, w] fp32, data: it gets no gradient
    chromatic: Tensor,  # [B, 2, 12, D, gh, gw]; D and gw powers of two
    plane: Tensor,  # [B, 12, gh, gw]
) -> tuple[Tensor, Tensor]:  # [B, 3, h, w] each, fp32
    return _Field.apply(low.contiguous(), chromatic.contiguous(), plane.contiguous())

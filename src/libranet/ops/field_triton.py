# mypy: disable-error-code="no-untyped-def"
"""Slice both grids, fuse, map by Cayley and apply, without ever storing a pixel's twelve coefficients.

Two exact rearrangements make it cheap. Interpolation weights sum to one, so the temporal plane can be added to every
colour bin of the red grid beforehand; and all pixels of a row share their place along the grid's height, so that axis
is interpolated once per row, not once per pixel. What is left per pixel is four cells of each grid.
"""

import triton
import triton.language as tl
from torch import Tensor

from libranet.ops.cayley_torch import SINGULAR_DET


@triton.jit(do_not_specialize=["height"])
def _rows_kernel(
    chromatic_ptr,  # [B, 2, 12, D, GH, GW] fp16 or fp32
    plane_ptr,  # [B, 12, GH, GW]
    strength_ptr,  # [1] fp32
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
    strength = tl.load(strength_ptr)
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

    # N = I - M / 2, its cofactors and determinant: A = 2 N^-1 - I, as in `cayley_torch`.
    n0, n1, n2 = 1.0 - 0.5 * _pick(c, k, 0), -0.5 * _pick(c, k, 1), -0.5 * _pick(c, k, 2)
    n3, n4, n5 = -0.5 * _pick(c, k, 3), 1.0 - 0.5 * _pick(c, k, 4), -0.5 * _pick(c, k, 5)
    n6, n7, n8 = -0.5 * _pick(c, k, 6), -0.5 * _pick(c, k, 7), 1.0 - 0.5 * _pick(c, k, 8)
    c0, c1, c2 = n4 * n8 - n5 * n7, n5 * n6 - n3 * n8, n3 * n7 - n4 * n6
    det = n0 * c0 + n1 * c1 + n2 * c2
    usable = tl.abs(det) >= SINGULAR
    scale = 2.0 / tl.where(usable, det, 1.0)
    # A x = 2 adj(N) x / det - x.
    red = (c0 * r + (n2 * n7 - n1 * n8) * g + (n1 * n5 - n2 * n4) * u) * scale - r
    green = (c1 * r + (n0 * n8 - n2 * n6) * g + (n2 * n3 - n0 * n5) * u) * scale - g
    blue = (c2 * r + (n1 * n6 - n0 * n7) * g + (n0 * n4 - n1 * n3) * u) * scale - u
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


def apply_field_out(
    low: Tensor,  # [B, 3, h, w] fp32
    chromatic: Tensor,  # [B, 2, 12, D, gh, gw]; D and gw powers of two
    plane: Tensor,  # [B, 12, gh, gw]
    strength: Tensor,  # [1] fp32
    rows: Tensor,  # [B, h, 2, D, gw, 16] fp32, scratch
    small: Tensor,  # [B, 3, h, w] fp32, written
    delta: Tensor,  # [B, 3, h, w] fp32, written: small - low
) -> None:
    """What `field_torch.apply_field` computes, and the correction it makes."""
    b, _, height, width = low.shape
    d, gh, gw = chromatic.shape[3:]
    _rows_kernel[(height, b)](chromatic, plane, strength, rows, height, D=d, GH=gh, GW=gw, num_warps=4)
    _field_kernel[(triton.cdiv(width, 128), height, b)](
        low, rows, small, delta, height, width, SINGULAR=SINGULAR_DET, D=d, GW=gw, BLOCK=128, num_warps=4
    )

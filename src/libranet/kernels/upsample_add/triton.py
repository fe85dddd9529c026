# mypy: disable-error-code="no-untyped-def"
"""The network's last step for training: frame + upsampled correction + shuffled residual, clamped; and its gradients.

The residual stays as the last convolution leaves it, channels last at the reduced size: no pass over memory to shuffle
it, none for the sums, and no atomics to bring the gradient back to the reduced size.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024
CELLS = 16


@triton.jit
def _source(at, low, SCALE: tl.constexpr):
    """Where a row or column of the frame lies in the reduced one, clamped to its outermost pixels' centres."""
    return tl.minimum(tl.maximum((at + 0.5) / SCALE - 0.5, 0.0), low - 1.0)


@triton.jit
def _sum(
    frame_ptr, correction_ptr, residual_ptr, plane, b, c, y, x, inside, height, width, low_height, low_width,
    SCALE: tl.constexpr,
):  # fmt: skip
    """The three summands added up, before the clamp, and the residual's place."""
    at_y, at_x = _source(y, low_height, SCALE), _source(x, low_width, SCALE)
    top, left = at_y.to(tl.int32), at_x.to(tl.int32)
    share_y, share_x = at_y - top.to(tl.float32), at_x - left.to(tl.float32)
    bottom, right = tl.minimum(top + 1, low_height - 1), tl.minimum(left + 1, low_width - 1)
    small = correction_ptr + plane * low_height * low_width
    upper = tl.load(small + top * low_width + left, mask=inside, other=0.0) * (1.0 - share_x)
    upper += tl.load(small + top * low_width + right, mask=inside, other=0.0) * share_x
    lower = tl.load(small + bottom * low_width + left, mask=inside, other=0.0) * (1.0 - share_x)
    lower += tl.load(small + bottom * low_width + right, mask=inside, other=0.0) * share_x
    cell = (b * low_height + y // SCALE) * low_width + x // SCALE
    place = cell * (3 * SCALE * SCALE) + (c * SCALE + y % SCALE) * SCALE + x % SCALE
    value = tl.load(frame_ptr + plane * height * width + y * width + x, mask=inside, other=0.0)
    value += upper * (1.0 - share_y) + lower * share_y
    return value + tl.load(residual_ptr + place, mask=inside, other=0.0).to(tl.float32), place


@triton.jit(do_not_specialize=["height", "width"])
def _upsample_add_kernel(
    frame_ptr,  # [B, 3, H, W] fp32
    correction_ptr,  # [B, 3, h, w] fp32
    residual_ptr,  # [B, h, w, 3 * SCALE * SCALE]
    image_ptr,  # [B, 3, H, W] fp32
    height, width,
    SCALE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    plane = tl.program_id(1).to(tl.int64)
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = pixel < height * width
    value, _ = _sum(
        frame_ptr, correction_ptr, residual_ptr, plane, plane // 3, plane % 3, pixel // width, pixel % width, inside,
        height, width, height // SCALE, width // SCALE, SCALE,
    )  # fmt: skip
    tl.store(image_ptr + plane * height * width + pixel, tl.minimum(tl.maximum(value, 0.0), 1.0), mask=inside)


@triton.jit(do_not_specialize=["height", "width"])
def _residual_gradient_kernel(
    frame_ptr, correction_ptr, residual_ptr,
    grad_ptr,  # [B, 3, H, W] fp32
    out_ptr,  # [B, h, w, 3 * SCALE * SCALE]
    height, width,
    SCALE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    plane = tl.program_id(1).to(tl.int64)
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = pixel < height * width
    value, place = _sum(
        frame_ptr, correction_ptr, residual_ptr, plane, plane // 3, plane % 3, pixel // width, pixel % width, inside,
        height, width, height // SCALE, width // SCALE, SCALE,
    )  # fmt: skip
    grad = tl.load(grad_ptr + plane * height * width + pixel, mask=inside, other=0.0)
    grad = tl.where((value >= 0.0) & (value <= 1.0), grad, 0.0)
    tl.store(out_ptr + place, grad.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["low_height", "low_width"])
def _correction_gradient_kernel(
    residual_grad_ptr,  # [B, h, w, 3 * SCALE * SCALE]: the frame's gradient behind the clamp, in cells
    out_ptr,  # [B, 3, h, w] fp32
    low_height, low_width,
    SCALE: tl.constexpr, CELLS: tl.constexpr, K_PAD: tl.constexpr,
):  # fmt: skip
    """Each pixel of the correction gathers from its own and the eight cells around it."""
    b = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * CELLS + tl.arange(0, CELLS)[:, None]
    y, x = at // low_width, at % low_width
    k = tl.arange(0, K_PAD)[None, :]
    total = tl.zeros((CELLS, K_PAD), tl.float32)
    for offset in tl.static_range(9):
        cell_y, cell_x = y + (offset // 3 - 1), x + (offset % 3 - 1)
        real = (cell_y >= 0) & (cell_y < low_height) & (cell_x >= 0) & (cell_x < low_width)
        real = real & (k < 3 * SCALE * SCALE)
        place = ((b * low_height + cell_y) * low_width + cell_x) * (3 * SCALE * SCALE) + k
        grad = tl.load(residual_grad_ptr + place, mask=real, other=0.0).to(tl.float32)
        from_y = _source(cell_y * SCALE + k // SCALE % SCALE, low_height, SCALE)
        from_x = _source(cell_x * SCALE + k % SCALE, low_width, SCALE)
        weight = tl.maximum(1.0 - tl.abs(from_y - y), 0.0) * tl.maximum(1.0 - tl.abs(from_x - x), 0.0)
        total += grad * weight
    pixel = tl.program_id(0) * CELLS + tl.arange(0, CELLS)
    for c in tl.static_range(3):
        value = tl.sum(tl.where(k // (SCALE * SCALE) == c, total, 0.0), axis=1)
        out = out_ptr + (b * 3 + c) * low_height * low_width + pixel
        tl.store(out, value, mask=pixel < low_height * low_width)


class _UpsampleAdd(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, frame: Tensor, correction: Tensor, residual: Tensor) -> Tensor:
        (b, _, height, width), image = frame.shape, torch.empty_like(frame)
        ctx.scale = height // correction.shape[-2]
        _upsample_add_kernel[(triton.cdiv(height * width, BLOCK), b * 3)](
            frame, correction, residual, image, height, width, SCALE=ctx.scale, BLOCK=BLOCK
        )
        ctx.save_for_backward(frame, correction, residual)
        return image

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor]:  # type: ignore[override]
        frame, correction, residual = ctx.saved_tensors
        (b, _, height, width), scale = frame.shape, ctx.scale
        to_residual, to_correction = torch.empty_like(residual), torch.empty_like(correction)
        _residual_gradient_kernel[(triton.cdiv(height * width, BLOCK), b * 3)](
            frame, correction, residual, grad.contiguous(), to_residual, height, width, SCALE=scale, BLOCK=BLOCK
        )
        low_height, low_width = correction.shape[-2:]
        _correction_gradient_kernel[(triton.cdiv(low_height * low_width, CELLS), b)](
            to_residual, to_correction, low_height, low_width,
            SCALE=scale, CELLS=CELLS, K_PAD=triton.next_power_of_2(3 * scale * scale),
        )  # fmt: skip
        return None, to_correction, to_residual


def upsample_add(
    frame: Tensor,  # [B, 3, H, W] fp32, data: it gets no gradient
    correction: Tensor,  # [B, 3, H / scale, W / scale] fp32
    residual: Tensor,  # [B, 3 * scale^2, H / scale, W / scale]
) -> Tensor:  # [B, 3, H, W] in [0, 1]
    return _UpsampleAdd.apply(
        frame.contiguous(), correction.contiguous(), residual.contiguous(memory_format=torch.channels_last)
    )

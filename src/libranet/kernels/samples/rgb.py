# ruff: noqa: SIM108 - kernels take many arguments, and their branches on constants are not expressions
# mypy: disable-error-code="no-untyped-def"
"""RGB at any pixel of a frame in its own samples, inside kernels."""

import triton
import triton.language as tl


@triton.jit
def reflect(at, size):
    """Turn coordinates beyond the end back."""
    return tl.minimum(at, 2 * (size - 1) - at)


@triton.jit
def _between(at, count, SUB: tl.constexpr, PHASE: tl.constexpr):
    """The two chroma samples around a luma coordinate, and the share of the second."""
    place = tl.minimum(tl.maximum((at.to(tl.float32) - 0.5 * PHASE) / SUB, 0.0), (count - 1).to(tl.float32))
    low = place.to(tl.int32)
    return low, tl.minimum(low + 1, count - 1), place - low.to(tl.float32)


@triton.jit
def _chroma(
    ptr, y, x, rows, columns, mask, SUB_Y: tl.constexpr, SUB_X: tl.constexpr, PY: tl.constexpr, PX: tl.constexpr
):
    """Chroma at luma coordinates, interpolated between its samples."""
    if SUB_X == 1:
        left, right, beside = x, x, 0.0
    else:
        left, right, beside = _between(x, columns, SUB_X, PX)
    if SUB_Y == 1:
        value = tl.load(ptr + y * columns + left, mask=mask, other=0).to(tl.float32)
        if SUB_X > 1:
            value += (tl.load(ptr + y * columns + right, mask=mask, other=0).to(tl.float32) - value) * beside
    else:
        top, bottom, below = _between(y, rows, SUB_Y, PY)
        value = tl.load(ptr + top * columns + left, mask=mask, other=0).to(tl.float32)
        lower = tl.load(ptr + bottom * columns + left, mask=mask, other=0).to(tl.float32)
        if SUB_X > 1:
            value += (tl.load(ptr + top * columns + right, mask=mask, other=0).to(tl.float32) - value) * beside
            lower += (tl.load(ptr + bottom * columns + right, mask=mask, other=0).to(tl.float32) - lower) * beside
        value += (lower - value) * below
    return value


@triton.jit
def _to_channel(codes_ptr, ROW: tl.constexpr, a, b, c, MODEL: tl.constexpr):
    """One channel of RGB in [0, 1] from code values."""
    base = codes_ptr + 3 * ROW
    if MODEL == 0:
        value = (a if ROW == 0 else b if ROW == 1 else c) * tl.load(codes_ptr + 4 * ROW)
    else:
        value = a * tl.load(base) + tl.load(codes_ptr + 9 + ROW)
        if MODEL == 1:
            value += b * tl.load(base + 1) + c * tl.load(base + 2)
    return tl.minimum(tl.maximum(value, 0.0), 1.0)


@triton.jit
def to_rgb(codes_ptr, a, b, c, MODEL: tl.constexpr):
    """RGB in [0, 1] from the code values of its components."""
    red = _to_channel(codes_ptr, 0, a, b, c, MODEL)
    green = _to_channel(codes_ptr, 1, a, b, c, MODEL)
    blue = _to_channel(codes_ptr, 2, a, b, c, MODEL)
    return red, green, blue


@triton.jit
def rgb_at(
    a_ptr, b_ptr, c_ptr,  # red, green, blue, or Y, Cb, Cr of one frame
    codes_ptr, y, x, height, width, mask,
    MODEL: tl.constexpr, STEP: tl.constexpr,
    SUB_Y: tl.constexpr, SUB_X: tl.constexpr, PY: tl.constexpr, PX: tl.constexpr,
):  # fmt: skip
    """RGB in [0, 1] at pixels inside the frame; where `mask` is False, that of code 0."""
    at = (y * width + x) * STEP
    a = tl.load(a_ptr + at, mask=mask, other=0).to(tl.float32)
    if MODEL == 0:
        b = tl.load(b_ptr + at, mask=mask, other=0).to(tl.float32)
        c = tl.load(c_ptr + at, mask=mask, other=0).to(tl.float32)
    elif MODEL == 1:
        rows, columns = tl.cdiv(height, SUB_Y), tl.cdiv(width, SUB_X)
        b = _chroma(b_ptr, y, x, rows, columns, mask, SUB_Y, SUB_X, PY, PX)
        c = _chroma(c_ptr, y, x, rows, columns, mask, SUB_Y, SUB_X, PY, PX)
    else:
        b, c = a, a
    return to_rgb(codes_ptr, a, b, c, MODEL)


@triton.jit
def frame_sizes(height, width, MODEL: tl.constexpr, STEP: tl.constexpr, SUB_Y: tl.constexpr, SUB_X: tl.constexpr):
    """Samples of one frame in the first plane and in the others."""
    if MODEL == 1:
        other = tl.cdiv(height, SUB_Y) * tl.cdiv(width, SUB_X)
    else:
        other = height * width * STEP
    return height * width * STEP, other

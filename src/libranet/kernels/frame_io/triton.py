# ruff: noqa: SIM108 - kernels take many arguments, and their branches on constants are not expressions
# mypy: disable-error-code="no-untyped-def"
"""Passes over 8-bit frames: reduce and lay out cells on the way in, add everything up and round on the way out."""

import triton
import triton.language as tl


@triton.jit
def _add_pixel(red, green, blue, word_a, word_b, BYTE: tl.constexpr, weight):
    """Add weight * pixel, whose three bytes start at BYTE of the eight in two words."""
    for c in tl.static_range(3):
        if BYTE + c < 4:
            value = (word_a >> (8 * (BYTE + c))) & 255
        else:
            value = (word_b >> (8 * (BYTE + c - 4))) & 255
        if c == 0:
            red += weight * value
        elif c == 1:
            green += weight * value
        else:
            blue += weight * value
    return red, green, blue


@triton.jit(do_not_specialize=["height", "width", "first", "ring"])
def _reduce_kernel(
    word_ptr,  # [ring, 4 h, 3 w] int32: the frames' bytes, four to a word
    low_ptr,  # [B, 3, h, w] fp32
    height, width, first, ring,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The triangle filter [1 3 5 7 7 5 3 1] on both axes, in integers; truncated at the border and renormalised."""
    b, y = tl.program_id(2), tl.program_id(1)
    x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = x < width
    word_ptr += ((first + b) % ring).to(tl.int64) * height * 4 * width * 3
    has_left, has_right = (x > 0) & inside, x + 1 < width
    red = tl.zeros((BLOCK,), tl.int32)
    green, blue = red, red
    norm_y = 0
    for t in tl.static_range(8):
        row = 4 * y + t - 2
        tap = 2 * t + 1 if t < 4 else 15 - 2 * t
        valid = (row >= 0) & (row < 4 * height)
        norm_y += tl.where(valid, tap, 0)
        place = word_ptr + row * width * 3 + x * 3
        left1 = tl.load(place - 2, mask=has_left & valid, other=0)
        left2 = tl.load(place - 1, mask=has_left & valid, other=0)
        own0 = tl.load(place, mask=inside & valid, other=0)
        own1 = tl.load(place + 1, mask=inside & valid, other=0)
        own2 = tl.load(place + 2, mask=inside & valid, other=0)
        right0 = tl.load(place + 3, mask=has_right & valid, other=0)
        right1 = tl.load(place + 4, mask=has_right & valid, other=0)
        red, green, blue = _add_pixel(red, green, blue, left1, left2, 2, tap * 1)
        red, green, blue = _add_pixel(red, green, blue, left2, left2, 1, tap * 3)
        red, green, blue = _add_pixel(red, green, blue, own0, own1, 0, tap * 5)
        red, green, blue = _add_pixel(red, green, blue, own0, own1, 3, tap * 7)
        red, green, blue = _add_pixel(red, green, blue, own1, own2, 2, tap * 7)
        red, green, blue = _add_pixel(red, green, blue, own2, own2, 1, tap * 5)
        red, green, blue = _add_pixel(red, green, blue, right0, right1, 0, tap * 3)
        red, green, blue = _add_pixel(red, green, blue, right0, right1, 3, tap * 1)
    norm = norm_y * (24 + tl.where(has_left, 4, 0) + tl.where(has_right, 4, 0)) * 255
    place = low_ptr + (b.to(tl.int64) * 3 * height + y) * width + x
    tl.store(place, red.to(tl.float32) / norm, mask=inside)
    tl.store(place + height * width, green.to(tl.float32) / norm, mask=inside)
    tl.store(place + 2 * height * width, blue.to(tl.float32) / norm, mask=inside)


@triton.jit(do_not_specialize=["height", "width", "first", "ring"])
def _cells_kernel(
    frame_ptr,  # [ring, 4 h, 4 w, 3] uint8
    cells_ptr,  # [B, h, w, 64] fp16: (row, column, red green blue nothing)
    height, width, first, ring,
    BLOCK: tl.constexpr,
):  # fmt: skip
    b, y = tl.program_id(2), tl.program_id(1)
    x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    n = tl.arange(0, 64)[None, :]
    real = (x < width) & (n % 4 < 3)
    frame_ptr += ((first + b) % ring).to(tl.int64) * height * width * 48
    at = (4 * y + n // 16) * (12 * width) + x * 12 + n % 16 // 4 * 3 + n % 4
    bytes_ = tl.load(frame_ptr + at, mask=real, other=0)
    place = cells_ptr + ((b.to(tl.int64) * height + y) * width + x) * 64 + n
    tl.store(place, (bytes_.to(tl.float32) * (1.0 / 256.0)).to(tl.float16), mask=x < width)


@triton.jit
def _finish_cells(
    residual,  # [BLOCK, 64] fp32
    frame_ptr, delta_ptr, out_ptr,  # of one frame
    strength, y, x0, height, width,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Carrier + bilinear enlargement of the correction + residual for a row of cells, rounded to bytes."""
    x = x0 + tl.arange(0, BLOCK)[:, None]
    n = tl.arange(0, 64)[None, :]
    row, column, colour = n // 16, n % 16 // 4, n % 4
    real = (x < width) & (colour < 3) & (y < height)
    # Pixel row r of a cell lies (r - 1.5) / 4 cells below its centre, towards the upper or the lower neighbour.
    top, left = y - (row < 2).to(tl.int32), x - (column < 2).to(tl.int32)
    below = 0.625 + 0.25 * row - (row >= 2).to(tl.float32)
    beside = 0.625 + 0.25 * column - (column >= 2).to(tl.float32)
    top, bottom = tl.maximum(top, 0) * width, tl.minimum(top + 1, height - 1) * width
    left, right = tl.maximum(left, 0), tl.minimum(left + 1, width - 1)
    plane = delta_ptr + colour * height * width
    upper = tl.load(plane + top + left, mask=real, other=0.0) * (1.0 - beside)
    upper += tl.load(plane + top + right, mask=real, other=0.0) * beside
    lower = tl.load(plane + bottom + left, mask=real, other=0.0) * (1.0 - beside)
    lower += tl.load(plane + bottom + right, mask=real, other=0.0) * beside
    at = (4 * y + row) * (12 * width) + x * 12 + column * 3 + colour
    carrier = tl.load(frame_ptr + at, mask=real, other=0).to(tl.float32)
    value = carrier + 255.0 * (upper * (1.0 - below) + lower * below + strength * residual)
    tl.store(out_ptr + at, (tl.minimum(tl.maximum(value, 0.0), 255.0) + 0.5).to(tl.uint8), mask=real)


@triton.jit(do_not_specialize=["height", "width", "first", "ring"])
def _finish_kernel(
    residual_ptr,  # [B, h, w, 64] fp16
    frame_ptr,  # [ring, 4 h, 4 w, 3] uint8
    delta_ptr,  # [B, 3, h, w] fp32
    strength_ptr,  # [B] fp32
    out_ptr,  # [B, 4 h, 4 w, 3] uint8
    height, width, first, ring,
    BLOCK: tl.constexpr,
):  # fmt: skip
    b, y = tl.program_id(2).to(tl.int64), tl.program_id(1)
    x0 = tl.program_id(0) * BLOCK
    x = x0 + tl.arange(0, BLOCK)[:, None]
    place = residual_ptr + ((b * height + y) * width + x) * 64 + tl.arange(0, 64)[None, :]
    residual = tl.load(place, mask=x < width, other=0.0).to(tl.float32)
    pixels = height * width
    _finish_cells(
        residual, frame_ptr + ((first + b) % ring) * pixels * 48, delta_ptr + b * pixels * 3, out_ptr + b * pixels * 48,
        tl.load(strength_ptr + b), y, x0, height, width, BLOCK,
    )  # fmt: skip

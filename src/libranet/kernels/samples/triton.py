# mypy: disable-error-code="no-untyped-def"
"""Passes over frames in their own samples: conversion to RGB happens where they are read, back where they are written.

No RGB frame is ever stored. Every kernel computes the RGB values of the pixels it needs from the planes, through the
cache; the last one adds the change to the samples. Frames are continued by reflection by turning coordinates back.
"""

import triton
import triton.language as tl

from libranet.kernels.samples.rgb import frame_sizes, reflect, rgb_at


@triton.jit(do_not_specialize=["height", "width", "first", "ring"])
def _cells_kernel(
    a_ptr, b_ptr, c_ptr,  # rings of planes
    codes_ptr,  # [22] fp32
    cells_ptr,  # [B, h, w, 64] fp16: (row, column, red green blue nothing)
    height, width, first, ring,
    MODEL: tl.constexpr, STEP: tl.constexpr,
    SUB_Y: tl.constexpr, SUB_X: tl.constexpr, PY: tl.constexpr, PX: tl.constexpr,
    CELLS: tl.constexpr,
):  # fmt: skip
    y, b = tl.program_id(1), tl.program_id(2)
    slot = ((first + b) % ring).to(tl.int64)
    size_a, size_b = frame_sizes(height, width, MODEL, STEP, SUB_Y, SUB_X)
    across = tl.cdiv(width, 4)
    cell = tl.program_id(0) * CELLS + tl.arange(0, CELLS)[:, None]
    pixel = tl.arange(0, 16)[None, :]
    inside = (cell < across) & (pixel < 16)
    row, column = reflect(4 * y + pixel // 4, height), reflect(4 * cell + pixel % 4, width)
    red, green, blue = rgb_at(
        a_ptr + slot * size_a, b_ptr + slot * size_b, c_ptr + slot * size_b, codes_ptr, row, column, height, width,
        inside, MODEL, STEP, SUB_Y, SUB_X, PY, PX,
    )  # fmt: skip
    scale: tl.constexpr = 255.0 / 256.0
    pairs = tl.join(tl.join(red, blue), tl.join(green, tl.zeros_like(red)))  # [CELLS, 16, 2, 2]: (r, g), (b, 0)
    values = (pairs * scale).to(tl.float16).reshape(CELLS, 64)
    place = cells_ptr + ((b.to(tl.int64) * tl.cdiv(height, 4) + y) * across + cell) * 64 + tl.arange(0, 64)[None, :]
    tl.store(place, values, mask=cell < across)


@triton.jit(do_not_specialize=["height", "width", "first", "ring"])
def _low_kernel(
    a_ptr, b_ptr, c_ptr,
    codes_ptr,
    low_ptr,  # [B, 3, h, w] fp32
    height, width, first, ring,
    MODEL: tl.constexpr, STEP: tl.constexpr,
    SUB_Y: tl.constexpr, SUB_X: tl.constexpr, PY: tl.constexpr, PX: tl.constexpr,
    CELLS: tl.constexpr,
):  # fmt: skip
    """The triangle filter [1 3 5 7 7 5 3 1] on both axes; truncated at the border and renormalised."""
    y, b = tl.program_id(1), tl.program_id(2)
    slot = ((first + b) % ring).to(tl.int64)
    size_a, size_b = frame_sizes(height, width, MODEL, STEP, SUB_Y, SUB_X)
    down, across = tl.cdiv(height, 4), tl.cdiv(width, 4)
    cell = tl.program_id(0) * CELLS + tl.arange(0, CELLS)
    near = tl.arange(0, 8)[None, :]
    column = 4 * cell[:, None] + near - 2
    beside = (tl.minimum(2 * near + 1, 15 - 2 * near)).to(tl.float32)
    valid = (column >= 0) & (column < 4 * across)
    column = reflect(tl.maximum(column, 0), width)
    beside = tl.where(valid, beside, 0.0)
    norm = tl.sum(beside, axis=1)
    red = tl.zeros((CELLS,), tl.float32)
    green, blue = red, red
    norm_y = 0.0
    for t in range(8):
        row = 4 * y + t - 2
        below = tl.minimum(2 * t + 1, 15 - 2 * t).to(tl.float32)
        below = tl.where((row >= 0) & (row < 4 * down), below, 0.0)
        norm_y += below
        row = reflect(tl.maximum(row, 0), height)
        r, g, u = rgb_at(
            a_ptr + slot * size_a, b_ptr + slot * size_b, c_ptr + slot * size_b, codes_ptr, row + 0 * column, column,
            height, width, valid, MODEL, STEP, SUB_Y, SUB_X, PY, PX,
        )  # fmt: skip
        red += below * tl.sum(r * beside, axis=1)
        green += below * tl.sum(g * beside, axis=1)
        blue += below * tl.sum(u * beside, axis=1)
    share = 1.0 / tl.maximum(norm * norm_y, 1.0)  # programs reach beyond the last cell
    place = low_ptr + (b.to(tl.int64) * 3 * down + y) * across + cell
    inside = cell < across
    tl.store(place, red * share, mask=inside)
    tl.store(place + down * across, green * share, mask=inside)
    tl.store(place + 2 * down * across, blue * share, mask=inside)


@triton.jit(do_not_specialize=["height", "width", "size", "first", "ring"])
def _input_kernel(
    a_ptr, b_ptr, c_ptr,
    codes_ptr,
    first_line_ptr, vertical_ptr, first_column_ptr, horizontal_ptr,  # as in `SampleBands`
    out_ptr,  # [B, size, size, 4] fp16
    height, width, size, first, ring,
    LINE_STEPS: tl.constexpr, COLUMN_STEPS: tl.constexpr,
    MODEL: tl.constexpr, STEP: tl.constexpr,
    SUB_Y: tl.constexpr, SUB_X: tl.constexpr, PY: tl.constexpr, PX: tl.constexpr,
    BLOCK: tl.constexpr, LINES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    across, down, b = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    slot = ((first + b) % ring).to(tl.int64)
    size_a, size_b = frame_sizes(height, width, MODEL, STEP, SUB_Y, SUB_X)
    line0, column0 = tl.load(first_line_ptr + down), tl.load(first_column_ptr + across)
    i, line, k = tl.arange(0, BLOCK), tl.arange(0, LINES), tl.arange(0, COLUMNS)
    red = tl.zeros((BLOCK, BLOCK), tl.float32)
    green, blue = red, red
    padded_height, padded_width = tl.cdiv(height, 4) * 4, tl.cdiv(width, 4) * 4
    for column_step in range(COLUMN_STEPS):
        column = column0 + column_step * COLUMNS + k
        x = reflect(tl.minimum(column, padded_width - 1), width)[None, :]
        rows_r = tl.zeros((BLOCK, COLUMNS), tl.float32)
        rows_g, rows_u = rows_r, rows_r
        for line_step in range(LINE_STEPS):
            y = line0 + line_step * LINES + line
            weight = tl.load(
                vertical_ptr + ((down * LINE_STEPS + line_step) * BLOCK + i[:, None]) * LINES + line[None, :]
            )
            mask = (y < padded_height)[:, None] & (column < padded_width)[None, :]
            y = reflect(tl.minimum(y, padded_height - 1), height)[:, None]
            r, g, u = rgb_at(
                a_ptr + slot * size_a, b_ptr + slot * size_b, c_ptr + slot * size_b, codes_ptr, y + 0 * x, x + 0 * y,
                height, width, mask, MODEL, STEP, SUB_Y, SUB_X, PY, PX,
            )  # fmt: skip
            rows_r = tl.dot(weight, r.to(tl.float16), rows_r)
            rows_g = tl.dot(weight, g.to(tl.float16), rows_g)
            rows_u = tl.dot(weight, u.to(tl.float16), rows_u)
        weight = tl.load(
            horizontal_ptr + ((across * COLUMN_STEPS + column_step) * COLUMNS + k[:, None]) * BLOCK + i[None, :]
        )
        red = tl.dot(rows_r.to(tl.float16), weight, red)
        green = tl.dot(rows_g.to(tl.float16), weight, green)
        blue = tl.dot(rows_u.to(tl.float16), weight, blue)
    row, place = down * BLOCK + i[:, None], across * BLOCK + i[None, :]
    inside = (row < size) & (place < size)
    place = out_ptr + ((b * size + row) * size + place) * 4
    tl.store(place, tl.minimum(tl.maximum(red * 2.0 - 1.0, -1.0), 1.0).to(tl.float16), mask=inside)
    tl.store(place + 1, tl.minimum(tl.maximum(green * 2.0 - 1.0, -1.0), 1.0).to(tl.float16), mask=inside)
    tl.store(place + 2, tl.minimum(tl.maximum(blue * 2.0 - 1.0, -1.0), 1.0).to(tl.float16), mask=inside)
    tl.store(place + 3, tl.zeros_like(red).to(tl.float16), mask=inside)


@triton.jit
def _enlarged(plane_ptr, top, bottom, left, right, below, beside, mask):
    """Bilinear between four values of the correction."""
    upper = tl.load(plane_ptr + top + left, mask=mask, other=0.0) * (1.0 - beside)
    upper += tl.load(plane_ptr + top + right, mask=mask, other=0.0) * beside
    lower = tl.load(plane_ptr + bottom + left, mask=mask, other=0.0) * (1.0 - beside)
    lower += tl.load(plane_ptr + bottom + right, mask=mask, other=0.0) * beside
    return upper * (1.0 - below) + lower * below


@triton.jit
def _change_at(
    a_ptr, b_ptr, c_ptr, codes_ptr, residual_ptr, delta_ptr, strength, y, x, height, width, mask,
    MODEL: tl.constexpr, STEP: tl.constexpr,
    SUB_Y: tl.constexpr, SUB_X: tl.constexpr, PY: tl.constexpr, PX: tl.constexpr,
):  # fmt: skip
    """What is added to RGB at pixels: the enlarged correction and the residual, inside what RGB can hold."""
    down, across = tl.cdiv(height, 4), tl.cdiv(width, 4)
    # A pixel's place among the centres of cells, in eighths.
    v, u = 2 * y - 3, 2 * x - 3
    top, left = (v + 8) // 8 - 1, (u + 8) // 8 - 1
    below, beside = (v - 8 * top).to(tl.float32) * 0.125, (u - 8 * left).to(tl.float32) * 0.125
    bottom, right = tl.minimum(top + 1, down - 1) * across, tl.minimum(left + 1, across - 1)
    top, left = tl.maximum(top, 0) * across, tl.maximum(left, 0)
    at = residual_ptr + ((y // 4) * across + x // 4) * 64 + y % 4 * 16 + x % 4 * 4
    red, green, blue = rgb_at(
        a_ptr, b_ptr, c_ptr, codes_ptr, y, x, height, width, mask, MODEL, STEP, SUB_Y, SUB_X, PY, PX
    )
    plane = down * across
    r = red + _enlarged(delta_ptr, top, bottom, left, right, below, beside, mask)
    r += strength * tl.load(at, mask=mask, other=0.0).to(tl.float32)
    g = green + _enlarged(delta_ptr + plane, top, bottom, left, right, below, beside, mask)
    g += strength * tl.load(at + 1, mask=mask, other=0.0).to(tl.float32)
    b = blue + _enlarged(delta_ptr + 2 * plane, top, bottom, left, right, below, beside, mask)
    b += strength * tl.load(at + 2, mask=mask, other=0.0).to(tl.float32)
    r = tl.minimum(tl.maximum(r, 0.0), 1.0) - red
    g = tl.minimum(tl.maximum(g, 0.0), 1.0) - green
    b = tl.minimum(tl.maximum(b, 0.0), 1.0) - blue
    return r, g, b


@triton.jit
def _add_codes(source_ptr, out_ptr, at, codes_ptr, ROW: tl.constexpr, r, g, b, mask, FLOATING: tl.constexpr):
    """Add a change of RGB to samples of one component."""
    base = codes_ptr + 12 + 3 * ROW
    peak = tl.load(codes_ptr + 21)
    value = tl.load(source_ptr + at, mask=mask, other=0).to(tl.float32)
    value += r * tl.load(base) + g * tl.load(base + 1) + b * tl.load(base + 2)
    value = tl.minimum(tl.maximum(value, 0.0), peak)
    if FLOATING:
        tl.store(out_ptr + at, value, mask=mask)
    else:
        tl.store(out_ptr + at, (value + 0.5).to(tl.int32).to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["height", "width", "first", "ring"])
def _finish_kernel(
    a_ptr, b_ptr, c_ptr,  # rings of planes
    codes_ptr,
    residual_ptr,  # [B, h, w, 64] fp16
    delta_ptr,  # [B, 3, h, w] fp32
    strength_ptr,  # [B] fp32
    out_a_ptr, out_b_ptr, out_c_ptr,  # planes of B frames
    height, width, first, ring,
    MODEL: tl.constexpr, STEP: tl.constexpr,
    SUB_Y: tl.constexpr, SUB_X: tl.constexpr, PY: tl.constexpr, PX: tl.constexpr,
    FLOATING: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A program takes some chroma samples of a row: the pixels they cover, and those that the chroma's filter reaches.

    The filter is a box where a chroma sample lies between luma samples, a triangle where it lies on one of them.
    """
    cy, frame = tl.program_id(1), tl.program_id(2)
    cx = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    columns = tl.cdiv(width, SUB_X)
    inside = cx < columns
    slot = ((first + frame) % ring).to(tl.int64)
    size_a, size_b = frame_sizes(height, width, MODEL, STEP, SUB_Y, SUB_X)
    a_ptr += slot * size_a
    b_ptr += slot * size_b
    c_ptr += slot * size_b
    wide = frame.to(tl.int64)
    out_a_ptr += wide * size_a
    out_b_ptr += wide * size_b
    out_c_ptr += wide * size_b
    cells = tl.cdiv(height, 4) * tl.cdiv(width, 4)
    residual_ptr += wide * cells * 64
    delta_ptr += wide * cells * 3
    strength = tl.load(strength_ptr + frame)
    sum_r = tl.zeros((COLUMNS,), tl.float32)
    sum_g, sum_b = sum_r, sum_r
    on_y: tl.constexpr = SUB_Y > 1 and PY != SUB_Y - 1
    on_x: tl.constexpr = SUB_X > 1 and PX != SUB_X - 1
    first_y: tl.constexpr = PY // 2 - (SUB_Y - 1) if on_y else 0
    first_x: tl.constexpr = PX // 2 - (SUB_X - 1) if on_x else 0
    taps_y: tl.constexpr = 2 * SUB_Y - 1 if on_y else SUB_Y
    taps_x: tl.constexpr = 2 * SUB_X - 1 if on_x else SUB_X
    for i in tl.static_range(taps_y):
        for j in tl.static_range(taps_x):
            # 1, 2, .., SUB, .., 2, 1 for a triangle, SUB for a box; over SUB squared.
            tap_y = (i + 1 if i < SUB_Y else 2 * SUB_Y - 1 - i) if on_y else SUB_Y
            tap_x = (j + 1 if j < SUB_X else 2 * SUB_X - 1 - j) if on_x else SUB_X
            share = tap_y * tap_x / (SUB_Y * SUB_Y * SUB_X * SUB_X)
            oy = first_y + i
            ox = first_x + j
            y = tl.minimum(tl.maximum(cy * SUB_Y + oy, 0), height - 1)
            x = tl.minimum(tl.maximum(cx * SUB_X + ox, 0), width - 1)
            r, g, b = _change_at(
                a_ptr, b_ptr, c_ptr, codes_ptr, residual_ptr, delta_ptr, strength, y + 0 * x, x, height, width, inside,
                MODEL, STEP, SUB_Y, SUB_X, PY, PX,
            )  # fmt: skip
            if oy >= 0 and oy < SUB_Y and ox >= 0 and ox < SUB_X:
                own = inside & (cy * SUB_Y + oy < height) & (cx * SUB_X + ox < width)
                at = (y * width + x) * STEP
                _add_codes(a_ptr, out_a_ptr, at, codes_ptr, 0, r, g, b, own, FLOATING)
                if MODEL == 0:
                    _add_codes(b_ptr, out_b_ptr, at, codes_ptr, 1, r, g, b, own, FLOATING)
                    _add_codes(c_ptr, out_c_ptr, at, codes_ptr, 2, r, g, b, own, FLOATING)
            sum_r += r * share
            sum_g += g * share
            sum_b += b * share
    if MODEL == 1:
        at = cy * columns + cx
        _add_codes(b_ptr, out_b_ptr, at, codes_ptr, 1, sum_r, sum_g, sum_b, inside, FLOATING)
        _add_codes(c_ptr, out_c_ptr, at, codes_ptr, 2, sum_r, sum_g, sum_b, inside, FLOATING)

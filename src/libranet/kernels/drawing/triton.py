# mypy: disable-error-code="no-untyped-def"
"""Frames drawn in their own samples: one pass per component, whatever is drawn."""

import triton
import triton.language as tl

from libranet.kernels.samples.rgb import to_rgb


@triton.jit
def _between(at, count, size):
    """The two rows or columns of a small map around a place in a large one, and the share of the second."""
    place = tl.maximum((at.to(tl.float32) + 0.5) * (count.to(tl.float32) / size.to(tl.float32)) - 0.5, 0.0)
    low = tl.minimum(place.to(tl.int32), count - 1)
    return low, tl.minimum(low + 1, count - 1), place - low.to(tl.float32)


@triton.jit
def _shade(map_ptr, table_ptr, y, x, rows, columns, height, width, mask, SHADES: tl.constexpr):
    """The heat map's samples at places of a component of `height` by `width`."""
    top, bottom, below = _between(y, rows, height)
    left, right, beside = _between(x, columns, width)
    upper = tl.load(map_ptr + top * columns + left, mask=mask, other=0.0) * (1.0 - beside)
    upper += tl.load(map_ptr + top * columns + right, mask=mask, other=0.0) * beside
    lower = tl.load(map_ptr + bottom * columns + left, mask=mask, other=0.0) * (1.0 - beside)
    lower += tl.load(map_ptr + bottom * columns + right, mask=mask, other=0.0) * beside
    haze = 1.0 - (upper * (1.0 - below) + lower * below)
    shade = (haze * (SHADES - 1) + 0.5).to(tl.int32)
    shade = tl.minimum(tl.maximum(shade, 0), SHADES - 1)
    return tl.load(table_ptr + shade, mask=mask, other=0).to(tl.float32)


@triton.jit(
    do_not_specialize=["height", "width", "edge", "shift", "top", "left", "box_height", "box_width",
                       "map_rows", "map_columns", "map_height", "map_width", "peak"]
)  # fmt: skip
def _draw_kernel(
    first_ptr, second_ptr, out_ptr,  # samples of one component
    map_ptr, table_ptr,  # the transmission fp32, and its colours
    factor_ptr, summand_ptr,  # [box_height, box_width] fp32
    first_line, second_line, out_line,  # samples from a row to the next
    height, width, edge, shift, top, left, box_height, box_width, map_rows, map_columns, map_height, map_width, peak,
    AXIS: tl.constexpr, HEAT: tl.constexpr,  # which source is the heat map: 0 none, 1 the first, 2 the second
    FIRST_STEP: tl.constexpr, SECOND_STEP: tl.constexpr, OUT_STEP: tl.constexpr,
    SHADES: tl.constexpr, FLOATING: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    y = tl.program_id(1)
    x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = x < width
    row = y + 0 * x
    if AXIS == 1:
        before = x < edge
        from_y, from_x = row, x - shift
    else:
        before = row < edge
        from_y, from_x = row - shift, x
    if HEAT == 1:
        a = _shade(map_ptr, table_ptr, row, x, map_rows, map_columns, map_height, map_width, inside & before, SHADES)
    else:
        place = row.to(tl.int64) * first_line + x * FIRST_STEP
        a = tl.load(first_ptr + place, mask=inside & before, other=0).to(tl.float32)
    if HEAT == 2:
        b = _shade(
            map_ptr, table_ptr, from_y, from_x, map_rows, map_columns, map_height, map_width, inside & (before == 0),
            SHADES,
        )  # fmt: skip
    else:
        place = from_y.to(tl.int64) * second_line + from_x * SECOND_STEP
        b = tl.load(second_ptr + place, mask=inside & (before == 0), other=0).to(tl.float32)
    value = tl.where(before, a, b)
    boxed = inside & (row >= top) & (row < top + box_height) & (x >= left) & (x < left + box_width)
    at = (row - top) * box_width + x - left
    value = value * tl.load(factor_ptr + at, mask=boxed, other=1.0)
    value += tl.load(summand_ptr + at, mask=boxed, other=0.0)
    place = out_ptr + row.to(tl.int64) * out_line + x * OUT_STEP
    if FLOATING:
        tl.store(place, value, mask=inside)
    else:
        value = tl.minimum(tl.maximum(value, 0.0), peak.to(tl.float32)) + 0.5
        tl.store(place, value.to(tl.int32).to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["height", "width"])
def _small_kernel(
    a_ptr, b_ptr, c_ptr,  # planes of one frame
    codes_ptr,
    out_ptr,  # [3, rows, columns] fp32
    height, width,
    MODEL: tl.constexpr, STEP: tl.constexpr,
    SUB_Y: tl.constexpr, SUB_X: tl.constexpr, PY: tl.constexpr, PX: tl.constexpr,
    CELL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    y = tl.program_id(1)
    x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    rows, columns = tl.cdiv(height, CELL), tl.cdiv(width, CELL)
    a = _mean(a_ptr, y, x, height, width, STEP, CELL, CELL)
    if MODEL == 0:
        b = _mean(b_ptr, y, x, height, width, STEP, CELL, CELL)
        c = _mean(c_ptr, y, x, height, width, STEP, CELL, CELL)
    elif MODEL == 1:
        down, across = tl.cdiv(height, SUB_Y), tl.cdiv(width, SUB_X)
        b = _mean(b_ptr, y, x, down, across, 1, CELL // SUB_Y, CELL // SUB_X)
        c = _mean(c_ptr, y, x, down, across, 1, CELL // SUB_Y, CELL // SUB_X)
    else:
        b, c = a, a
    red, green, blue = to_rgb(codes_ptr, a, b, c, MODEL)
    inside = x < columns
    place = out_ptr + y * columns + x
    tl.store(place, red, mask=inside)
    tl.store(place + rows * columns, green, mask=inside)
    tl.store(place + 2 * rows * columns, blue, mask=inside)


@triton.jit
def _mean(ptr, y, x, height, width, STEP: tl.constexpr, DOWN: tl.constexpr, ACROSS: tl.constexpr):
    """The mean of the samples in cells of DOWN by ACROSS, without what lies outside."""
    total = tl.zeros_like(x).to(tl.float32)
    count = total
    for i in tl.static_range(DOWN):
        for j in tl.static_range(ACROSS):
            row, column = y * DOWN + i, x * ACROSS + j
            mask = (row < height) & (column < width)
            total += tl.load(ptr + (row * width + column) * STEP, mask=mask, other=0).to(tl.float32)
            count += mask.to(tl.float32)
    return total / tl.maximum(count, 1.0)


@triton.jit
def _removed_kernel(hazy_ptr, clear_ptr, light_ptr, out_ptr, pixels, UNKNOWN: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < pixels
    numerator = tl.zeros((BLOCK,), tl.float32)
    denominator = numerator + UNKNOWN
    for c in tl.static_range(3):
        light = tl.load(light_ptr + c)
        hazy = light - tl.load(hazy_ptr + c * pixels + at, mask=inside, other=0.0)
        clear = light - tl.load(clear_ptr + c * pixels + at, mask=inside, other=0.0)
        numerator += hazy * clear
        denominator += clear * clear
    tl.store(out_ptr + at, tl.minimum(tl.maximum(numerator / denominator, 0.0), 1.0), mask=inside)

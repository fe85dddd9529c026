# mypy: disable-error-code="no-untyped-def"
"""The loops of `panels.py`, compiled by numba: a band of a frame's rows, read or written."""

import numpy as np
from numba import njit, prange

from libranet.kernels.compiled import compiled
from libranet.kernels.samples.reference import MODELS
from libranet.kernels.vector_code import make_block

CELL = 4
BAND = 64
"""Rows of a frame that one thread works on."""
_RGB, _YUV = MODELS["rgb"], MODELS["yuv"]
PACKED = len(MODELS)
"""The model of interleaved RGB, whose rows are [3 w]."""
_FAST = {"contract", "nsz", "nnan"}
_NEAR, _FAR = np.float32(0.375), np.float32(0.125)
"""Weights of the next cell for the outer and the inner pixels of a cell, when corrections are enlarged."""


@njit(inline="always")
def _unit(x):
    return min(max(x, np.float32(0.0)), np.float32(1.0))


@compiled(fastmath=_FAST)
def _widen(row, step, weights, count, out):
    """Chroma samples [1 .. count] of a row, their ends repeated in 0 and count + 1, at every luma sample."""
    row[0], row[count + 1] = row[1], row[count]
    if step == 2:
        a, b, c = weights[0]
        d, e, f = weights[1]
        for i in range(count):
            before, here, after = row[i], row[i + 1], row[i + 2]
            out[2 * i] = a * before + b * here + c * after
            out[2 * i + 1] = d * before + e * here + f * after
    else:
        for k in range(step):
            a, b, c = weights[k]
            for i in range(count):
                out[step * i + k] = a * row[i] + b * row[i + 1] + c * row[i + 2]


@compiled(fastmath=_FAST)
def _rgb_row(first, second, third, y, n, model, step, weights, pairs, between, chroma, wide, rgb):
    """One row in RGB, within [0, 1]."""
    w = first.shape[1]
    if model == PACKED:
        line = first[y]
        for x in range(w // 3):
            rgb[0, x] = n[0] * np.float32(line[3 * x])
            rgb[1, x] = n[0] * np.float32(line[3 * x + 1])
            rgb[2, x] = n[0] * np.float32(line[3 * x + 2])
        return
    if model != _YUV:
        for x in range(w):
            rgb[0, x] = _unit(n[0] * np.float32(first[y, x]) + n[9])
        if model == _RGB:
            for x in range(w):
                rgb[1, x] = _unit(n[4] * np.float32(second[y, x]))
            for x in range(w):
                rgb[2, x] = _unit(n[8] * np.float32(third[y, x]))
        else:
            for x in range(w):
                rgb[1, x] = rgb[0, x]
                rgb[2, x] = rgb[0, x]
        return
    count, above, below, f = second.shape[1], pairs[y, 0], pairs[y, 1], between[y]
    for x in range(count):
        upper = np.float32(second[above, x])
        chroma[0, x + 1] = upper + f * (np.float32(second[below, x]) - upper)
    for x in range(count):
        upper = np.float32(third[above, x])
        chroma[1, x + 1] = upper + f * (np.float32(third[below, x]) - upper)
    _widen(chroma[0], step, weights, count, wide[0])
    _widen(chroma[1], step, weights, count, wide[1])
    blue, red = wide[0], wide[1]
    for colour in range(3):
        a, b, c, d = n[3 * colour], n[3 * colour + 1], n[3 * colour + 2], n[9 + colour]
        for x in range(w):
            rgb[colour, x] = _unit(a * np.float32(first[y, x]) + b * blue[x] + c * red[x] + d)


@compiled(fastmath=_FAST)
def _reduce_row(rows, first, start, taps, out):
    """Three rows of sums, [W] each, reduced along their length into [3, n]."""
    n = taps.shape[1]
    for colour in range(3):
        line = rows[first + colour]
        for x in range(len(start)):
            total = np.float32(0.0)
            begin = start[x]
            for k in range(n):
                total += taps[x, k] * line[begin + k]
            out[colour, x] = total


@compiled(fastmath=_FAST)
def _reduce(rgb, sums, y, begin, end, at, first, pair, start, taps, parts):
    """Add a row to the sums of the two outputs that it counts for, `at` and the next; write those that are complete."""
    width = rgb.shape[1]
    ready = 2 if y + 1 == end else 1 if first[y + 1] != at else 0
    a, b = pair[y, 0], pair[y, 1]
    for colour in range(3):
        for x in range(width):
            value = rgb[colour, x]
            sums[colour, x] += a * value
            sums[3 + colour, x] += b * value
    for k in range(ready):
        _reduce_row(sums, 3 * k, start, taps, parts[at + k - first[begin]])
    if ready == 1:
        for colour in range(3):
            for x in range(width):
                sums[colour, x] = sums[3 + colour, x]
                sums[3 + colour, x] = np.float32(0.0)
    return at + ready


def _write_colours(code, bases, places):
    """A row of a cell: four pixels of each colour side by side."""
    rgb, cells = bases
    at, width, to = places
    b = code.builder
    for colour in range(3):
        four = code.load(code.at(rgb, b.add(at, b.mul(width, code.integer(colour)))))
        code.store(four, code.at(cells, b.add(to, code.integer(CELL * colour))))


_write_cell = make_block(_write_colours, 2, 3, lanes=CELL)


@compiled(fastmath=_FAST, nogil=True)
def read_band(
    band, first, second, third, n, model, step, weights, pairs, between, cells, height, width,
    low_first, low_pair, low_start, low_taps, low_parts, small_first, small_pair, small_start, small_taps, small_parts,
):  # fmt: skip
    h, w = first.shape[0], first.shape[1] // (3 if model == PACKED else 1)
    rgb = np.zeros((3, width), np.float32)
    chroma, wide = np.zeros((2, second.shape[1] + 2), np.float32), np.zeros((2, width + 8), np.float32)
    low, small = np.zeros((6, width), np.float32), np.zeros((6, width), np.float32)
    begin, end = band * BAND, min((band + 1) * BAND, height)
    values, flat, row_step = rgb.ravel(), cells.ravel(), 48 * cells.shape[1]
    low_at, small_at = low_first[begin], small_first[begin]
    for y in range(begin, end):
        row = y if y < h else 2 * h - 2 - y
        _rgb_row(first, second, third, row, n, model, step, weights, pairs, between, chroma, wide, rgb)
        for x in range(w, width):
            for colour in range(3):
                rgb[colour, x] = rgb[colour, 2 * w - 2 - x]
        low_at = _reduce(rgb, low, y, begin, end, low_at, low_first, low_pair, low_start, low_taps, low_parts[band])
        small_at = _reduce(
            rgb, small, y, begin, end, small_at, small_first, small_pair, small_start, small_taps, small_parts[band]
        )
        at = (y // CELL + 1) * row_step + 48 + 12 * (y % CELL)
        for x in range(width // CELL):
            _write_cell((values, flat), (CELL * x, width, at + 48 * x))


@compiled(fastmath=_FAST)
def _change_row(y, rgb, delta, residual, strength, blended, change):
    """What the network changes in a row, so that RGB stays in [0, 1]."""
    h, w = delta.shape[1], delta.shape[2]
    at = min(max((y + 0.5) / CELL - 0.5, 0.0), h - 1.0)
    above = int(at)
    below, f = min(above + 1, h - 1), np.float32(at - above)
    line, place = residual[y // CELL + 1], 12 * (y % CELL)
    for colour in range(3):
        for x in range(w):
            upper = delta[colour, above, x]
            blended[x + 1] = upper + f * (delta[colour, below, x] - upper)
        blended[0], blended[w + 1] = blended[1], blended[w]
        first = place + CELL * colour
        given, changed = rgb[colour], change[colour]
        for x in range(w):
            here = blended[x + 1]
            before, after = blended[x] - here, blended[x + 2] - here
            a, b = given[CELL * x], given[CELL * x + 1]
            c, d = given[CELL * x + 2], given[CELL * x + 3]
            changed[CELL * x] = _unit(a + here + _NEAR * before + strength * line[x + 1, first]) - a
            changed[CELL * x + 1] = _unit(b + here + _FAR * before + strength * line[x + 1, first + 1]) - b
            changed[CELL * x + 2] = _unit(c + here + _FAR * after + strength * line[x + 1, first + 2]) - c
            changed[CELL * x + 3] = _unit(d + here + _NEAR * after + strength * line[x + 1, first + 3]) - d


@njit(inline="always")
def _sample(value, floating, peak):
    if not floating:
        value = np.rint(value)
    return min(max(value, np.float32(0.0)), peak)


@compiled(fastmath=_FAST)
def _write_row(plane, out, y, difference, begin, floating, peak):
    if floating:
        for x in range(plane.shape[1]):
            out[y, x] = _sample(np.float32(plane[y, x]) + difference[begin + x], True, peak)
    else:
        for x in range(plane.shape[1]):
            out[y, x] = _sample(np.float32(plane[y, x]) + difference[begin + x], False, peak)


@compiled(fastmath=_FAST)
def _write_packed(plane, out, y, change, w, floating, peak):
    line, target = plane[y], out[y]
    if floating:
        for x in range(3 * w):
            target[x] = _sample(np.float32(line[x]) + change[x % 3, x // 3], True, peak)
    else:
        for x in range(w):
            target[3 * x] = _sample(np.float32(line[3 * x]) + peak * change[0, x], False, peak)
            target[3 * x + 1] = _sample(np.float32(line[3 * x + 1]) + peak * change[1, x], False, peak)
            target[3 * x + 2] = _sample(np.float32(line[3 * x + 2]) + peak * change[2, x], False, peak)


@compiled(fastmath=_FAST)
def _mix_rows(change, n, w, out):
    """A row's change in code values, from place 4 on."""
    for row in range(3):
        a, b, c = n[12 + 3 * row], n[13 + 3 * row], n[14 + 3 * row]
        for x in range(w):
            out[row, 4 + x] = a * change[0, x] + b * change[1, x] + c * change[2, x]


@compiled(fastmath=_FAST, nogil=True)
def finish_band(
    band, first, second, third, out_first, out_second, out_third, n, model, step, weights, pairs, between,
    x_offset, x_means, y_step, y_offset, y_means, delta, residual, strength, floating,
):  # fmt: skip
    h, w, width = first.shape[0], first.shape[1] // (3 if model == PACKED else 1), delta.shape[2] * CELL
    chroma_h, chroma_w, peak = second.shape[0], second.shape[1], n[21]
    rgb, change = np.zeros((3, width), np.float32), np.zeros((3, width), np.float32)
    chroma, wide = np.zeros((2, chroma_w + 2), np.float32), np.zeros((2, width + 8), np.float32)
    blended, mixed = np.zeros(delta.shape[2] + 2, np.float32), np.zeros((3, width + 16), np.float32)
    begin, end = band * BAND, min((band + 1) * BAND, h)
    top, bottom = begin // y_step, min((band + 1) * BAND // y_step, chroma_h)
    lowest, highest = begin, end
    rows = bottom - top if model == _YUV else 0
    sums = np.zeros((2 * rows, chroma_w if model == _YUV else 1), np.float32)
    if model == _YUV:
        lowest = min(begin, y_step * top + y_offset)
        highest = max(end, y_step * (bottom - 1) + y_offset + len(y_means))
    for line in range(lowest, highest):
        y = min(max(line, 0), h - 1)
        _rgb_row(first, second, third, y, n, model, step, weights, pairs, between, chroma, wide, rgb)
        _change_row(y, rgb, delta, residual, strength, blended, change)
        if model == PACKED:
            _write_packed(first, out_first, y, change, w, floating, peak)
            continue
        _mix_rows(change, n, w, mixed)
        for plane in range(3):
            if plane > 0 and model == _YUV:
                _average_row(
                    mixed[plane], w, line, top, rows, step, x_offset, x_means, y_step, y_offset, y_means, sums,
                    (plane - 1) * rows,
                )  # fmt: skip
            elif begin <= line < end and (plane == 0 or model == _RGB):
                source = first if plane == 0 else second if plane == 1 else third
                target = out_first if plane == 0 else out_second if plane == 1 else out_third
                _write_row(source, target, y, mixed[plane], 4, floating, peak)
    for row in range(2 * rows):
        source, target = (second, out_second) if row < rows else (third, out_third)
        _write_row(source, target, top + row % rows, sums[row], 0, floating, peak)


@compiled(fastmath=_FAST)
def _average_row(row, w, line, top, rows, step, x_offset, x_means, y_step, y_offset, y_means, sums, first):
    """Add a row's chroma, which begins at place 4, to the chroma rows that it counts for; its ends are repeated."""
    for x in range(4):
        row[x] = row[4]
    for x in range(4 + w, len(row)):
        row[x] = row[3 + w]
    for index in range(rows):
        tap = line - y_step * (top + index) - y_offset
        if 0 <= tap < len(y_means):
            for k in range(len(x_means)):
                f, at = y_means[tap] * x_means[k], 4 + x_offset + k
                if step == 2:
                    for x in range(sums.shape[1]):
                        sums[first + index, x] += f * row[2 * x + at]
                else:
                    for x in range(sums.shape[1]):
                        sums[first + index, x] += f * row[step * x + at]


@compiled(fastmath=_FAST | {"reassoc"}, parallel=True)
def write_cell_means(residual, out):
    for y in prange(out.shape[1]):
        line = residual[y + 1]
        for x in range(out.shape[2]):
            for colour in range(3):
                total = np.float32(0.0)
                for row in range(CELL):
                    for k in range(CELL):
                        total += line[x + 1, 12 * row + CELL * colour + k]
                out[colour, y, x] = total / np.float32(CELL * CELL)

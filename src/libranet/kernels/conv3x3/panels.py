# mypy: disable-error-code="no-untyped-def"
"""3x3 convolution on a CPU, by numba: Winograd's F(4x4, 3x3), which takes a quarter of the products.

A tile of 4x4 results comes from 6x6 inputs. Both are transformed; between them the convolution is 36 matrix products
over channels. A few tiles at a time go through all three steps, so that what lies between them stays in the cache.
GroupNorm's sums are added up while the results are written.

Maps have a border of zeros, so that no step asks where the frame ends, and whole panels of channels (`make_map`). They
are in float32, or in bfloat16 as uint16; the type of the weights is the one that is multiplied.
"""

from typing import NamedTuple

import numpy as np
import torch
from numba import get_num_threads, get_thread_id, prange
from torch import Tensor

from libranet.kernels.compiled import compiled
from libranet.kernels.vector_code import LANES, PANEL, WIDE, make_block, make_multiply, stored

TILES = 36
"""Most tiles that go through the three steps at once; a multiple of `ROWS`."""
ROWS, PANELS = (12, 2) if WIDE else (6, 1)
"""Rows and panels of a block of a matrix product: as many sums as the CPU has registers for."""
REST = ROWS // 3
"""Rows of the blocks for what whole ones leave."""


def _transforms() -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # [6, 6], [4, 6], [6, 3]
    """The transforms of inputs, results and weights, by evaluating polynomials at five points and at infinity.

    Lavin and Gray take the points 0, 1, -1, 2, -2. These lose half as much when the transformed values are rounded to
    bfloat16, and a quarter in float32.
    """
    points = np.array([0.0, 0.75, -0.75, 1.5, -1.5])

    def evaluate(count: int) -> np.ndarray:  # [6, count]
        return np.vstack([points[:, None] ** np.arange(count), np.eye(count)[-1:]])

    return np.linalg.inv(evaluate(6)).T, evaluate(4).T, evaluate(3)


_INPUT, _OUTPUT, _WEIGHT = _transforms()


class Weights(NamedTuple):
    """A convolution's weights as the kernels read them."""

    values: np.ndarray
    """Flat: [36, panels, Cin, 16] for Winograd, [panels, taps * Cin, 16] otherwise. In bfloat16, two rows of inputs are
    interleaved: [.., Cin / 2, 16, 2]."""
    bias: np.ndarray  # [panels * 16]
    inputs: int
    """Channels of the maps that they meet: whole panels, or 3."""
    outputs: int
    """Without the zeros that fill the last panel."""


def pack_winograd(
    weight: Tensor,  # [Cout, Cin, 3, 3]
    bias: Tensor | None = None,  # [Cout]
    dtype: type[np.generic] = np.float32,
) -> Weights:
    """Transform weights for `convolve`."""
    transform = torch.tensor(_WEIGHT, dtype=torch.float64)
    spread = torch.einsum("ia,ocab,jb->ijco", transform, weight.detach().double(), transform)
    return _pack(spread.flatten(0, 1), bias, 1, dtype)


def pack_patches(
    weight: Tensor,  # [Cout, Cin, k, k]
    bias: Tensor | None = None,  # [Cout]
    dtype: type[np.generic] = np.float32,
) -> Weights:
    """Order weights for `convolve_patches` and for 1x1 convolutions."""
    ordered = weight.detach().double().permute(2, 3, 1, 0)
    return _pack(ordered.flatten(0, 2)[None], bias, weight.shape[2] * weight.shape[3], dtype)


def _pack(
    spread: Tensor,  # [positions, taps * Cin, Cout]
    bias: Tensor | None,
    taps: int,
    dtype: type[np.generic],
) -> Weights:
    given, outputs = spread.shape[1] // taps, spread.shape[2]
    inputs = given if given < LANES // 2 else whole_panels(given)
    panels = -(-outputs // PANEL)
    padded = spread.new_zeros(len(spread), taps, inputs, panels * PANEL)
    padded[:, :, :given, :outputs] = spread.unflatten(1, (taps, given))
    ordered = padded.flatten(1, 2).unflatten(2, (panels, PANEL)).transpose(1, 2)  # [positions, panels, depth, 16]
    if dtype is np.uint16:
        ordered = ordered.unflatten(2, (-1, 2)).transpose(3, 4)
    shift = np.zeros(panels * PANEL, np.float32)
    if bias is not None:
        shift[:outputs] = bias.detach().float().numpy()
    return Weights(stored(ordered, dtype).ravel(), shift, inputs, outputs)


def whole_panels(channels: int) -> int:
    """The number of channels, rounded up to whole panels."""
    return -(-channels // PANEL) * PANEL


def make_map(
    height: int,
    width: int,
    channels: int,  # whole panels, or 3
    dtype: type[np.generic] = np.float32,
) -> np.ndarray:  # [H', W', C], zeros
    """A map with a border: the pixel (y, x) is at [y + 1, x + 1], and all around it is zero up to whole tiles."""
    shape = -(-height // 4) * 4 + 2, -(-width // 4) * 4 + 2, channels
    # Behind the last pixel, blocks of rows may read what they do not use.
    memory = np.zeros(shape[0] * shape[1] * channels + 2 * ROWS * channels, dtype)
    return memory[: shape[0] * shape[1] * channels].reshape(shape)


def convolve(
    x: np.ndarray,  # [H', W', C], from `make_map`
    weights: Weights,  # from `pack_winograd`
    out: np.ndarray,  # [H', W', C'], from `make_map`; whole panels are written from channel `first` on
    size: tuple[int, int],  # (h, w) without borders
    *,
    first: int = 0,
) -> np.ndarray:  # [parts, 2, Cout], sums and sums of squares of each channel
    """Convolve with padding 1 and stride 1."""
    h, w = size
    padded = len(weights.bias)
    assert x.shape[2] == weights.inputs
    assert first + padded <= out.shape[2]
    total = -(-h // 4) * -(-w // 4)
    threads = get_num_threads()
    share = -(-total // threads)
    tiles = min(TILES, -(-share // REST) * REST)
    sums = np.zeros((-(-total // tiles), 2, padded), np.float32)
    spread = np.zeros((threads, 36 * (tiles * weights.inputs + PANEL)), weights.values.dtype)
    products = np.zeros((threads, 36 * (tiles * padded + PANEL) + 16 * padded), np.float32)
    _convolve(
        x.ravel(), x.shape[1] * x.shape[2], x.shape[2], weights.values, weights.bias, weights.inputs,
        out.ravel(), out.shape[1] * out.shape[2], out.shape[2], first, h, w, sums, spread, products, tiles,
    )  # fmt: skip
    return sums[..., : weights.outputs]


def convolve_patches(
    x: np.ndarray,  # [H', W', C], from `make_map`
    weights: Weights,  # from `pack_patches`
    out: np.ndarray,  # [h', w', C'], from `make_map`
    size: tuple[int, int],  # (h, w) of the output
    *,
    stride: int = 1,
) -> np.ndarray:  # [parts, 2, Cout]
    """Convolve with padding 1 and a product over the nine pixels of each result: for few channels, or stride 2."""
    h, w = size
    padded = len(weights.bias)
    assert x.shape[2] == weights.inputs
    scratch = np.zeros((get_num_threads(), ROWS * padded), np.float32)
    sums = np.zeros((h, 2, padded), np.float32)
    _convolve_patches(
        x.ravel(), x.shape[1] * x.shape[2], weights.values, weights.bias, weights.inputs,
        out.ravel(), out.shape[1] * out.shape[2], out.shape[2], h, w, stride, sums, scratch,
    )  # fmt: skip
    return sums[..., : weights.outputs]


def _combine(code, row, values):
    return code.combine([(float(f), v) for f, v in zip(row, values, strict=True) if abs(f) > 1e-9])


def _transform_input(code, values):
    """_INPUT @ values, for a list of vectors. Two points that differ in their sign share all products."""
    b, results = code.builder, [_combine(code, _INPUT[0], values)]
    for row in (_INPUT[1], _INPUT[3]):
        odd, even = (_combine(code, row[first::2], values[first::2]) for first in (1, 2))
        results += [b.fadd(even, odd), b.fsub(even, odd)]
    return [*results, _combine(code, _INPUT[5], values)]


def _transform_output(code, values):
    """_OUTPUT @ values."""
    b, results = code.builder, []
    sums = [b.fadd(values[k], values[k + 1]) for k in (1, 3)]
    differences = [b.fsub(values[k], values[k + 1]) for k in (1, 3)]
    for number, row in enumerate(_OUTPUT):
        near, far = differences if number % 2 else sums
        results.append(_combine(code, [row[0], row[1], row[3], row[5]], [values[0], near, far, values[5]]))
    return results


def _write_spread(code, bases, places):
    """6x6 pixels of a vector of channels -> 36 slots."""
    x, slots = bases
    at, row, pixel, slot, step = places
    b = code.builder
    lines = []
    for i in range(6):
        begin = b.add(at, b.mul(row, code.integer(i)))
        lines.append([code.load(code.at(x, b.add(begin, b.mul(pixel, code.integer(j))))) for j in range(6)])
        lines[i] = _transform_input(code, lines[i])
    columns = [_transform_input(code, [lines[i][j] for i in range(6)]) for j in range(6)]
    for i in range(6):
        for j in range(6):
            code.store(columns[j][i], code.at(slots, b.add(slot, b.mul(step, code.integer(6 * i + j)))))


def _write_gather(code, bases, places):
    """36 slots -> 4x4 pixels of a vector of channels, and their sums."""
    slots, out, bias, sums = bases
    slot, step, at, row, pixel, channel, total, squares = places
    b = code.builder
    shift = code.load(code.at(bias, channel))
    lines = []
    for j in range(6):
        column = [code.load(code.at(slots, b.add(slot, b.mul(step, code.integer(6 * i + j))))) for i in range(6)]
        lines.append(_transform_output(code, column))
    added = code.load(code.at(sums, total))
    squared = code.load(code.at(sums, squares))
    for i in range(4):
        begin = b.add(at, b.mul(row, code.integer(i)))
        for j, value in enumerate(_transform_output(code, [lines[k][i] for k in range(6)])):
            result = b.fadd(value, shift)
            code.store(result, code.at(out, b.add(begin, b.mul(pixel, code.integer(j)))))
            added = b.fadd(added, result)
            squared = code.fma(result, result, squared)
    code.store(added, code.at(sums, total))
    code.store(squared, code.at(sums, squares))


def _write_copy(code, bases, places):
    """A vector of channels of one result, and their sums."""
    results, out, sums = bases
    source, at, total, squares = places
    value = code.load(code.at(results, source))
    code.store(value, code.at(out, at))
    code.store(code.builder.fadd(code.load(code.at(sums, total)), value), code.at(sums, total))
    code.store(code.fma(value, value, code.load(code.at(sums, squares))), code.at(sums, squares))


_spread = make_block(_write_spread, 2, 5)
_gather = make_block(_write_gather, 4, 8)
_copy = make_block(_write_copy, 3, 4)
_multiply, _multiply_rest = make_multiply(ROWS, PANELS), make_multiply(REST, PANELS)
_multiply_last, _multiply_last_rest = make_multiply(ROWS, 1), make_multiply(REST, 1)
_multiply_patches = make_multiply(ROWS, 1, bias=True, parts=3)


@compiled(parallel=True)
def _convolve(
    x, x_row, x_pixel, weight, bias, inputs, out, out_row, out_pixel, first, h, w, sums, spread, products, tiles
):
    strips, columns, padded = (h + 3) // 4, (w + 3) // 4, len(bias)
    # A little apart, so that slots do not share the same few places of the cache.
    step, to_step = tiles * inputs + PANEL, tiles * padded + PANEL
    panels, total = padded // PANEL, strips * columns
    paired = panels // PANELS * PANELS
    for group in prange(len(sums)):
        mine, results = spread[get_thread_id()], products[get_thread_id()]
        edge = 36 * to_step
        totals = sums[group].ravel()
        begin = group * tiles
        count = min(tiles, total - begin)
        whole = count // ROWS * ROWS
        for tile in range(count):
            strip, column = (begin + tile) // columns, (begin + tile) % columns
            at = 4 * strip * x_row + 4 * column * x_pixel
            for c in range(0, inputs, LANES):
                _spread((x, mine), (at + c, x_row, x_pixel, tile * inputs + c, step))
        for place in range(36):
            for panel in range(panels):
                if panel < paired and panel % PANELS:
                    continue
                b_at = (place * panels + panel) * inputs * PANEL
                b_step = inputs * PANEL
                a_at, c_at = place * step, place * to_step + panel * PANEL
                if panel < paired:
                    for tile in range(0, whole, ROWS):
                        _multiply(
                            mine, a_at + tile * inputs, inputs, 0, weight, b_at, b_step,
                            results, c_at + tile * padded, padded, inputs, bias, 0, bias, 0, 0,
                        )  # fmt: skip
                    for tile in range(whole, count, REST):
                        _multiply_rest(
                            mine, a_at + tile * inputs, inputs, 0, weight, b_at, b_step,
                            results, c_at + tile * padded, padded, inputs, bias, 0, bias, 0, 0,
                        )  # fmt: skip
                else:
                    for tile in range(0, whole, ROWS):
                        _multiply_last(
                            mine, a_at + tile * inputs, inputs, 0, weight, b_at, b_step,
                            results, c_at + tile * padded, padded, inputs, bias, 0, bias, 0, 0,
                        )  # fmt: skip
                    for tile in range(whole, count, REST):
                        _multiply_last_rest(
                            mine, a_at + tile * inputs, inputs, 0, weight, b_at, b_step,
                            results, c_at + tile * padded, padded, inputs, bias, 0, bias, 0, 0,
                        )  # fmt: skip
        nothing = np.zeros(2 * padded, np.float32)
        for tile in range(count):
            y, z = 4 * ((begin + tile) // columns), 4 * ((begin + tile) % columns)
            if y + 4 <= h and z + 4 <= w:
                at = (y + 1) * out_row + (z + 1) * out_pixel + first
                for c in range(0, padded, LANES):
                    _gather(
                        (results, out, bias, totals),
                        (tile * padded + c, to_step, at + c, out_row, out_pixel, c, c, padded + c),
                    )
                continue
            for c in range(0, padded, LANES):
                _gather(
                    (results, results, bias, nothing),
                    (tile * padded + c, to_step, edge + c, 4 * padded, padded, c, c, padded + c),
                )
            for i in range(min(4, h - y)):
                for j in range(min(4, w - z)):
                    at = (y + i + 1) * out_row + (z + j + 1) * out_pixel + first
                    for c in range(0, padded, LANES):
                        _copy((results, out, totals), (edge + (4 * i + j) * padded + c, at + c, c, padded + c))


@compiled(parallel=True)
def _convolve_patches(x, x_row, weight, bias, inputs, out, out_row, out_pixel, h, w, stride, sums, scratch):
    padded = len(bias)
    for y in prange(h):
        mine = scratch[get_thread_id()]
        totals = sums[y].ravel()
        for z in range(0, w, ROWS):
            at = stride * (y * x_row + z * inputs)  # three pixels side by side are contiguous, three rows are not
            for panel in range(padded // PANEL):
                column = panel * PANEL
                _multiply_patches(
                    x, at, stride * inputs, x_row, weight, panel * 9 * inputs * PANEL, 0,
                    mine, column, padded, 3 * inputs, bias, column, bias, 0, 0,
                )  # fmt: skip
            for k in range(min(ROWS, w - z)):
                to = (y + 1) * out_row + (z + k + 1) * out_pixel
                for c in range(0, padded, LANES):
                    _copy((mine, out, totals), (k * padded + c, to + c, c, padded + c))

# mypy: disable-error-code="no-untyped-def"
"""3x3 convolution on a CPU in float32, by numba: Winograd's F(4x4, 3x3), which takes a quarter of the products.

A tile of 4x4 results comes from 6x6 inputs. Both are transformed; between them the convolution is 36 matrix products
over channels. A few tiles at a time go through all three steps, so that what lies between them stays in the cache.
GroupNorm's sums are added up while the results are written.

Maps have a border of zeros, so that no step asks where the frame ends (`make_map`).
"""

from typing import NamedTuple

import llvmlite.binding
import numpy as np
import torch
from numba import get_num_threads, get_thread_id, njit, prange
from torch import Tensor

from libranet.kernels.vector_code import LANES, make_block, make_multiply

PANEL = 16
"""Output channels that a block of the matrix product computes; weights are stored in panels of so many."""
TILES = 36
"""Most tiles that go through the three steps at once; a multiple of `_ROWS`."""
_WIDE = bool(llvmlite.binding.get_host_cpu_features().get("avx512f"))
_ROWS = 12 if _WIDE else 6
"""Rows of such a block: as many sums as the CPU has registers for."""

# B^T, A^T and G of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks".
_INPUT = (
    (4, 0, -5, 0, 1, 0),
    (0, -4, -4, 1, 1, 0),
    (0, 4, -4, -1, 1, 0),
    (0, -2, -1, 2, 1, 0),
    (0, 2, -1, -2, 1, 0),
    (0, 4, 0, -5, 0, 1),
)
_OUTPUT = ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1))
_WEIGHT = (
    (1 / 4, 0, 0),
    (-1 / 6, -1 / 6, -1 / 6),
    (-1 / 6, 1 / 6, -1 / 6),
    (1 / 24, 1 / 12, 1 / 6),
    (1 / 24, -1 / 12, 1 / 6),
    (0, 0, 1),
)


class Weights(NamedTuple):
    """A convolution's weights as the kernels read them."""

    values: np.ndarray
    """Flat: [36, panels, Cin, 16] for Winograd, [panels, taps * Cin, 16] otherwise."""
    bias: np.ndarray  # [panels * 16]
    inputs: int
    outputs: int


def pack_winograd(
    weight: Tensor,  # [Cout, Cin, 3, 3]
    bias: Tensor | None = None,  # [Cout]
) -> Weights:
    """Transform weights for `convolve`."""
    transform = torch.tensor(_WEIGHT, dtype=torch.float64)
    spread = torch.einsum("ia,ocab,jb->ijco", transform, weight.detach().double(), transform)
    return _pack(spread.flatten(0, 1), bias, weight.shape[1])


def pack_patches(
    weight: Tensor,  # [Cout, Cin, k, k]
    bias: Tensor | None = None,  # [Cout]
) -> Weights:
    """Order weights for `convolve_patches` and for 1x1 convolutions."""
    return _pack(weight.detach().double().permute(2, 3, 1, 0).flatten(0, 2)[None], bias, weight.shape[1])


def _pack(spread: Tensor, bias: Tensor | None, inputs: int) -> Weights:  # [positions, depth, Cout]
    outputs = spread.shape[2]
    panels = -(-outputs // PANEL)
    padded = spread.new_zeros(*spread.shape[:2], panels * PANEL)
    padded[..., :outputs] = spread
    ordered = padded.unflatten(2, (panels, PANEL)).transpose(1, 2).float().contiguous()
    shift = np.zeros(panels * PANEL, np.float32)
    if bias is not None:
        shift[:outputs] = bias.detach().float().numpy()
    return Weights(ordered.numpy().ravel(), shift, inputs, outputs)


def make_map(height: int, width: int, channels: int) -> np.ndarray:  # [H', W', C], zeros
    """A map with a border: the pixel (y, x) is at [y + 1, x + 1], and all around it is zero up to whole tiles."""
    return np.zeros((-(-height // 4) * 4 + 2, -(-width // 4) * 4 + 2, channels), np.float32)


def convolve(
    x: np.ndarray,  # [H', W', C], from `make_map`
    weights: Weights,  # from `pack_winograd`
    out: np.ndarray,  # [H', W', C'], from `make_map`; written from channel `first` on
    size: tuple[int, int],  # (h, w) without borders
    *,
    first: int = 0,
) -> np.ndarray:  # [parts, 2, Cout], sums and sums of squares of each channel
    """Convolve with padding 1 and stride 1."""
    h, w = size
    assert x.shape[2] == weights.inputs
    assert x.shape[2] % LANES == 0
    columns = -(-w // 4)
    tiles = min(TILES, -(-columns // _ROWS) * _ROWS)
    depth = max(weights.inputs, len(weights.bias))
    scratch = np.zeros((get_num_threads(), 37 * (tiles * depth + PANEL) + 16 * len(weights.bias)), np.float32)
    sums = np.zeros((-(-h // 4), 2, len(weights.bias)), np.float32)
    _convolve(
        x.ravel(), x.shape[1] * x.shape[2], x.shape[2], weights.values, weights.bias, weights.inputs, weights.outputs,
        out.ravel(), out.shape[1] * out.shape[2], out.shape[2], first, h, w, sums, scratch, tiles,
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
    """Convolve with padding 1 by collecting the nine pixels of each result: for few channels, or stride 2."""
    h, w = size
    rows = -(-w // _ROWS) * _ROWS
    scratch = np.zeros((get_num_threads(), rows * (9 * weights.inputs + len(weights.bias))), np.float32)
    sums = np.zeros((h, 2, len(weights.bias)), np.float32)
    _convolve_patches(
        x.ravel(), x.shape[1] * x.shape[2], weights.values, weights.bias, weights.inputs, weights.outputs,
        out.ravel(), out.shape[1] * out.shape[2], out.shape[2], h, w, stride, sums, scratch, rows,
    )  # fmt: skip
    return sums[..., : weights.outputs]


def _transform(code, matrix, values):
    """matrix @ values, for a list of vectors."""
    return [code.combine([(float(f), v) for f, v in zip(row, values, strict=True) if f]) for row in matrix]


def _write_spread(code, bases, places):
    """6x6 pixels of eight channels -> 36 slots."""
    x, slots = bases
    at, row, pixel, slot, step = places
    b = code.builder
    lines = []
    for i in range(6):
        begin = b.add(at, b.mul(row, code.integer(i)))
        lines.append([code.load(code.at(x, b.add(begin, b.mul(pixel, code.integer(j))))) for j in range(6)])
        lines[i] = _transform(code, _INPUT, lines[i])
    columns = [_transform(code, _INPUT, [lines[i][j] for i in range(6)]) for j in range(6)]
    for i in range(6):
        for j in range(6):
            code.store(columns[j][i], code.at(slots, b.add(slot, b.mul(step, code.integer(6 * i + j)))))


def _write_gather(code, bases, places):
    """36 slots -> 4x4 pixels of eight channels, and their sums."""
    slots, out, bias, sums = bases
    slot, step, at, row, pixel, channel, total, squares = places
    b = code.builder
    shift = code.load(code.at(bias, channel))
    lines = []
    for j in range(6):
        column = [code.load(code.at(slots, b.add(slot, b.mul(step, code.integer(6 * i + j))))) for i in range(6)]
        lines.append(_transform(code, _OUTPUT, column))
    added = code.load(code.at(sums, total))
    squared = code.load(code.at(sums, squares))
    for i in range(4):
        begin = b.add(at, b.mul(row, code.integer(i)))
        for j, value in enumerate(_transform(code, _OUTPUT, [lines[k][i] for k in range(6)])):
            result = b.fadd(value, shift)
            code.store(result, code.at(out, b.add(begin, b.mul(pixel, code.integer(j)))))
            added = b.fadd(added, result)
            squared = code.fma(result, result, squared)
    code.store(added, code.at(sums, total))
    code.store(squared, code.at(sums, squares))


def _write_copy(code, bases, places):
    """Eight channels of one result, and their sums."""
    results, out, sums = bases
    source, at, total, squares = places
    value = code.load(code.at(results, source))
    code.store(value, code.at(out, at))
    code.store(code.builder.fadd(code.load(code.at(sums, total)), value), code.at(sums, total))
    code.store(code.fma(value, value, code.load(code.at(sums, squares))), code.at(sums, squares))


_spread = make_block(_write_spread, 2, 5)
_gather = make_block(_write_gather, 4, 8)
_copy = make_block(_write_copy, 3, 4)
_multiply = make_multiply(_ROWS, PANEL // (16 if _WIDE else 8), 16 if _WIDE else 8)
_multiply_bias = make_multiply(_ROWS, PANEL // (16 if _WIDE else 8), 16 if _WIDE else 8, bias=True)


@njit(parallel=True, cache=True)
def _convolve(
    x, x_row, x_pixel, weight, bias, inputs, outputs, out, out_row, out_pixel, first, h, w, sums, scratch, tiles
):
    strips, columns, padded = (h + 3) // 4, (w + 3) // 4, len(bias)
    step = tiles * max(inputs, padded) + PANEL  # so that slots do not share the same few places of the cache
    panels = padded // PANEL
    for strip in prange(strips):
        mine = scratch[get_thread_id()]
        edge = 37 * step
        totals = sums[strip].ravel()
        nothing = np.zeros(2 * padded, np.float32)
        for begin in range(0, columns, tiles):
            count = min(tiles, columns - begin)
            for tile in range(count):
                at = 4 * strip * x_row + 4 * (begin + tile) * x_pixel
                for c in range(0, inputs, LANES):
                    _spread((x, mine), (at + c, x_row, x_pixel, step + tile * inputs + c, step))
            # The products of a slot overwrite the slot before it.
            for place in range(36):
                for panel in range(panels):
                    b_at = (place * panels + panel) * inputs * PANEL
                    for tile in range(0, count, _ROWS):
                        _multiply(
                            mine, (place + 1) * step + tile * inputs, inputs, weight, b_at, PANEL,
                            mine, place * step + tile * padded + panel * PANEL, padded, inputs,
                            bias, 0, bias, 0, 0,
                        )  # fmt: skip
            for tile in range(count):
                y, z = 4 * strip, 4 * (begin + tile)
                whole = y + 4 <= h and z + 4 <= w
                if whole:
                    at = (y + 1) * out_row + (z + 1) * out_pixel + first
                    for c in range(0, outputs, LANES):
                        _gather(
                            (mine, out, bias, totals),
                            (tile * padded + c, step, at + c, out_row, out_pixel, c, c, padded + c),
                        )
                    continue
                for c in range(0, outputs, LANES):
                    _gather(
                        (mine, mine, bias, nothing),
                        (tile * padded + c, step, edge + c, 4 * padded, padded, c, c, padded + c),
                    )
                for i in range(min(4, h - y)):
                    for j in range(min(4, w - z)):
                        at = (y + i + 1) * out_row + (z + j + 1) * out_pixel + first
                        for c in range(outputs):
                            value = mine[edge + (4 * i + j) * padded + c]
                            out[at + c] = value
                            totals[c] += value
                            totals[padded + c] += value * value


@njit(parallel=True, cache=True)
def _convolve_patches(
    x, x_row, weight, bias, inputs, outputs, out, out_row, out_pixel, h, w, stride, sums, scratch, rows
):
    padded, depth = len(bias), 9 * inputs
    for y in prange(h):
        mine = scratch[get_thread_id()]
        after = rows * depth
        for z in range(w):
            for i in range(3):  # three pixels side by side are contiguous
                source = (stride * y + i) * x_row + stride * z * inputs
                at = z * depth + 3 * i * inputs
                for c in range(3 * inputs):
                    mine[at + c] = x[source + c]
        for panel in range(padded // PANEL):
            for z in range(0, w, _ROWS):
                _multiply_bias(
                    mine, z * depth, depth, weight, panel * depth * PANEL, PANEL,
                    mine, after + z * padded + panel * PANEL, padded, depth,
                    bias, panel * PANEL, bias, 0, 0,
                )  # fmt: skip
        totals = sums[y].ravel()
        for z in range(w):
            at = (y + 1) * out_row + (z + 1) * out_pixel
            for c in range(0, outputs, LANES):
                _copy((mine, out, totals), (after + z * padded + c, at + c, c, padded + c))

# mypy: disable-error-code="no-untyped-def"
"""The refiner's passes between convolutions on a CPU, by numba: GroupNorm from sums, GELU, 1x1 mix, skip connection."""

import numpy as np
from numba import get_num_threads, get_thread_id, njit, prange

from libranet.kernels.conv3x3.panels import _ROWS, _WIDE, PANEL, Weights
from libranet.kernels.vector_code import LANES, make_block, make_multiply

_BLOCK = 4 * _ROWS
"""Pixels that are activated and then mixed, while they are in the cache."""


def fold_sums(
    sums: np.ndarray,  # [parts, 2, C], from `conv3x3.panels.convolve`
    weight: np.ndarray,  # [C]
    bias: np.ndarray,  # [C]
    *,
    count: int,
    groups: int,
    eps: float,
) -> np.ndarray:  # [2, C], factor and summand
    """GroupNorm as y = factor * x + summand. `count` is the number of pixels."""
    total = sums.astype(np.float64).sum(axis=0).reshape(2, groups, -1).sum(axis=2) / (count * (len(weight) // groups))
    rstd = 1.0 / np.sqrt(np.maximum(total[1] - total[0] ** 2, 0.0) + eps)
    repeat = len(weight) // groups
    factor = np.repeat(rstd, repeat) * weight
    return np.stack([factor, bias - np.repeat(total[0], repeat) * factor]).astype(np.float32)


def normalise(
    raw: np.ndarray,  # [H', W', C], from `make_map`
    folded: np.ndarray,  # [2, C]
    out: np.ndarray,  # [H', W', C], from `make_map`; may be `raw`
    size: tuple[int, int],
    *,
    skip: np.ndarray | None = None,  # [H', W', C]
) -> None:
    """GELU(factor * raw + summand), or factor * raw + summand + skip."""
    args = (raw.ravel(), folded.ravel(), out.ravel(), raw.shape[1], raw.shape[2], *size)
    if skip is None:
        _normalise(*args)
    else:
        _normalise_skip(*args, skip.ravel())


def normalise_mix(
    raw: np.ndarray,  # [H', W', C], from `make_map`
    folded: np.ndarray,  # [2, C]
    skip: np.ndarray,  # [H', W', C]
    mix: Weights,  # [C, C, 1, 1] by `pack_patches`
    out: np.ndarray,  # [H', W', C'], from channel `first` on; may be `skip`
    size: tuple[int, int],
    *,
    first: int = 0,
) -> None:
    """skip + mix(GELU(factor * raw + summand))."""
    channels, padded = raw.shape[2], len(mix.bias)
    scratch = np.zeros((get_num_threads(), _BLOCK * (channels + padded)), np.float32)
    _normalise_mix(
        raw.ravel(), folded.ravel(), skip.ravel(), mix.values, mix.bias, out.ravel(), out.shape[2], first,
        raw.shape[1], channels, *size, scratch,
    )  # fmt: skip


def _write_activate(code, bases, places):
    raw, folded, out = bases
    at, factor, summand, to = places
    value = code.fma(
        code.load(code.at(raw, at)), code.load(code.at(folded, factor)), code.load(code.at(folded, summand))
    )
    code.store(code.gelu(value), code.at(out, to))


def _write_add(code, bases, places):
    raw, folded, skip, out = bases
    at, factor, summand = places
    value = code.fma(
        code.load(code.at(raw, at)), code.load(code.at(folded, factor)), code.load(code.at(folded, summand))
    )
    code.store(code.builder.fadd(value, code.load(code.at(skip, at))), code.at(out, at))


_activate = make_block(_write_activate, 3, 4)
_add = make_block(_write_add, 4, 3)
_multiply_skip = make_multiply(_ROWS, PANEL // (16 if _WIDE else 8), 16 if _WIDE else 8, bias=True, skip=True)


@njit(parallel=True, cache=True)
def _normalise(raw, folded, out, width, channels, h, w):
    for y in prange(h):
        for x in range(w):
            at = ((y + 1) * width + x + 1) * channels
            for c in range(0, channels, LANES):
                _activate((raw, folded, out), (at + c, c, channels + c, at + c))


@njit(parallel=True, cache=True)
def _normalise_skip(raw, folded, out, width, channels, h, w, skip):
    for y in prange(h):
        for x in range(w):
            at = ((y + 1) * width + x + 1) * channels
            for c in range(0, channels, LANES):
                _add((raw, folded, skip, out), (at + c, c, channels + c))


@njit(parallel=True, cache=True)
def _normalise_mix(raw, folded, skip, mix, bias, out, out_channels, first, width, channels, h, w, scratch):
    padded, panels = len(bias), len(bias) // PANEL
    for y in prange(h):
        mine = scratch[get_thread_id()]
        after = _BLOCK * channels
        for begin in range(0, w, _BLOCK):
            count = min(_BLOCK, w - begin)
            at = ((y + 1) * width + begin + 1) * channels
            to = ((y + 1) * width + begin + 1) * out_channels + first
            for x in range(count):
                for c in range(0, channels, LANES):
                    _activate((raw, folded, mine), (at + x * channels + c, c, channels + c, x * channels + c))
            whole = count // _ROWS * _ROWS if padded == channels else 0
            for panel in range(panels):
                column = panel * PANEL
                for x in range(0, whole, _ROWS):
                    _multiply_skip(
                        mine, x * channels, channels, mix, panel * channels * PANEL, PANEL,
                        out, to + x * out_channels + column, out_channels, channels,
                        bias, column, skip, at + x * channels + column, channels,
                    )  # fmt: skip
            if whole == count:
                continue
            # The rest by way of a buffer: a whole block would reach into other pixels.
            spare = np.zeros(_ROWS * padded, np.float32)
            for x in range(whole, count, _ROWS):
                for row in range(min(_ROWS, count - x)):
                    for c in range(channels):
                        spare[row * padded + c] = skip[at + (x + row) * channels + c]
                for panel in range(panels):
                    column = panel * PANEL
                    _multiply_skip(
                        mine, x * channels, channels, mix, panel * channels * PANEL, PANEL,
                        mine, after + column, padded, channels, bias, column, spare, column, padded,
                    )  # fmt: skip
                for row in range(min(_ROWS, count - x)):
                    for c in range(channels):
                        out[to + (x + row) * out_channels + c] = mine[after + row * padded + c]

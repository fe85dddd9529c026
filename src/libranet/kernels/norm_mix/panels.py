# mypy: disable-error-code="no-untyped-def"
"""The refiner's passes between convolutions on a CPU, by numba: GroupNorm from sums, GELU, 1x1 mix, skip connection."""

import numpy as np
from numba import get_num_threads, get_thread_id, prange

from libranet.kernels.compiled import compiled
from libranet.kernels.conv3x3.panels import PANELS, ROWS, Weights
from libranet.kernels.vector_code import LANES, PANEL, make_block, make_multiply

_BLOCK = 4 * ROWS
"""Pixels that are activated and then mixed, while they are in the cache."""


def fold_sums(
    sums: np.ndarray,  # [parts, 2, C], from `conv3x3.panels.convolve`
    weight: np.ndarray,  # [C]
    bias: np.ndarray,  # [C]
    *,
    count: int,
    groups: int,
    eps: float,
) -> np.ndarray:  # [2, C'], factor and summand, zeros up to whole panels
    """GroupNorm as y = factor * x + summand. `count` is the number of pixels."""
    total = sums.astype(np.float64).sum(axis=0).reshape(2, groups, -1).sum(axis=2) / (count * (len(weight) // groups))
    rstd = 1.0 / np.sqrt(np.maximum(total[1] - total[0] ** 2, 0.0) + eps)
    repeat = len(weight) // groups
    factor = np.repeat(rstd, repeat) * weight
    folded = np.zeros((2, -(-len(weight) // PANEL) * PANEL), np.float32)
    folded[:, : len(weight)] = factor, bias - np.repeat(total[0], repeat) * factor
    return folded


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
    channels = raw.shape[2]
    assert len(mix.bias) == channels
    active = np.zeros((get_num_threads(), _BLOCK * channels), mix.values.dtype)
    mixed = np.zeros((get_num_threads(), ROWS * channels), np.float32)
    _normalise_mix(
        raw.ravel(), folded.ravel(), skip.ravel(), mix.values, mix.bias, out.ravel(), out.shape[2], first,
        raw.shape[1], channels, *size, active, mixed,
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


def _write_sum(code, bases, places):
    mixed, skip, out = bases
    at, skip_at, to = places
    code.store(code.builder.fadd(code.load(code.at(mixed, at)), code.load(code.at(skip, skip_at))), code.at(out, to))


_activate = make_block(_write_activate, 3, 4)
_add = make_block(_write_add, 4, 3)
_sum = make_block(_write_sum, 3, 3)
_multiply_skip = make_multiply(ROWS, PANELS, bias=True, skip=True)
_multiply_skip_last = make_multiply(ROWS, 1, bias=True, skip=True)
_multiply_bias = make_multiply(ROWS, 1, bias=True)


@compiled(parallel=True)
def _normalise(raw, folded, out, width, channels, h, w):
    for y in prange(h):
        for x in range(w):
            at = ((y + 1) * width + x + 1) * channels
            for c in range(0, channels, LANES):
                _activate((raw, folded, out), (at + c, c, channels + c, at + c))


@compiled(parallel=True)
def _normalise_skip(raw, folded, out, width, channels, h, w, skip):
    for y in prange(h):
        for x in range(w):
            at = ((y + 1) * width + x + 1) * channels
            for c in range(0, channels, LANES):
                _add((raw, folded, skip, out), (at + c, c, channels + c))


@compiled(parallel=True)
def _normalise_mix(raw, folded, skip, mix, bias, out, out_channels, first, width, channels, h, w, active, mixed):
    panels = channels // PANEL
    paired = panels // PANELS * PANELS
    for y in prange(h):
        mine, rest = active[get_thread_id()], mixed[get_thread_id()]
        for begin in range(0, w, _BLOCK):
            count = min(_BLOCK, w - begin)
            at = ((y + 1) * width + begin + 1) * channels
            to = ((y + 1) * width + begin + 1) * out_channels + first
            for x in range(count):
                for c in range(0, channels, LANES):
                    _activate((raw, folded, mine), (at + x * channels + c, c, channels + c, x * channels + c))
            whole = count // ROWS * ROWS
            for x in range(0, whole, ROWS):
                for panel in range(0, paired, PANELS):
                    column = panel * PANEL
                    _multiply_skip(
                        mine, x * channels, channels, 0, mix, column * channels, PANEL * channels,
                        out, to + x * out_channels + column, out_channels, channels,
                        bias, column, skip, at + x * channels + column, channels,
                    )  # fmt: skip
                for panel in range(paired, panels):
                    column = panel * PANEL
                    _multiply_skip_last(
                        mine, x * channels, channels, 0, mix, column * channels, 0,
                        out, to + x * out_channels + column, out_channels, channels,
                        bias, column, skip, at + x * channels + column, channels,
                    )  # fmt: skip
            if whole == count:
                continue
            # The rest by way of a buffer: a whole block would reach into other pixels.
            for panel in range(panels):
                column = panel * PANEL
                _multiply_bias(
                    mine, whole * channels, channels, 0, mix, column * channels, 0,
                    rest, column, channels, channels, bias, column, bias, 0, 0,
                )  # fmt: skip
            for x in range(whole, count):
                for c in range(0, channels, LANES):
                    _sum(
                        (rest, skip, out),
                        ((x - whole) * channels + c, at + x * channels + c, to + x * out_channels + c),
                    )

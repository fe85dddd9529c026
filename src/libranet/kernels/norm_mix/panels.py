"""The refiner's passes between convolutions on a CPU: GroupNorm from sums, GELU, 1x1 mix, skip (`panels.c`)."""

import numpy as np

from libranet.kernels.conv3x3.panels import Weights, check_map, whole_panels
from libranet.kernels.native.library import call


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
    folded = np.zeros((2, whole_panels(len(weight))), np.float32)
    folded[:, : len(weight)] = factor, bias - np.repeat(total[0], repeat) * factor
    return folded


def normalise(
    raw: np.ndarray,  # [H', W', C], from `make_map`
    folded: np.ndarray,  # [2, C]
    out: np.ndarray,  # [H', W', C], from `make_map`, of the type of `raw`; may be `raw`
    size: tuple[int, int],
    *,
    skip: np.ndarray | None = None,  # [H', W', C], of the type of `raw`
) -> None:
    """GELU(factor * raw + summand), or factor * raw + summand + skip."""
    channels = raw.shape[2]
    _check(raw, folded, size, raw if skip is None else skip, out)
    if out.shape[2] != channels:
        raise ValueError(f"expected {channels} channels of results, got {out.shape[2]}")
    call("normalise", raw, folded, skip, out, raw.shape[1], channels, *size, raw.itemsize == 2)


def normalise_mix(
    raw: np.ndarray,  # [H', W', C], from `make_map`
    folded: np.ndarray,  # [2, C]
    skip: np.ndarray,  # [H', W', C], of the type of `raw`
    mix: Weights,  # [C, C, 1, 1] by `pack_patches`, of the type of `raw`
    out: np.ndarray,  # [H', W', C'], of the type of `raw`, from channel `first` on; may be `skip`
    size: tuple[int, int],
    *,
    first: int = 0,
) -> None:
    """skip + mix(GELU(factor * raw + summand))."""
    channels = raw.shape[2]
    _check(raw, folded, size, skip, out)
    if len(mix.bias) != channels or mix.inputs != channels or mix.values.dtype != raw.dtype:
        raise ValueError(f"expected a mix of {channels} channels of {raw.dtype}, got {mix.inputs} to {len(mix.bias)}")
    if first + channels > out.shape[2]:
        raise ValueError(f"expected {first + channels} channels of results, got {out.shape[2]}")
    call(
        "normalise_mix", raw, folded, skip, mix.values, mix.bias, out, out.shape[2], first,
        raw.shape[1], channels, *size, raw.itemsize == 2,
    )  # fmt: skip


def _check(raw: np.ndarray, folded: np.ndarray, size: tuple[int, int], skip: np.ndarray, out: np.ndarray) -> None:
    for values in (raw, skip, out):
        check_map(values, size, raw.shape[2])
    same = raw.shape == skip.shape and raw.dtype == skip.dtype == out.dtype
    if not same or folded.shape != (2, raw.shape[2]) or folded.dtype != np.float32:
        raise ValueError(f"expected maps of one type and [2, {raw.shape[2]}] factors, got {folded.shape}")

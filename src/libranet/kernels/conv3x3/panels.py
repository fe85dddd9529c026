"""3x3 convolution on a CPU: Winograd's F(4x4, 3x3), which takes a quarter of the products (`panels.c`).

A tile of 4x4 results comes from 6x6 inputs. Both are transformed; between them the convolution is 36 matrix products
over channels. A few tiles at a time go through all three steps, so that what lies between them stays in the cache.
GroupNorm's sums are added up while the results are written.

Maps have a border of zeros, so that no step asks where the frame ends, and whole panels of channels (`make_map`). They
are in float32, or in bfloat16 as uint16; the type of the weights is the one that is multiplied.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from libranet.kernels.native.library import call

PANEL = 16  # columns of a matrix product that are stored side by side
TILES, FEWEST, PARTS = 36, 4, 4
"""Most tiles that go through the three steps at once, what their number is a multiple of, and into how many parts small
maps are cut. The number of threads takes no part in it: it would change the order of sums, and so the last bits."""
BEHIND = 24  # pixels that blocks of rows may read behind the last one, and do not use


def stored(values: Tensor, dtype: type[np.generic]) -> np.ndarray:
    """Numbers as kernels store them: float32, or bfloat16 in uint16."""
    if dtype is np.float32:
        return values.detach().float().contiguous().numpy()
    return values.detach().bfloat16().contiguous().view(torch.int16).numpy().view(np.uint16)


def _transforms() -> np.ndarray:  # [6, 3]
    """The transform of weights, by evaluating polynomials at five points and at infinity; panels.c has the others.

    Lavin and Gray take the points 0, 1, -1, 2, -2. These lose half as much when the transformed values are rounded to
    bfloat16, and a quarter in float32.
    """
    points = np.array([0.0, 0.75, -0.75, 1.5, -1.5])
    return np.vstack([points[:, None] ** np.arange(3), [0.0, 0.0, 1.0]])


class Weights(NamedTuple):
    """A convolution's weights as the kernels read them."""

    values: np.ndarray
    """Flat: [36, panels, Cin, 16] for Winograd, [panels, taps * Cin, 16] otherwise. In bfloat16, two rows of inputs are
    interleaved: [.., Cin / 2, 16, 2]."""
    bias: np.ndarray  # [panels * 16]
    inputs: int  # channels of the maps that they meet: whole panels, or 3
    outputs: int  # without the zeros that fill the last panel


def pack_winograd(
    weight: Tensor,  # [Cout, Cin, 3, 3]
    bias: Tensor | None = None,  # [Cout]
    dtype: type[np.generic] = np.float32,
) -> Weights:
    """Transform weights for `convolve`."""
    transform = torch.from_numpy(_transforms()).float()
    spread = torch.kron(transform, transform) @ _order(weight, dtype).flatten(1)  # [36, panels * Cin * 16]
    return _weights(weight, bias, stored(spread, dtype))


def pack_patches(
    weight: Tensor,  # [Cout, Cin, k, k]
    bias: Tensor | None = None,  # [Cout]
    dtype: type[np.generic] = np.float32,
) -> Weights:
    """Order weights for `convolve_patches` and for 1x1 convolutions."""
    return _weights(weight, bias, stored(_order(weight, dtype).transpose(0, 1), dtype))


def _order(weight: Tensor, dtype: type[np.generic]) -> Tensor:  # [taps, panels, Cin * 16]
    """Weights in whole panels, two rows of inputs interleaved where they will be bfloat16."""
    outputs, given, *side = weight.shape
    spread = torch.zeros(side[0] * side[1], _whole_inputs(given), whole_panels(outputs))
    spread[:, :given, :outputs] = weight.detach().float().permute(2, 3, 1, 0).flatten(0, 1)
    ordered = spread.unflatten(2, (-1, PANEL)).transpose(1, 2)  # [taps, panels, Cin, 16]
    if dtype is np.uint16:
        ordered = ordered.unflatten(2, (-1, 2)).transpose(3, 4)
    return ordered.flatten(2)


def _weights(weight: Tensor, bias: Tensor | None, values: np.ndarray) -> Weights:
    outputs, given = weight.shape[:2]
    shift = np.zeros(whole_panels(outputs), np.float32)
    if bias is not None:
        shift[:outputs] = bias.detach().float().numpy()
    return Weights(values.ravel(), shift, _whole_inputs(given), outputs)


def _whole_inputs(channels: int) -> int:
    """A frame keeps its three channels; other maps have whole panels."""
    return 3 if channels == 3 else whole_panels(channels)


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
    memory = np.zeros(shape[0] * shape[1] * channels + BEHIND * channels, dtype)
    return memory[: shape[0] * shape[1] * channels].reshape(shape)


def check_map(values: np.ndarray, size: tuple[int, int], channels: int) -> None:
    """Raise ValueError for an array that is no map of this size with at least so many channels."""
    h, w = size
    inside = -(-h // 4) * 4 + 2, -(-w // 4) * 4 + 2
    if values.shape[:2] != inside or values.shape[2] < channels or values.dtype not in (np.float32, np.uint16):
        raise ValueError(f"expected a map of {w}x{h} with {channels} channels, got {values.shape} of {values.dtype}")


def convolve(
    x: np.ndarray,  # [H', W', C], from `make_map`, of the type of the weights
    weights: Weights,  # from `pack_winograd`
    out: np.ndarray,  # [H', W', C'], from `make_map`, whole panels; float32, or the type of the weights
    size: tuple[int, int],  # (h, w) without borders
) -> np.ndarray:  # [parts, 2, Cout], sums and sums of squares of each channel
    """Convolve with padding 1 and stride 1."""
    h, w = size
    padded = len(weights.bias)
    check_map(x, size, weights.inputs)
    check_map(out, size, padded)
    _check_types(x, weights, out)
    total = -(-h // 4) * -(-w // 4)
    tiles = min(TILES, -(-total // (PARTS * FEWEST)) * FEWEST)
    groups = -(-total // tiles)
    sums = np.empty((groups, 2, padded), np.float32)
    call(
        "convolve", x, x.shape[1] * x.shape[2], x.shape[2], weights.values, weights.bias, weights.inputs, padded,
        out, out.shape[1] * out.shape[2], out.shape[2], h, w, sums, groups, tiles, x.itemsize == 2, out.itemsize == 2,
    )  # fmt: skip
    return sums[..., : weights.outputs]


def convolve_patches(
    x: np.ndarray,  # [H', W', C], from `make_map`, of the type of the weights
    weights: Weights,  # from `pack_patches`, 3x3
    out: np.ndarray,  # [h', w', C'], from `make_map`
    size: tuple[int, int],  # (h, w) of the output
    *,
    stride: int = 1,
) -> np.ndarray:  # [parts, 2, Cout]
    """Convolve with padding 1 and a product over the nine pixels of each result: for few channels, or stride 2."""
    h, w = size
    padded = len(weights.bias)
    check_map(out, size, padded)
    if x.shape[0] < stride * (h - 1) + 3 or x.shape[1] < stride * (w - 1) + 3 or x.shape[2] != weights.inputs:
        raise ValueError(f"expected a map for {w}x{h} results with {weights.inputs} channels, got {x.shape}")
    _check_types(x, weights, out)
    sums = np.zeros((h, 2, padded), np.float32)
    call(
        "convolve_patches", x, x.shape[1] * x.shape[2], weights.values, weights.bias, weights.inputs, padded,
        out, out.shape[1] * out.shape[2], out.shape[2], h, w, stride, sums, x.itemsize == 2, out.itemsize == 2,
    )  # fmt: skip
    return sums[..., : weights.outputs]


def _check_types(x: np.ndarray, weights: Weights, out: np.ndarray) -> None:
    if x.dtype != weights.values.dtype or x.shape[2] != weights.inputs or out.shape[2] % PANEL:
        raise ValueError(
            f"expected {weights.inputs} channels of {weights.values.dtype} and whole panels of results, got "
            f"{x.shape[2]} of {x.dtype} and {out.shape[2]}"
        )

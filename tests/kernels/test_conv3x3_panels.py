"""The compiled convolutions and norms equal torch's, whether or not sizes are whole tiles and widths whole panels."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from libranet.kernels.conv3x3 import panels
from libranet.kernels.conv3x3.panels import stored
from libranet.kernels.conv3x3.reference import GROUPS
from libranet.kernels.native import library
from libranet.kernels.norm_mix.panels import fold_sums, normalise, normalise_mix

KINDS = [*((name, np.float32) for name in library.LEVELS), (library.LEVELS[0], np.uint16)]


@pytest.fixture(params=KINDS, ids=lambda kind: f"{kind[0]}-{kind[1].__name__}")
def kind(request: pytest.FixtureRequest, use_level: Callable[[str], None]) -> type[np.generic]:
    """Every level of instructions in float32, and bfloat16."""
    use_level(request.param[0])
    return request.param[1]


def rand(*shape: int, seed: int = 0, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * scale


def as_map(x: torch.Tensor, kind: type[np.generic] = np.float32) -> np.ndarray:  # [1, C, h, w]
    _, c, h, w = x.shape
    out = panels.make_map(h, w, c if c == 3 else panels.whole_panels(c), kind)
    out[1 : h + 1, 1 : w + 1, :c] = stored(x[0].permute(1, 2, 0), kind)
    return out


def inside(values: np.ndarray, h: int, w: int) -> torch.Tensor:  # [1, C, h, w]
    found = np.ascontiguousarray(values[1 : h + 1, 1 : w + 1])
    if found.dtype == np.uint16:
        return torch.from_numpy(found.view(np.int16)).view(torch.bfloat16).float().permute(2, 0, 1)[None]
    return torch.from_numpy(found).permute(2, 0, 1)[None]


def border_is_zero(values: np.ndarray, h: int, w: int) -> bool:
    left = values.copy()
    left[1 : h + 1, 1 : w + 1] = 0
    return not left.any()


def near(found: torch.Tensor, expected: torch.Tensor, kind: type[np.generic], limit: float) -> bool:
    """Within the limit in float32; in bfloat16 within 3 % of the deviation, on average."""
    if kind is np.float32:
        return bool((found - expected).abs().max() <= limit)
    return bool((found - expected).square().mean().sqrt() <= 0.03 * expected.std())


@pytest.mark.parametrize(("h", "w", "inputs", "outputs"), [(9, 161, 16, 24), (4, 4, 8, 8), (17, 30, 48, 16)])
def test_winograd_equals_the_convolution(h, w, inputs, outputs, kind):
    x, weight, bias = rand(1, inputs, h, w), rand(outputs, inputs, 3, 3, seed=1, scale=0.1), rand(outputs, seed=2)
    out = panels.make_map(h, w, panels.whole_panels(outputs))
    sums = panels.convolve(as_map(x, kind), panels.pack_winograd(weight, bias, kind), out, (h, w))
    expected = F.conv2d(x, weight, bias, padding=1)
    found = inside(out, h, w)
    assert near(found[:, :outputs], expected, kind, 5e-5)
    assert not found[:, outputs:].any()
    assert border_is_zero(out, h, w)
    total, result = torch.from_numpy(sums.sum(axis=0)), found[:, :outputs]
    assert torch.allclose(total[0], result.sum((0, 2, 3)), rtol=1e-4, atol=1e-2)
    assert torch.allclose(total[1], result.square().sum((0, 2, 3)), rtol=1e-4)


@pytest.mark.parametrize(("stride", "inputs", "w"), [(1, 3, 14), (2, 8, 14), (2, 16, 58)])
def test_patches_equal_the_convolution(stride, inputs, w, kind):
    h = 10
    kind = np.float32 if inputs == 3 else kind
    x, weight = rand(1, inputs, h, w), rand(24, inputs, 3, 3, seed=1, scale=0.1)
    expected = F.conv2d(x, weight, padding=1, stride=stride)
    size = (expected.shape[2], expected.shape[3])
    out = panels.make_map(*size, 32)
    packed = panels.pack_patches(weight, dtype=kind)
    sums = panels.convolve_patches(as_map(x, kind), packed, out, size, stride=stride)
    assert near(inside(out, *size)[:, :24], expected, kind, 1e-5)
    assert border_is_zero(out, *size)
    found = inside(out, *size)[:, :24]
    assert torch.allclose(torch.from_numpy(sums.sum(axis=0)[1]), found.square().sum((0, 2, 3)), rtol=1e-4)


@pytest.mark.parametrize("channels", [16, 24, 64])
def test_norm_gelu_mix_and_skip_equal_torch(channels, kind):
    h, w = 5, 29
    x, skip = rand(1, channels, h, w, scale=3.0), rand(1, channels, h, w, seed=1)
    weight, bias = rand(channels, seed=2) + 1.0, rand(channels, seed=3)
    mix, mix_bias = rand(channels, channels, 1, 1, seed=4, scale=0.2), rand(channels, seed=5)
    sums = torch.stack([x.sum((0, 2, 3)), x.square().sum((0, 2, 3))])[None].numpy()
    folded = fold_sums(sums, weight.numpy(), bias.numpy(), count=h * w, groups=GROUPS, eps=1e-5)
    normal = F.group_norm(x, GROUPS, weight, bias)
    whole = panels.whole_panels(channels)
    out = panels.make_map(h, w, whole, kind)
    normalise(as_map(x, kind), folded, out, (h, w))
    assert near(inside(out, h, w)[:, :channels], F.gelu(normal), kind, 1e-4)  # the polynomial's 6e-5
    normalise(as_map(x, kind), folded, out, (h, w), skip=as_map(skip, kind))
    assert near(inside(out, h, w)[:, :channels], normal + skip, kind, 1e-4)
    joined = panels.make_map(h, w, 2 * whole, kind)
    packed = panels.pack_patches(mix, mix_bias, kind)
    normalise_mix(as_map(x, kind), folded, as_map(skip, kind), packed, joined, (h, w), first=whole)
    expected = skip + F.conv2d(F.gelu(normal), mix, mix_bias)
    assert near(inside(joined, h, w)[:, whole : whole + channels], expected, kind, 5e-4)
    assert not joined[:, :, :whole].any()
    assert border_is_zero(joined, h, w)


@pytest.mark.kernels
def test_arrays_that_do_not_fit_are_refused():
    weights = panels.pack_winograd(rand(16, 16, 3, 3))
    x, out = panels.make_map(8, 8, 16), panels.make_map(8, 8, 16)
    with pytest.raises(ValueError, match="a map of 9x8 with 16 channels"):
        panels.convolve(x, weights, out, (8, 9))
    with pytest.raises(ValueError, match="16 channels of float32"):
        panels.convolve(panels.make_map(8, 8, 16, np.uint16), weights, out, (8, 8))
    with pytest.raises(ValueError, match="contiguous"):
        panels.convolve(panels.make_map(8, 8, 32)[:, :, ::2], weights, out, (8, 8))
    with pytest.raises(ValueError, match="results with 3 channels"):
        panels.convolve_patches(x, panels.pack_patches(rand(16, 3, 3, 3)), out, (8, 8))
    folded = np.zeros((2, 16), np.float32)
    with pytest.raises(ValueError, match="maps of one type"):
        normalise(x, folded, panels.make_map(8, 8, 16, np.uint16), (8, 8))
    with pytest.raises(ValueError, match="32 channels of results, got 16"):
        normalise_mix(x, folded, x, panels.pack_patches(rand(16, 16, 1, 1)), out, (8, 8), first=16)

"""The compiled convolutions and norms equal torch's, whether or not sizes are whole tiles and widths whole panels."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("numba")

from libranet.kernels.conv3x3 import panels
from libranet.kernels.conv3x3.reference import GROUPS
from libranet.kernels.norm_mix.panels import fold_sums, normalise, normalise_mix


def rand(*shape: int, seed: int = 0, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * scale


def as_map(x: torch.Tensor) -> np.ndarray:  # [1, C, h, w]
    _, c, h, w = x.shape
    out = panels.make_map(h, w, c)
    out[1 : h + 1, 1 : w + 1] = x[0].permute(1, 2, 0).numpy()
    return out


def inside(values: np.ndarray, h: int, w: int) -> torch.Tensor:  # [1, C, h, w]
    return torch.from_numpy(values[1 : h + 1, 1 : w + 1]).permute(2, 0, 1)[None]


def border_is_zero(values: np.ndarray, h: int, w: int) -> bool:
    left = values.copy()
    left[1 : h + 1, 1 : w + 1] = 0.0
    return not left.any()


@pytest.mark.parametrize(("h", "w", "inputs", "outputs"), [(9, 161, 16, 24), (4, 4, 8, 8), (17, 30, 48, 16)])
def test_winograd_equals_the_convolution(h, w, inputs, outputs):
    x, weight, bias = rand(1, inputs, h, w), rand(outputs, inputs, 3, 3, seed=1, scale=0.1), rand(outputs, seed=2)
    out = panels.make_map(h, w, outputs + 8)
    sums = panels.convolve(as_map(x), panels.pack_winograd(weight, bias), out, (h, w), first=8)
    expected = F.conv2d(x, weight, bias, padding=1)
    found = inside(out, h, w)
    assert (found[:, 8:] - expected).abs().max() <= 5e-5
    assert not found[:, :8].any()
    assert border_is_zero(out, h, w)
    total = torch.from_numpy(sums.sum(axis=0))
    assert torch.allclose(total[0], expected.sum((0, 2, 3)), rtol=1e-4, atol=1e-2)
    assert torch.allclose(total[1], expected.square().sum((0, 2, 3)), rtol=1e-4)


@pytest.mark.parametrize(("stride", "inputs"), [(1, 3), (2, 8)])
def test_patches_equal_the_convolution(stride, inputs):
    h, w = 10, 14
    x, weight = rand(1, inputs, h, w), rand(24, inputs, 3, 3, seed=1, scale=0.1)
    expected = F.conv2d(x, weight, padding=1, stride=stride)
    size = (expected.shape[2], expected.shape[3])
    out = panels.make_map(*size, 24)
    sums = panels.convolve_patches(as_map(x), panels.pack_patches(weight), out, size, stride=stride)
    assert (inside(out, *size) - expected).abs().max() <= 1e-5
    assert border_is_zero(out, *size)
    assert torch.allclose(torch.from_numpy(sums.sum(axis=0)[1]), expected.square().sum((0, 2, 3)), rtol=1e-4)


@pytest.mark.parametrize("channels", [16, 24])
def test_norm_gelu_mix_and_skip_equal_torch(channels):
    h, w = 5, 29
    x, skip = rand(1, channels, h, w, scale=3.0), rand(1, channels, h, w, seed=1)
    weight, bias = rand(channels, seed=2) + 1.0, rand(channels, seed=3)
    mix, mix_bias = rand(channels, channels, 1, 1, seed=4, scale=0.2), rand(channels, seed=5)
    sums = torch.stack([x.sum((0, 2, 3)), x.square().sum((0, 2, 3))])[None].numpy()
    folded = fold_sums(sums, weight.numpy(), bias.numpy(), count=h * w, groups=GROUPS, eps=1e-5)
    normal = F.group_norm(x, GROUPS, weight, bias)
    out = panels.make_map(h, w, channels)
    normalise(as_map(x), folded, out, (h, w))
    assert (inside(out, h, w) - F.gelu(normal)).abs().max() <= 1e-4  # the polynomial's 6e-5
    normalise(as_map(x), folded, out, (h, w), skip=as_map(skip))
    assert (inside(out, h, w) - normal - skip).abs().max() <= 1e-4
    joined = panels.make_map(h, w, 2 * channels)
    normalise_mix(as_map(x), folded, as_map(skip), panels.pack_patches(mix, mix_bias), joined, (h, w), first=channels)
    expected = skip + F.conv2d(F.gelu(normal), mix, mix_bias)
    assert (inside(joined, h, w)[:, channels:] - expected).abs().max() <= 5e-4
    assert not joined[:, :, :channels].any()
    assert border_is_zero(joined, h, w)

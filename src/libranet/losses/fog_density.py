"""The density of fog as training sees it: FADE of a batch, with gradients.

`libranet.lab.perception.fade` is the metric. This is the same but where the metric has no slope: rounding to grey
levels passes gradients through, and entropy is that of a bell curve with the patch's deviation.
"""

import math
from collections.abc import Callable
from pathlib import Path

import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.errors import InputError

_PATCH = 8
_OPPONENT = ((0.299, 0.587, 0.114), (0.5, 0.5, -1.0), (1.0, -1.0, 0.0))
"""Grey, blue-yellow and red-green."""
_NOISE = (0.2353, 0.2287, 0.0528)
"""What the sensor's noise adds to the contrast energy of each of them."""
_REACH = 10
_SEMISATURATION = 0.1
_FLAT = 1e-3
"""Deviation of the normalised luma up to which a patch of single precision holds nothing but rounding errors."""
_TINY = 1e-4
"""Under square roots, whose slope at 0 is infinite."""
_CELL = 8
"""Pixels from one gain and offset to the next, each taken from twice as many."""
_GRAIN = 2.0 / 255.0
"""Deviation of the input up to which it may be noise, which no gain should make visible."""
_DETAIL = 2.0 / 255.0
"""Deviation from which on a patch of the truth shows something: an empty sky looks like fog, and should stay empty."""
_BORDER = 1
"""Patches along the border that are not judged."""
_MOST_BITS = 5.6
"""Entropy that 64 grey levels of natural patches hardly exceed."""


class FogDensity(nn.Module):
    """FADE with the statistics that it compares with."""

    clear_mean: Tensor
    clear_inverse: Tensor
    foggy_mean: Tensor
    foggy_inverse: Tensor

    def __init__(self, parameters: str | Path) -> None:
        """`parameters` is the file that `libranet weights pull fade` writes."""
        super().__init__()
        path = Path(parameters)
        if not path.is_file():
            raise InputError(
                f"loss.fog.density needs FADE's parameters, and there is no file at {path}: make it with "
                "libranet weights pull fade --from FOLDER and name it in loss.fog.density_source"
            )
        state = safetensors.torch.load_file(path)
        for side in ("clear", "foggy"):
            self.register_buffer(f"{side}_mean", state[f"{side}_mean"].float())
            inverse = torch.linalg.inv(state[f"{side}_covariance"].double() / 2.0)
            self.register_buffer(f"{side}_inverse", inverse.float())

    def forward(
        self,
        images: Tensor,  # [B, 3, H, W] in [0, 1], at least 32x32; what is left of whole patches is cut off
        where: Tensor | None = None,  # [B, 3, H, W], images that must have detail in a patch for it to count
    ) -> Tensor:  # [B]
        """Compute FADE of every image."""
        height, width = (side // _PATCH * _PATCH for side in images.shape[-2:])
        features, counts = _features(255.0 * images[..., :height, :width].float())
        features = torch.log1p(features)
        if where is not None:
            counts = counts & _detailed(where[..., :height, :width])
        clear = _mean_distance(features, counts, self.clear_mean, self.clear_inverse)
        # Where no patch counts, as in an even frame, there is no fog to see.
        return clear / _mean_distance(features, counts, self.foggy_mean, self.foggy_inverse).clamp_min(1e-3)


def _detailed(images: Tensor) -> Tensor:  # [B, 3, H, W] -> [B, patches] bool
    """Patches with detail, away from the border, where the filters see what lies outside of the image."""
    shown = _patches(images.mean(dim=1, keepdim=True)).std(dim=-1) > _DETAIL
    inner = torch.zeros(images.shape[-2] // _PATCH, images.shape[-1] // _PATCH, dtype=torch.bool, device=images.device)
    inner[_BORDER:-_BORDER, _BORDER:-_BORDER] = True
    return shown & inner.flatten()


def _features(rgb: Tensor) -> tuple[Tensor, Tensor]:  # [B, 3, H, W] -> [B, patches, 12], and which patches count
    red, green, blue = rgb.split(1, dim=1)
    grey = 0.2989 * red + 0.5870 * green + 0.1140 * blue
    grey = grey + (grey.round() - grey).detach()
    mean = _smooth(grey)
    deviation = ((_smooth(grey * grey) - mean * mean).abs() + _TINY).sqrt()
    normalised = (grey - mean) / (deviation + 1.0)
    contrast = _patches(normalised)
    products = _patches(normalised * normalised.roll(1, dims=2))
    levels = _patches(grey)
    entropy = 0.5 * torch.log2(2.0 * math.pi * math.e * (levels.var(dim=-1) + 1 / 12))
    high, low = rgb.amax(dim=1, keepdim=True), rgb.amin(dim=1, keepdim=True)
    values = (
        contrast.var(dim=-1),
        _variance_where(products, products >= 0.0),
        _variance_where(products, products <= 0.0),
        _patches(deviation).mean(dim=-1),
        _patches(deviation / mean.clamp_min(1.0)).mean(dim=-1),
        *(_patches(energy).mean(dim=-1) for energy in _contrast_energies(rgb)),
        entropy.clamp(0.0, _MOST_BITS),
        _patches(low / 255.0).mean(dim=-1),
        _patches((high - low) / high.clamp_min(1.0)).mean(dim=-1),
        _colourfulness(_patches(red - green), _patches((red + green) / 2.0 - blue)),
    )
    counts = contrast.detach().abs().amax(dim=-1) > _FLAT
    counts = counts & (products > 0.0).any(dim=-1) & (products < 0.0).any(dim=-1)
    return torch.stack(values, dim=-1), counts


def _smooth(values: Tensor) -> Tensor:  # [B, 1, H, W]
    offsets = torch.arange(7, device=values.device, dtype=values.dtype) - 3
    bell = torch.exp(-(offsets**2) / (2.0 * (7 / 6) ** 2))
    down, across = (_as_matrix(bell / bell.sum(), side, _repeat_ends) for side in values.shape[-2:])
    return down @ values @ across.T


def _as_matrix(
    kernel: Tensor,  # [K]
    side: int,
    pad: Callable[[Tensor], Tensor],  # [side, 1, side] -> [side, 1, side + K - 1]
) -> Tensor:  # [side, side]
    """A filter along one axis as the matrix to multiply with, many times as fast as a convolution of one channel."""
    points = torch.eye(side, device=kernel.device, dtype=kernel.dtype)[:, None]
    return F.conv1d(pad(points), kernel.view(1, 1, -1))[:, 0].T


def _repeat_ends(points: Tensor) -> Tensor:
    return F.pad(points, (3, 3), mode="replicate")


def _patches(values: Tensor) -> Tensor:  # [B, 1, H, W] -> [B, patches, 64]
    b, _, height, width = values.shape
    tiles = values.reshape(b, height // _PATCH, _PATCH, width // _PATCH, _PATCH)
    return tiles.transpose(2, 3).reshape(b, -1, _PATCH * _PATCH)


def _variance_where(values: Tensor, mask: Tensor) -> Tensor:
    """The sample variance of the masked values of each row: 0 for one value or none."""
    count = mask.sum(dim=-1)
    mean = (values * mask).sum(dim=-1) / count.clamp_min(1)
    squares = (mask * (values - mean[..., None]).square()).sum(dim=-1)
    return squares / (count - 1).clamp_min(1)


def _colourfulness(red_green: Tensor, yellow_blue: Tensor) -> Tensor:
    spread = (red_green.var(dim=-1) + yellow_blue.var(dim=-1) + _TINY).sqrt()
    return spread + 0.3 * (red_green.mean(dim=-1).square() + yellow_blue.mean(dim=-1).square() + _TINY).sqrt()


def _contrast_energies(rgb: Tensor) -> list[Tensor]:  # [B, 1, H, W] each
    """The response of second derivatives at one scale, normalised by its own strength, less the noise."""
    sigma = 3.25
    x = torch.arange(-3 * sigma, 3 * sigma, device=rgb.device, dtype=rgb.dtype)
    bell = torch.exp(-(x**2) / (2.0 * sigma**2))
    kernel = bell / bell.sum() * (x**2 / sigma**4 - 1.0 / sigma**2)
    kernel = kernel - kernel.mean()
    # PyTorch correlates: a convolution turns the kernel.
    kernel = (kernel / (0.5 * x**2 * kernel).sum()).flip(0)
    down, across = (_as_matrix(kernel, side, _repeat_border) for side in rgb.shape[-2:])
    energies = []
    for weights, noise in zip(_OPPONENT, _NOISE, strict=True):
        red, green, blue = (weight * plane for weight, plane in zip(weights, rgb.split(1, dim=1), strict=True))
        plane = red + green + blue
        energy = ((down @ plane).square() + (plane @ across.T).square() + _TINY).sqrt()
        top = energy.detach().amax(dim=(2, 3), keepdim=True)
        energies.append(F.relu(energy * top / (energy + _SEMISATURATION * top) - noise))
    return energies


def _repeat_border(points: Tensor) -> Tensor:
    """The outermost values once more outside, in their own order: not mirrored. What a kernel of even length needs."""
    repeated = torch.cat((points[..., :_REACH], points, points[..., -_REACH:]), dim=-1)
    return repeated[..., 1:]


def _mean_distance(
    features: Tensor,  # [B, patches, 12]
    counts: Tensor,  # [B, patches] bool
    mean: Tensor,  # [12]
    inverse: Tensor,  # [12, 12], of half of the covariance
) -> Tensor:  # [B]
    """The mean Mahalanobis distance of the patches from a set of natural images."""
    gap = mean - features
    # The covariance of one patch is a number, added to every entry of the matrix: a change of rank one, whose inverse
    # follows from that of the matrix (Sherman and Morrison).
    change = features.var(dim=-1) / 2.0
    squares = ((gap @ inverse) * gap).sum(dim=-1)
    reduced = change * (gap @ inverse.sum(dim=1)).square() / (1.0 + change * inverse.sum())
    distances = ((squares - reduced).clamp_min(0.0) + _TINY).sqrt()
    return (distances * counts).sum(dim=-1) / counts.sum(dim=-1).clamp_min(1)


def by_gain_and_offset(
    restored: Tensor,  # [B, 3, H, W]
    hazy: Tensor,  # [B, 3, H, W]
) -> Tensor:  # [B, 3, H, W]
    """Return what is left of restored images where only local gains and offsets of the hazy ones count.

    Haze takes contrast by a factor and adds light, so clearing it is such a change, as a guided filter finds it.
    Texture that is painted, and noise that is added to look like detail, are not in the result.

    Only gains pass gradients. To FADE, colourful haze looks clear, and so does darkness: a network that learns from
    those leaves tints in skies and black patches in fog. Gains are of the mean of the channels: a gradient of luma
    would pull at green the most, and shadows would turn purple.
    """
    level, guide = restored.mean(dim=1, keepdim=True), hazy.mean(dim=1, keepdim=True)
    mean, mean_guide = _cells(level), _cells(guide)
    covariance = _cells(level * guide) - mean * mean_guide
    variance = (_cells(guide * guide) - mean_guide * mean_guide).clamp_min(0.0)
    gain = covariance / (variance + _GRAIN**2)
    gain, offset = (
        F.interpolate(cells, size=hazy.shape[-2:], mode="bilinear", align_corners=False)
        for cells in (gain, mean.detach() - gain * mean_guide)
    )
    return gain * guide + offset + (restored - level).detach()


def _cells(values: Tensor) -> Tensor:  # [B, 1, H, W] -> [B, 1, H / 8, W / 8]
    """Means over overlapping squares."""
    return F.avg_pool2d(values, 2 * _CELL, stride=_CELL, padding=_CELL // 2, count_include_pad=False)

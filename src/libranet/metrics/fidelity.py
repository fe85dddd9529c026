"""PSNR and SSIM of one frame against its reference. RGB, data range 1."""

import math

import torch
from torch import Tensor

from libranet.errors import InputError
from libranet.metrics.frame_pair import check_pair

_SIGMA = 1.5
_RADIUS = 5
"""The Gaussian window is 11x11, as in the paper of Wang et al. 2004."""
_C1, _C2 = 0.01**2, 0.03**2
_STRIP, _GPU_STRIP = 32, 1080
"""Rows measured at a time: on a CPU they stay in its cache; on a GPU each strip costs dozens of launches. The memory
of a large frame stays bounded."""


def psnr(
    image: Tensor,  # [3, H, W] in [0, 1]
    reference: Tensor,  # [3, H, W] in [0, 1]
) -> float:
    """Compute 10 log10(1 / MSE) in dB, the mean over pixels and colours together. Infinite for equal frames."""
    check_pair(image, reference)
    total, rows = image.new_zeros((), dtype=torch.float64), _strip_rows(image)
    for top in range(0, image.shape[1], rows):
        strip = slice(top, top + rows)
        difference = image[:, strip].double() - reference[:, strip].double()
        total += difference.square().sum()
    error = float(total) / image.numel()
    return math.inf if error == 0.0 else -10.0 * math.log10(error)


def ssim(
    image: Tensor,  # [3, H, W] in [0, 1]
    reference: Tensor,  # [3, H, W] in [0, 1]
) -> float:
    """Compute the mean SSIM: 11x11 Gaussian window of sigma 1.5, each colour by itself, no padded borders.

    It is the same number as `skimage.metrics.structural_similarity(gaussian_weights=True, sigma=1.5, data_range=1,
    use_sample_covariance=False, channel_axis=...)`.
    """
    check_pair(image, reference)
    height, width = image.shape[1:]
    if min(height, width) <= 2 * _RADIUS:
        raise InputError(f"SSIM needs frames larger than its 11x11 window, got {width}x{height}")
    window, rows = _gaussian_window(), _strip_rows(image)
    total, count = image.new_zeros((), dtype=torch.float64), 0
    for top in range(0, height - 2 * _RADIUS, rows):
        seen = slice(top, top + rows + 2 * _RADIUS)
        strip = _similarity(image[:, seen].float(), reference[:, seen].float(), window)
        total += strip.double().sum()
        count += strip.numel()
    return float(total) / count


def _strip_rows(image: Tensor) -> int:
    return _GPU_STRIP if image.is_cuda else _STRIP


def _similarity(
    x: Tensor,  # [3, h, W]
    y: Tensor,  # [3, h, W]
    window: list[float],
) -> Tensor:  # [3, h - 10, W - 10]
    # Variances are taken around 1/2: the differences of squares below then lose fewer digits.
    x, y = x - 0.5, y - 0.5
    mean_x, mean_y, xx, yy, xy = _smooth(torch.stack((x, y, x * x, y * y, x * y)), window)
    variance_x, variance_y, covariance = xx - mean_x * mean_x, yy - mean_y * mean_y, xy - mean_x * mean_y
    mean_x, mean_y = mean_x + 0.5, mean_y + 0.5
    luminance = (2 * mean_x * mean_y + _C1) / (mean_x * mean_x + mean_y * mean_y + _C1)
    return luminance * (2 * covariance + _C2) / (variance_x + variance_y + _C2)


def _smooth(
    maps: Tensor,  # [N, 3, h, W]
    window: list[float],  # 11 values, symmetric
) -> Tensor:  # [N, 3, h - 10, W - 10]
    """Both passes as sums of shifted maps: on a processor many times faster than a convolution with one channel."""
    for axis in (2, 3):
        length = maps.shape[axis] - 2 * _RADIUS
        smooth = maps.narrow(axis, _RADIUS, length) * window[_RADIUS]
        for shift in range(_RADIUS):
            pair = maps.narrow(axis, shift, length) + maps.narrow(axis, 2 * _RADIUS - shift, length)
            smooth.add_(pair, alpha=window[shift])
        maps = smooth
    return maps


def _gaussian_window() -> list[float]:
    offsets = range(-_RADIUS, _RADIUS + 1)
    weights = [math.exp(-0.5 * (offset / _SIGMA) ** 2) for offset in offsets]
    return [weight / math.fsum(weights) for weight in weights]

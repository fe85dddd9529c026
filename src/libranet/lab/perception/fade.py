"""FADE: the density of fog that people see in an image, without a reference. Lower is clearer.

After Choi, You and Bovik, "Referenceless prediction of perceptual fog density and perceptual image defogging" (IEEE
Transactions on Image Processing, 2015). Twelve statistics of each 8x8 patch are compared with those of natural images
without fog and of natural images in fog; FADE is the ratio of the two mean distances.

It rewards darkness, noise and painted texture: read it beside brightness, clipping and invented structure.
"""

from collections.abc import Mapping

import cv2
import numpy as np
from torch import Tensor

from libranet.metrics.frame_pair import check_frame

_PATCH = 8
_SMOOTH = cv2.getGaussianKernel(7, 7 / 6)
_OPPONENT = np.array(((0.299, 0.587, 0.114), (0.5, 0.5, -1.0), (1.0, -1.0, 0.0)))
"""Grey, blue-yellow and red-green."""
_NOISE = (0.2353, 0.2287, 0.0528)
"""What the sensor's noise adds to the contrast energy of each of them."""
_REACH = 10
_FLAT = 1e-20
_SEMISATURATION = 0.1


def fade(
    image: Tensor,  # [3, H, W] in [0, 1]
    parameters: Mapping[
        str, Tensor
    ],  # `clear_mean`, `foggy_mean` [12]; `clear_covariance`, `foggy_covariance` [12, 12]
) -> float:
    """Compute FADE of one frame of at least 32x32 pixels."""
    check_frame(image)
    height, width = (side // _PATCH * _PATCH for side in image.shape[1:])
    rgb = np.round(image[:, :height, :width].detach().double().cpu().numpy() * 255.0).transpose(1, 2, 0)
    features = np.log1p(patch_features(rgb))
    distances = [
        _mean_distance(features, *(parameters[f"{side}_{part}"].double().numpy() for part in ("mean", "covariance")))
        for side in ("clear", "foggy")
    ]
    return float(distances[0] / distances[1])


def patch_features(rgb: np.ndarray) -> np.ndarray:  # [H, W, 3] in [0, 255], whole patches -> [patches, 12]
    """Compute the twelve statistics of every patch. NaN where a patch does not count: flat, black, or of one sign."""
    red, green, blue = np.moveaxis(rgb, 2, 0)
    grey = np.round(rgb @ (0.2989, 0.5870, 0.1140))
    mean = _smooth(grey)
    deviation = np.sqrt(np.abs(_smooth(grey * grey) - mean * mean))
    normalised = (grey - mean) / (deviation + 1.0)
    product = _patches(normalised * np.roll(normalised, 1, axis=0))
    # A black patch has no coefficient of variation, and does not count either.
    variation = np.divide(deviation, mean, out=np.full_like(mean, np.nan), where=mean != 0)
    high, low = rgb.max(axis=2), rgb.min(axis=2)
    saturation = np.divide(high - low, high, out=np.zeros_like(high), where=high != 0)
    contrast = _patches(normalised).var(axis=1, ddof=1)
    # In a flat patch only rounding errors are left, and their signs would decide whether it counts. It never does.
    contrast[contrast < _FLAT] = np.nan
    return np.column_stack(
        (
            contrast,
            _variance_where(product, product >= 0.0),
            _variance_where(product, product <= 0.0),
            _patches(deviation).mean(axis=1),
            _patches(variation).mean(axis=1),
            *(_patches(energy).mean(axis=1) for energy in _contrast_energies(rgb)),
            _entropy(_patches(grey)),
            _patches(low / 255.0).mean(axis=1),
            _patches(saturation).mean(axis=1),
            _colourfulness(_patches(red - green), _patches((red + green) / 2.0 - blue)),
        )
    )


def _smooth(values: np.ndarray) -> np.ndarray:
    return cv2.sepFilter2D(values, cv2.CV_64F, _SMOOTH, _SMOOTH, borderType=cv2.BORDER_REPLICATE)


def _patches(values: np.ndarray) -> np.ndarray:  # [H, W] -> [patches, 64]
    height, width = values.shape
    tiles = values.reshape(height // _PATCH, _PATCH, width // _PATCH, _PATCH)
    return tiles.swapaxes(1, 2).reshape(-1, _PATCH * _PATCH)


def _variance_where(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The sample variance of the masked values of each row: 0 for one value, NaN for none."""
    count = mask.sum(axis=1)
    total = np.where(mask, values, 0.0).sum(axis=1)
    mean = np.divide(total, count, out=np.full(len(values), np.nan), where=count > 0)
    squares = np.where(mask, (values - mean[:, None]) ** 2, 0.0).sum(axis=1)
    return np.where(count > 0, squares / np.maximum(count - 1, 1), np.nan)


def _entropy(values: np.ndarray) -> np.ndarray:  # [patches, 64] integers -> [patches], in bits
    ordered = np.sort(values, axis=1)
    # A value that occurs n times adds log2(64 / n) for each of them: n is the length of its run in sorted order.
    starts = np.ones_like(ordered, bool)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    run = starts.ravel().cumsum() - 1
    return np.log2(values.shape[1] / np.bincount(run)[run]).reshape(values.shape).mean(axis=1)


def _colourfulness(red_green: np.ndarray, yellow_blue: np.ndarray) -> np.ndarray:
    spread = np.hypot(red_green.std(axis=1, ddof=1), yellow_blue.std(axis=1, ddof=1))
    return spread + 0.3 * np.hypot(red_green.mean(axis=1), yellow_blue.mean(axis=1))


def _contrast_energies(rgb: np.ndarray) -> list[np.ndarray]:
    """The response of second derivatives at one scale, normalised by its own strength, less the noise."""
    sigma = 3.25
    x = np.arange(-3 * sigma, 3 * sigma)
    bell = np.exp(-(x**2) / (2.0 * sigma**2))
    kernel = bell / bell.sum() * (x**2 / sigma**4 - 1.0 / sigma**2)
    kernel -= kernel.mean()
    kernel /= (0.5 * x**2 * kernel).sum()
    energies = []
    for weights, noise in zip(_OPPONENT, _NOISE, strict=True):
        plane = _repeat_border(rgb @ weights)
        energy = np.hypot(_convolve(plane, kernel[None]), _convolve(plane, kernel[:, None]))
        inside = energy[_REACH:-_REACH, _REACH:-_REACH]
        top = inside.max()
        response = inside * top / (inside + _SEMISATURATION * top) - noise if top > 0.0 else inside
        energies.append(np.where(response > 1e-7, response, 0.0))
    return energies


def _repeat_border(plane: np.ndarray) -> np.ndarray:
    """The outermost rows and columns once more outside, in their own order: not mirrored."""
    rows = np.concatenate((plane[:_REACH], plane, plane[-_REACH:]))
    return np.concatenate((rows[:, :_REACH], rows, rows[:, -_REACH:]), axis=1)


def _convolve(plane: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """A convolution of the plane's size. OpenCV correlates: the kernel is turned, and its even side has its centre."""
    turned = kernel[::-1, ::-1]
    centre = tuple((side - 1) // 2 for side in turned.shape[::-1])
    return cv2.filter2D(plane, cv2.CV_64F, turned, anchor=centre, borderType=cv2.BORDER_CONSTANT)


def _mean_distance(features: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> float:
    """The mean Mahalanobis distance of the patches from a set of natural images."""
    gap = mean - features  # [patches, 12]
    # The covariance of one patch is a number, added to every entry of the matrix: a change of rank one, whose inverse
    # follows from that of the matrix (Sherman and Morrison).
    inverse = np.linalg.inv(covariance / 2.0)
    change = features.var(axis=1, ddof=1) / 2.0
    squares = np.einsum("ni,ij,nj->n", gap, inverse, gap)
    reduced = change * (gap @ inverse.sum(axis=1)) ** 2 / (1.0 + change * inverse.sum())
    return float(np.nanmean(np.sqrt(np.maximum(squares - reduced, 0.0))))

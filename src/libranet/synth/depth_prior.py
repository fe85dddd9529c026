"""A stand-in for depth where no model is at hand: outdoor layout drawn at random around what the frame shows.

This is a prior, not an estimate. It knows four things: bright smooth areas that touch the upper border are sky, the
ground comes nearer towards the lower border, a region of one colour has one depth, and the rest is smooth chance. The
result has the statistics that haze needs (soft ramps, steps at object borders, a far sky), not the scene's geometry.
"""

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from libranet.data.frames import Image
from libranet.data.maps import Plane
from libranet.synth.depth import Meaning

WORK_WIDTH = 384
SEGMENT_SIZE = 20


@dataclass(frozen=True)
class LayoutPrior:
    """A layout drawn from `seed`, the same for every frame of a clip."""

    seed: int
    meaning: Meaning = "disparity"

    @property
    def name(self) -> str:
        return "layout-prior 1 (weight-free, random, not an estimate)"

    def estimate(self, image: Image) -> Plane:
        height, width = image.shape[:2]
        small_height = max(round(height * WORK_WIDTH / width), 16)
        small = cv2.resize(image, (WORK_WIDTH, small_height), interpolation=cv2.INTER_AREA)
        rng = np.random.default_rng((self.seed, 1))
        horizon, slope, object_share, noise_share = rng.uniform(
            [0.30, 0.8, 0.25, 0.08], [0.55, 1.6, 0.55, 0.22]
        ).tolist()
        rows = np.linspace(0.0, 1.0, small_height, dtype=np.float32)[:, None]
        ramp = np.clip((rows - horizon) / (1.0 - horizon), 0.0, 1.0) ** slope
        ramp = np.broadcast_to(ramp, (small_height, WORK_WIDTH))
        ground = _region_values(small, ramp, rng, object_share)
        near = ground + noise_share * _smooth_noise(rng, small_height, WORK_WIDTH)
        near = np.clip(near, 0.02, None) * (1.0 - sky_mask(small))
        return cv2.resize(near.astype(np.float32), (width, height), interpolation=cv2.INTER_LINEAR)


def sky_mask(image: Image) -> Plane:  # [h, w, 3] -> [h, w] in [0, 1]
    """How likely each pixel is sky: bright or blue, smooth, and reached from the upper border through such pixels."""
    pixels = image.astype(np.float32) / 255.0
    value, blue = pixels.max(2), pixels[..., 2] - pixels[..., 0]
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY).astype(np.float32) / 255.0
    edges = cv2.magnitude(cv2.Sobel(grey, cv2.CV_32F, 1, 0), cv2.Sobel(grey, cv2.CV_32F, 0, 1))
    likely = ((value > 0.62) | ((blue > 0.05) & (value > 0.35))) & (cv2.blur(edges, (5, 5)) < 0.18)
    likely &= pixels[..., 1] < np.maximum(pixels[..., 2], pixels[..., 0]) + 0.04
    _, labels = cv2.connectedComponents(likely.astype(np.uint8), connectivity=4)
    reached = np.unique(labels[: max(image.shape[0] // 50, 1)])
    sky = np.isin(labels, reached[reached != 0]).astype(np.float32)
    return cv2.blur(cv2.morphologyEx(sky, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8)), (5, 5))


def _region_values(image: Image, ramp: npt.NDArray, rng: np.random.Generator, share: float) -> Plane:
    """One value per segment: the ramp where the segment stands, shifted by a smooth random function of its colour."""
    lab = cv2.cvtColor(image, cv2.COLOR_RGB2LAB)
    segments = cv2.ximgproc.createSuperpixelSLIC(lab, cv2.ximgproc.SLIC, SEGMENT_SIZE, 20.0)
    segments.iterate(5)
    labels = np.asarray(segments.getLabels(), np.int64).ravel()
    count = np.bincount(labels).clip(1)
    colour = np.stack([np.bincount(labels, plane.ravel()) / count for plane in cv2.split(lab)], axis=1) / 255.0
    foot = np.zeros(len(count), np.float32)
    np.maximum.at(foot, labels, ramp.ravel())
    directions = rng.normal(0.0, 6.0, (3, 6))
    waves = np.cos(colour @ directions + rng.uniform(0.0, 2.0 * np.pi, 6)).mean(1)
    value = (1.0 - share) * foot + share * (0.35 + 0.65 * waves) * (0.45 + foot)
    segmented = value[labels].reshape(ramp.shape).astype(np.float32)
    return 0.6 * cv2.GaussianBlur(segmented, (0, 0), 2.0) + 0.4 * ramp


def _smooth_noise(rng: np.random.Generator, height: int, width: int) -> Plane:
    total = np.zeros((height, width), np.float32)
    for cells, amplitude in ((3, 0.6), (6, 0.3), (12, 0.1)):
        grid = rng.uniform(-1.0, 1.0, (cells, 2 * cells)).astype(np.float32)
        total += amplitude * cv2.resize(grid, (width, height), interpolation=cv2.INTER_CUBIC)
    return total

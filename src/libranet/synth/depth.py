"""Depth of single frames, and how a clip's raw values become one range from 0 (near) to 1 (far)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from libranet.data.frames import Image
from libranet.data.maps import Plane
from libranet.errors import InputError

Meaning = Literal["disparity", "distance"]

SAMPLES_PER_FRAME = 20_000


class DepthEstimator(Protocol):
    """Anything that tells near from far in one frame."""

    @property
    def name(self) -> str:
        """Method and version, for clip.json."""
        ...

    @property
    def meaning(self) -> Meaning:
        """Whether large values are near (disparity) or far (distance)."""
        ...

    def estimate(self, image: Image) -> Plane:
        """Raw values [h, w] in the estimator's own units."""
        ...


@dataclass(frozen=True)
class DepthRange:
    """What normalises a clip: the same two values for all its frames, so that haze does not breathe."""

    meaning: Meaning
    low: float
    high: float

    @classmethod
    def measure(
        cls, frames: Iterable[Plane], meaning: Meaning, *, percentiles: tuple[float, float] = (2.0, 98.0)
    ) -> "DepthRange":
        """Take the percentiles of an estimator's values over all frames."""
        values = _samples(frames)
        low, high = (float(value) for value in np.percentile(values, percentiles))
        return cls(meaning, low, high if high > low else low + 1.0)

    @classmethod
    def measure_metres(cls, frames: Iterable[Plane], *, sky: float, percentile: float = 80.0) -> "DepthRange":
        """For exact distances: proportional to the metres from the camera up to a percentile of what is not sky.

        So the haze is the physical one, exp(-constant * metres), up to that distance, and stays as it is beyond. The
        paper's range of disparities would put half of a street scene's haze within twice the nearest distance.
        """
        values = _samples(frames)
        solid = values[values < sky]
        high = float(np.percentile(solid, percentile)) if solid.size else 1.0
        return cls("distance", 0.0, max(high, 1e-3))

    def normalise(self, raw: Plane) -> Plane:
        """Bring raw values to 0 (near) .. 1 (far). Disparity is turned round: d = 1 - normalised disparity."""
        scaled = np.clip((raw - self.low) / (self.high - self.low), 0.0, 1.0).astype(np.float32)
        return 1.0 - scaled if self.meaning == "disparity" else scaled


def _samples(frames: Iterable[Plane]) -> np.ndarray:
    """Values of all frames from a regular grid of pixels of each."""
    samples = []
    for frame in frames:
        step = max(int(np.sqrt(frame.size / SAMPLES_PER_FRAME)), 1)
        samples.append(np.asarray(frame[::step, ::step]).ravel())
    values = np.concatenate(samples)
    if not np.isfinite(values).all():
        raise InputError("expected finite depth values, got infinities or NaN from the estimator")
    return values

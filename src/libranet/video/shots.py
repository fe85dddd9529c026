"""Shot detection: find the first frame of each shot, so that nothing of one shot bleeds into the next."""

import cv2
import numpy as np

SMALL = (64, 36)
"""Width and height at which luma is compared."""
SAMPLES = 10
"""Pixels that are averaged along each side of those, at most: all of a 4K frame would cost as much as decoding it."""
NEIGHBOURHOOD = 9
"""Pixels over which the local brightness is averaged and subtracted. Foggy landscapes all have a bright top and a dark
bottom; only the structure on top of that differs between them."""
MOTION = (4, 2)
"""Pixels of motion between two frames, across and down, that do not look like a cut."""
MIN_STRUCTURE_CHANGE, MIN_BRIGHTNESS_CHANGE = 0.5, 0.04
"""A cut exceeds both: the change of structure (0 same, 1 unrelated), and the mean change of brightness."""


class ShotDetector:
    """Compares each frame with the one before. A decision depends on these two alone, so it does not depend on where
    in the video the reading began.

    Measured on ten real clips: the structures of neighbouring frames differ by at most 0.17, those of two clips by at
    least 0.71.
    """

    def __init__(self) -> None:
        self._last: np.ndarray | None = None

    def is_cut(
        self,
        luma: np.ndarray,  # [H, W], any integer depth
        peak: int,
    ) -> bool:
        """Return whether this frame begins a new shot. The very first frame does not."""
        step = max(1, min(luma.shape[0] // SMALL[1], luma.shape[1] // SMALL[0]) // SAMPLES)
        sampled = np.ascontiguousarray(luma[::step, ::step])
        small = cv2.resize(sampled, SMALL, interpolation=cv2.INTER_AREA).astype(np.float32) / peak
        last, self._last = self._last, small
        if last is None or float(np.abs(small - last).mean()) <= MIN_BRIGHTNESS_CHANGE:
            return False
        a, b = (image - cv2.blur(image, (NEIGHBOURHOOD, NEIGHBOURHOOD)) for image in (small, last))
        return 1.0 - _best_correlation(a, b) > MIN_STRUCTURE_CHANGE


def _best_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Return the correlation of two images at their best shift."""
    height, width = a.shape
    best = -1.0
    for dx in range(-MOTION[0], MOTION[0] + 1):
        for dy in range(-MOTION[1], MOTION[1] + 1):
            top, left = max(0, dy), max(0, dx)
            bottom, right = height + min(0, dy), width + min(0, dx)
            shifted = b[top - dy : bottom - dy, left - dx : right - dx]
            best = max(best, _correlation(a[top:bottom, left:right], shifted))
    return best


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Return 0 where one of the images has no structure at all."""
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / scale if scale > 1e-6 else 0.0

"""Scene cuts: where one shot ends and the next begins, so that nothing of one bleeds into the other."""

import cv2
import numpy as np

SMALL = (64, 36)
"""Width and height of the luma pictures that are compared."""
BINS = 32


class SceneCutDetector:
    """Compares each frame with the one before. A decision depends on these two alone, so that it is the same wherever
    in the video the reading began.
    """

    def __init__(self, *, threshold: float = 0.30, minimum: float = 0.055) -> None:
        self._threshold, self._minimum = threshold, minimum
        self._last: tuple[np.ndarray, np.ndarray] | None = None

    def is_cut(
        self,
        luma: np.ndarray,  # [H, W], any integer depth
        peak: int,
    ) -> bool:
        """Whether this frame begins a new shot. The first frame of all does not."""
        small = cv2.resize(luma, SMALL, interpolation=cv2.INTER_AREA).astype(np.float32) / peak
        histogram = np.histogram(small, bins=BINS, range=(0.0, 1.0))[0] / small.size
        last, self._last = self._last, (small, histogram)
        if last is None:
            return False
        difference = float(np.abs(small - last[0]).mean())
        # The light may change in a shot (histogram moves, structure stays): compare it without mean and contrast.
        structure = 1.0 - _correlation(small, last[0])
        shift = 0.5 * float(np.abs(histogram - last[1]).sum())
        score = 0.5 * min(1.0, structure) + 0.5 * shift
        return difference > self._minimum and score > self._threshold and structure > 0.25


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / scale if scale > 1e-6 else 0.0

"""Edge-aware upsampling: the guided filter in its fast form, fitted at proxy size and applied at native size."""

import cv2
import numpy as np

from libranet.data.frames import Image
from libranet.data.maps import Plane


def guided_upsample(
    values: Plane,  # [h, w] in [0, 1]
    guide: Image,  # [H, W, 3]
    *,
    radius: int = 8,
    epsilon: float = 1e-3,
) -> Plane:  # [H, W] in [0, 1]
    """Enlarge `values` to the guide's size so that its edges follow the guide's.

    In every window of `radius` proxy pixels the result is a linear function of the guide; `epsilon` is the variance of
    the guide below which a window counts as flat and is smoothed.
    """
    h, w = values.shape
    height, width = guide.shape[:2]
    grey = cv2.cvtColor(guide, cv2.COLOR_RGB2GRAY).astype(np.float32) / 255.0
    small = cv2.resize(grey, (w, h), interpolation=cv2.INTER_AREA)
    side = (2 * radius + 1, 2 * radius + 1)
    mean_guide, mean_value = cv2.blur(small, side), cv2.blur(values, side)
    variance = cv2.blur(small * small, side) - mean_guide * mean_guide
    covariance = cv2.blur(small * values, side) - mean_guide * mean_value
    slope = covariance / (variance + epsilon)
    offset = mean_value - slope * mean_guide
    planes = [
        cv2.resize(cv2.blur(plane, side), (width, height), interpolation=cv2.INTER_LINEAR) for plane in (slope, offset)
    ]
    result: Plane = np.multiply(planes[0], grey, out=planes[0])
    np.add(result, planes[1], out=result)
    return np.clip(result, 0.0, 1.0, out=result)

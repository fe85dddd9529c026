"""Optical flow between neighbouring frames, and what follows from it: warping and the way back."""

from typing import Protocol

import cv2
import numpy as np
import numpy.typing as npt

from libranet.data.frames import Image
from libranet.data.maps import Field


class FlowEstimator(Protocol):
    """Anything that finds where pixels go."""

    @property
    def name(self) -> str:
        """Method and version, for clip.json."""
        ...

    def estimate(self, first: Image, second: Image) -> Field:
        """Forward flow [2, h, w] in pixels: `first` at (x, y) is seen in `second` at (x + u, y + v)."""
        ...


class DisFlow:
    """Dense inverse search of OpenCV: no weights, a few hundredths of a second per proxy frame."""

    name = f"opencv-dis-medium {cv2.__version__}"

    def estimate(self, first: Image, second: Image) -> Field:
        method = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
        greys = [cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in (first, second)]
        return np.ascontiguousarray(method.calc(greys[0], greys[1], None).transpose(2, 0, 1))  # type: ignore[call-overload]


def resize_flow(flow: Field, width: int, height: int) -> Field:  # [2, h, w] -> [2, height, width]
    """Bring a flow to another frame size: its vectors grow with the frame."""
    _, h, w = flow.shape
    if (w, h) == (width, height):
        return flow
    scales = (width / w, height / h)
    return np.stack(
        [cv2.resize(flow[i], (width, height), interpolation=cv2.INTER_LINEAR) * scales[i] for i in range(2)]
    ).astype(np.float32)


def warp(values: npt.NDArray, flow: Field) -> tuple[npt.NDArray, npt.NDArray[np.bool_]]:
    """Sample `values` [H, W] or [H, W, C] of the next frame at x + flow(x); also where that lies inside the frame."""
    _, height, width = flow.shape
    x = np.arange(width, dtype=np.float32)[None, :] + flow[0]
    y = np.arange(height, dtype=np.float32)[:, None] + flow[1]
    inside = (x >= 0) & (x <= width - 1) & (y >= 0) & (y <= height - 1)
    return cv2.remap(values, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE), inside


def invert_flow(flow: Field, steps: int = 5) -> Field:  # [2, h, w]
    """The flow from the next frame back to this one, by fixed-point iteration of back(x) = -flow(x + back(x))."""
    back = -flow
    stacked = np.ascontiguousarray(flow.transpose(1, 2, 0))
    for _ in range(steps):
        sampled, _ = warp(stacked, back)
        back = np.ascontiguousarray(-sampled.transpose(2, 0, 1))
    return back

"""Optical flow estimators: OpenCV's DIS, which needs no weights, and RAFT-small."""

from typing import Protocol

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.flow.raft import ITERATIONS, RaftSmall


class FlowEstimator(Protocol):
    """Finds the motion between two frames. Synthesis and evaluation use the same ones."""

    @property
    def name(self) -> str:
        """Method and version, for clip.json and reports."""
        ...

    def estimate(
        self,
        first: np.ndarray,  # [H, W, 3] uint8 RGB
        second: np.ndarray,  # [H, W, 3] uint8 RGB
    ) -> np.ndarray:  # [2, H, W] float32: x, then y
        """Estimate the flow in pixels: `first` at (x, y) is `second` at (x + u, y + v). Equal frames give zero."""
        ...


class DisFlow:
    """Dense inverse search of OpenCV, medium preset: no weights, a few hundredths of a second at 960x540."""

    name = f"opencv-dis-medium {cv2.__version__}"

    def estimate(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        method = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
        greys = [cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in (first, second)]
        return np.ascontiguousarray(method.calc(greys[0], greys[1], None).transpose(2, 0, 1))  # type: ignore[call-overload]


class RaftFlow:
    """RAFT-small. Its memory grows with the fourth power of a side, so a large frame is reduced first."""

    def __init__(self, net: RaftSmall, *, long_side: int = 768) -> None:
        self._net, self._long_side = net, long_side

    @property
    def name(self) -> str:
        return f"RAFT-small ({ITERATIONS} iterations, long side at most {self._long_side})"

    def estimate(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        height, width = first.shape[:2]
        if np.array_equal(first, second):
            return np.zeros((2, height, width), np.float32)
        frames = torch.cat([self._to_input(image) for image in (first, second)])
        step = max(1.0, max(height, width) / self._long_side)
        if step > 1.0:
            size = (max(16, round(height / step)), max(16, round(width / step)))
            frames = F.interpolate(frames, size=size, mode="bilinear", align_corners=False, antialias=True)
        flow = self._net(frames[:1], frames[1:])
        return _enlarge(flow, height, width).cpu().numpy()

    def _to_input(self, image: np.ndarray) -> Tensor:  # [H, W, 3] uint8 -> [1, 3, H, W] in [0, 1]
        device = next(self._net.parameters()).device
        frame = torch.from_numpy(np.ascontiguousarray(image)).to(device)
        return frame.permute(2, 0, 1)[None].float().div_(255.0).contiguous()


def _enlarge(flow: Tensor, height: int, width: int) -> Tensor:  # [1, 2, h, w] -> [2, H, W]
    h, w = flow.shape[-2:]
    if (h, w) == (height, width):
        return flow[0]
    scale = flow.new_tensor((width / w, height / h))[:, None, None]
    return F.interpolate(flow, size=(height, width), mode="bilinear", align_corners=False)[0] * scale

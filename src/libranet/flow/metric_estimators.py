"""Optical flow for tOF: RAFT-small where its weights are at hand, OpenCV's DIS otherwise. Each says its name."""

from typing import Protocol

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.flow.raft import RaftSmall


class FlowEstimator(Protocol):
    """Anything that finds where the pixels of one frame were in another."""

    @property
    def name(self) -> str:
        """What a report calls it."""
        ...

    def estimate(
        self,
        current: Tensor,  # [3, H, W] in [0, 1]
        previous: Tensor,  # [3, H, W] in [0, 1]
    ) -> Tensor:  # [2, H, W], in pixels, x then y
        """The flow from `current` to `previous`; exactly zero when the two are equal."""
        ...


class RaftFlow:
    """RAFT-small. Its memory grows with the fourth power of a side, so a large frame is reduced first."""

    def __init__(self, net: RaftSmall, *, long_side: int = 768, iterations: int = 12) -> None:
        self._net = net
        self._long_side = long_side
        self._iterations = iterations

    @property
    def name(self) -> str:
        return f"RAFT-small ({self._iterations} iterations, long side at most {self._long_side})"

    def estimate(self, current: Tensor, previous: Tensor) -> Tensor:
        height, width = current.shape[1:]
        if torch.equal(current, previous):
            return current.new_zeros(2, height, width, dtype=torch.float32)
        frames = torch.stack((current, previous)).float()
        step = max(1.0, max(height, width) / self._long_side)
        if step > 1.0:
            size = (max(16, round(height / step)), max(16, round(width / step)))
            frames = F.interpolate(frames, size=size, mode="bilinear", align_corners=False, antialias=True)
        flow = self._net(frames[:1], frames[1:], self._iterations)
        return _enlarge(flow, height, width)


class DisFlow:
    """OpenCV's dense inverse search, medium preset, on the full-size luma. Needs no weights."""

    @property
    def name(self) -> str:
        return f"OpenCV {cv2.__version__} DIS (medium)"

    def estimate(self, current: Tensor, previous: Tensor) -> Tensor:
        height, width = current.shape[1:]
        if torch.equal(current, previous):
            return current.new_zeros(2, height, width, dtype=torch.float32)
        first, second = (_luma8(frame) for frame in (current, previous))
        flow = cv2.DISOpticalFlow_create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM).calc(first, second, None)  # type: ignore[attr-defined]
        return torch.from_numpy(np.ascontiguousarray(flow.transpose(2, 0, 1))).to(current.device)


def _enlarge(flow: Tensor, height: int, width: int) -> Tensor:  # [1, 2, h, w] -> [2, H, W]
    h, w = flow.shape[-2:]
    if (h, w) == (height, width):
        return flow[0]
    scale = flow.new_tensor((width / w, height / h))[:, None, None]
    return F.interpolate(flow, size=(height, width), mode="bilinear", align_corners=False)[0] * scale


def _luma8(frame: Tensor) -> np.ndarray:  # [3, H, W] in [0, 1] -> [H, W] uint8
    rgb = (frame * 255).round().to(torch.uint8).permute(1, 2, 0).cpu().numpy()
    return cv2.cvtColor(np.ascontiguousarray(rgb), cv2.COLOR_RGB2GRAY)

"""Methods without weights: no dehazing at all, and local contrast as people use it today."""

from collections.abc import Callable

import cv2
import numpy as np
import torch
from torch import Tensor

from libranet.network.peer import Peer, PeerConfig

CLAHE_LIMIT, CLAHE_TILES = 2.0, 8
"""Clip limit and tiles per side: the values that OpenCV's tutorial and most scripts use."""


class Identity(Peer):
    """No dehazing: the first row of every table."""

    def __init__(self) -> None:
        super().__init__(PeerConfig("identity"))

    def restore(self, frames: Tensor) -> Tensor:
        return frames[:, 0]


class FrameByFrame(Peer):
    """Any method without weights that looks at one frame."""

    def __init__(self, name: str, method: Callable[[Tensor], Tensor]) -> None:
        super().__init__(PeerConfig(name))
        self.method = method

    def restore(self, frames: Tensor) -> Tensor:
        return torch.stack([self.method(frame) for frame in frames[:, 0]])


def clahe(frame: Tensor) -> Tensor:
    """Contrast-limited adaptive histogram equalisation of the lightness, which is what video tools offer today."""
    rgb = np.ascontiguousarray(frame.detach().float().cpu().permute(1, 2, 0).numpy())
    lab = cv2.cvtColor(rgb, cv2.COLOR_RGB2LAB)
    lightness = np.rint(lab[..., 0] * 2.55).astype(np.uint8)
    equaliser = cv2.createCLAHE(clipLimit=CLAHE_LIMIT, tileGridSize=(CLAHE_TILES, CLAHE_TILES))
    change = equaliser.apply(lightness).astype(np.float32) - lightness  # added, so that finer steps than 8 bits survive
    lab[..., 0] = np.clip(lab[..., 0] + change / 2.55, 0.0, 100.0)
    restored = np.clip(cv2.cvtColor(lab, cv2.COLOR_LAB2RGB), 0.0, 1.0)
    return torch.from_numpy(restored).permute(2, 0, 1).to(frame)

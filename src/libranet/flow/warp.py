"""Warping along a flow, resizing a flow, and inverting it."""

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.errors import InputError


def warp(
    values: np.ndarray,  # [H, W] or [H, W, C]
    flow: np.ndarray,  # [2, H, W]
) -> tuple[np.ndarray, np.ndarray]:  # like `values`; [H, W] bool
    """Sample the other frame's `values` at x + flow(x), bilinearly.

    OpenCV rounds the positions to 1/32 pixel. `warp_tensor` does not, and runs on any device.

    Returns:
        The warped values, and where the position lies inside the frame. Outside, the border is repeated.
    """
    _, height, width = flow.shape
    x = np.arange(width, dtype=np.float32)[None, :] + flow[0]
    y = np.arange(height, dtype=np.float32)[:, None] + flow[1]
    inside = (x >= 0) & (x <= width - 1) & (y >= 0) & (y <= height - 1)
    return cv2.remap(values, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE), inside


def warp_tensor(
    image: Tensor,  # [C, H, W]
    flow: Tensor,  # [2, H, W]
) -> tuple[Tensor, Tensor]:  # [C, H, W] float32, [H, W] bool
    """Do what `warp` does, without rounding of positions. A flow of zero everywhere returns the image exactly."""
    height, width = image.shape[1:]
    if flow.shape != (2, height, width):
        raise InputError(f"expected a flow of [2, {height}, {width}], got {tuple(flow.shape)}")
    if not bool(flow.any()):
        return image.float(), torch.ones(height, width, dtype=torch.bool, device=image.device)
    ys = torch.arange(height, device=image.device, dtype=torch.float32)[:, None] + flow[1]
    xs = torch.arange(width, device=image.device, dtype=torch.float32)[None, :] + flow[0]
    inside = (xs >= 0) & (xs <= width - 1) & (ys >= 0) & (ys <= height - 1)
    grid = torch.stack((2 * xs / max(width - 1, 1) - 1, 2 * ys / max(height - 1, 1) - 1), dim=-1)
    warped = F.grid_sample(image[None].float(), grid[None], mode="bilinear", padding_mode="border", align_corners=True)
    return warped[0], inside


def resize_flow(flow: np.ndarray, width: int, height: int) -> np.ndarray:  # [2, h, w] -> [2, height, width]
    """Resize a flow to another frame size; its vectors grow with the frame."""
    _, h, w = flow.shape
    if (w, h) == (width, height):
        return flow
    scales = (width / w, height / h)
    return np.stack(
        [cv2.resize(flow[i], (width, height), interpolation=cv2.INTER_LINEAR) * scales[i] for i in range(2)]
    ).astype(np.float32)


def invert_flow(flow: np.ndarray, steps: int = 5) -> np.ndarray:  # [2, h, w]
    """Find the flow from the other frame back to this one, by fixed-point iteration of back(x) = -flow(x + back(x))."""
    back = -flow
    stacked = np.ascontiguousarray(flow.transpose(1, 2, 0))
    for _ in range(steps):
        sampled, _ = warp(stacked, back)
        back = np.ascontiguousarray(-sampled.transpose(2, 0, 1))
    return back

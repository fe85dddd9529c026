"""Small convolutional parts that several peers share."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def conv(entering: int, leaving: int, *, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(entering, leaving, 3, stride=stride, padding=1)


class Residual(nn.Module):
    """Two convolutions whose result is added, with a weight."""

    def __init__(self, width: int, weight: float = 1.0) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(width, width), nn.ReLU(inplace=True), conv(width, width))
        self.weight = weight

    def forward(self, x: Tensor) -> Tensor:
        return torch.add(x, self.body(x), alpha=self.weight)


def double(x: Tensor, *, align_corners: bool = False) -> Tensor:
    return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=align_corners)

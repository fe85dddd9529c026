"""Reflection padding that also works on maps smaller than the padding."""

import torch.nn.functional as F
from torch import Tensor, nn


def reflect_pad(x: Tensor, left: int, right: int, top: int, bottom: int) -> Tensor:  # [N, C, H, W]
    """Continue a map by reflection; where it is too small for that, its border is repeated."""
    if not (left or right or top or bottom):
        return x
    fits = max(left, right) < x.shape[-1] and max(top, bottom) < x.shape[-2]
    return F.pad(x, (left, right, top, bottom), mode="reflect" if fits else "replicate")


def pad_to_multiple(x: Tensor, divisor: int, *, smallest: int = 1) -> Tensor:  # [N, C, H, W]
    """Continue a map to the right and to the bottom until its sides are multiples of a number, and long enough."""
    height, width = x.shape[-2:]
    side = -(-smallest // divisor) * divisor
    bottom, right = (max(-length % divisor, side - length) for length in (height, width))
    return reflect_pad(x, 0, right, 0, bottom)


class ReflectConv(nn.Conv2d):
    """A convolution whose input is continued by reflection."""

    def __init__(self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride=stride, groups=groups)
        self.border = kernel // 2

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(reflect_pad(x, self.border, self.border, self.border, self.border))

"""SPyNet (Ranjan and Black, CVPR 2017): optical flow, coarse to fine, six levels."""

import math
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.lab.peers.deformable import sample
from libranet.losses.perceptual import ImageNetNormalise

LEVELS = 6


class Level(nn.Sequential):
    """Predicts what is missing in the flow."""

    def __init__(self) -> None:
        widths = (8, 32, 64, 32, 16, 2)
        layers: list[nn.Module] = []
        for a, b in pairwise(widths):
            layers += [nn.Conv2d(a, b, 7, padding=3), nn.ReLU()]
        super().__init__(*layers[:-1])


class SpyNet(nn.Module):
    """Flow from one frame to another."""

    def __init__(self) -> None:
        super().__init__()
        self.levels = nn.ModuleList(Level() for _ in range(LEVELS))
        self.normalise = ImageNetNormalise()

    def forward(
        self,
        first: Tensor,  # [B, 3, H, W] in [0, 1]
        second: Tensor,  # likewise
        *,
        scales: int,
    ) -> list[Tensor]:
        """Return the flow, in pixels (x, y), at the full size, at half of it, and so on for `scales` sizes."""
        height, width = first.shape[-2:]
        stride = 2 ** (LEVELS - 1)
        size = (math.ceil(height / stride) * stride, math.ceil(width / stride) * stride)
        pyramids = []
        for frame in (first, second):
            levels = [F.interpolate(self.normalise(frame), size=size, mode="bilinear", align_corners=False)]
            for _ in range(LEVELS - 1):
                levels.append(F.avg_pool2d(levels[-1], 2))
            pyramids.append(levels[::-1])
        flow = first.new_zeros(len(first), 2, size[0] // stride, size[1] // stride)
        found = []
        for index, (level, a, b) in enumerate(zip(self.levels, *pyramids, strict=True)):
            if index:
                flow = 2 * F.interpolate(flow, scale_factor=2, mode="bilinear", align_corners=True)
            flow = flow + level(torch.cat([a, sample(b, flow, border=True), flow], dim=1))
            found.append(flow)
        wanted = [(height // 2**scale, width // 2**scale) for scale in range(scales)]
        return [_resize(flow, target) for flow, target in zip(reversed(found[-scales:]), wanted, strict=True)]


def _resize(flow: Tensor, size: tuple[int, int]) -> Tensor:
    factors = flow.new_tensor([size[1] / flow.shape[-1], size[0] / flow.shape[-2]]).view(2, 1, 1)
    return F.interpolate(flow, size=size, mode="bilinear", align_corners=False) * factors

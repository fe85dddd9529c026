"""ConvNeXt-T (Liu et al., CVPR 2022) as a backbone: four feature maps, each with a norm of its own."""

from itertools import pairwise

import torch
from torch import Tensor, nn

DEPTHS, WIDTHS = (3, 3, 9, 3), (96, 192, 384, 768)


class ChannelNorm(nn.LayerNorm):
    """Layer norm over the channels of every pixel."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Block(nn.Module):
    """A depth-wise convolution and two layers per pixel, with a learned scale per channel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.expand, self.reduce = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        hidden = self.gamma * self.reduce(nn.functional.gelu(self.expand(hidden)))
        return x + hidden.permute(0, 3, 1, 2)


class ConvNextTiny(nn.Module):
    """Features at 1/4, 1/8, 1/16 and 1/32 of the size, 96 to 768 maps."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, WIDTHS[0], 4, stride=4), ChannelNorm(WIDTHS[0], eps=1e-6))
        self.downs = nn.ModuleList(
            nn.Sequential(ChannelNorm(a, eps=1e-5), nn.Conv2d(a, b, 2, stride=2)) for a, b in pairwise(WIDTHS)
        )
        self.stages = nn.ModuleList(
            nn.Sequential(*(Block(width) for _ in range(depth))) for width, depth in zip(WIDTHS, DEPTHS, strict=True)
        )
        self.norms = nn.ModuleList(ChannelNorm(width, eps=1e-6) for width in WIDTHS)

    def forward(self, x: Tensor) -> list[Tensor]:  # [B, 3, H, W], normalised; H and W multiples of 32
        found = []
        x = self.stem(x)
        for level, (stage, norm) in enumerate(zip(self.stages, self.norms, strict=True)):
            if level:
                x = self.downs[level - 1](x)
            x = stage(x)
            found.append(norm(x))
        return found

"""A small Swin Transformer (Liu et al., ICCV 2021) over frames of any size: three stages, features of each."""

import torch
from torch import Tensor, nn

from libranet.lab.peers.swin import SwinBlock

PATCH, WIDTH, DEPTH, HEADS, WINDOW = 2, 96, 2, (3, 6, 12), 7


class Merge(nn.Module):
    """Halves the size and doubles the width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.reduce = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        corners = (x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2])
        return self.reduce(self.norm(torch.cat(corners, dim=-1)))


class SwinPyramid(nn.Module):
    """Features at 1/2, 1/4 and 1/8: 96, 192 and 384 maps. Sides must be multiples of 8."""

    def __init__(self) -> None:
        super().__init__()
        widths = [WIDTH * 2**level for level in range(len(HEADS))]
        self.embed, self.embed_norm = nn.Conv2d(3, WIDTH, PATCH, stride=PATCH), nn.LayerNorm(WIDTH)
        self.stages = nn.ModuleList(
            nn.Sequential(*(SwinBlock(width, heads, WINDOW, shift=WINDOW // 2 * (i % 2)) for i in range(DEPTH)))
            for width, heads in zip(widths, HEADS, strict=True)
        )
        self.merges = nn.ModuleList(Merge(width) for width in widths[:-1])
        self.norms = nn.ModuleList(nn.LayerNorm(width) for width in widths)

    def forward(self, frame: Tensor) -> list[Tensor]:
        found = []
        x = self.embed_norm(self.embed(frame).permute(0, 2, 3, 1))
        for level, (stage, norm) in enumerate(zip(self.stages, self.norms, strict=True)):
            if level:
                x = self.merges[level - 1](x)
            x = stage(x)
            found.append(norm(x).permute(0, 3, 1, 2))
        return found

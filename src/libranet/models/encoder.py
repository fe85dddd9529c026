"""The low-resolution encoder that both affine fields use, each with its own weights."""

import torch
from torch import Tensor, nn

GROUPS = 8
"""Groups of every GroupNorm in the network."""


def conv3x3(channels_in: int, channels_out: int, *, stride: int = 1) -> nn.Conv2d:
    """A 3x3 convolution that a GroupNorm follows, so it carries no bias."""
    return nn.Conv2d(channels_in, channels_out, 3, stride=stride, padding=1, bias=False)


class StochasticDepth(nn.Module):
    """Drop a residual branch for whole samples while training, and scale the rest up to keep the mean."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, branch: Tensor) -> Tensor:
        if not self.training or self.rate == 0.0:
            return branch
        keep = torch.rand(branch.shape[0], 1, 1, 1, device=branch.device) >= self.rate
        return branch * (keep / (1.0 - self.rate)).to(branch.dtype)


class EncoderBlock(nn.Module):
    """x + GN(conv(GELU(GN(conv(x))))), the branch subject to stochastic depth."""

    def __init__(self, width: int, drop_path: float) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            conv3x3(width, width),
            nn.GroupNorm(GROUPS, width),
            nn.GELU(),
            conv3x3(width, width),
            nn.GroupNorm(GROUPS, width),
        )
        self.drop_path = StochasticDepth(drop_path)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.drop_path(self.branch(x))


class Encoder(nn.Module):
    """Four stride-2 stages: a 256x256 frame becomes 192 channels at 16x16."""

    def __init__(self, widths: tuple[int, ...], blocks: int, drop_path: float) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        total, depth = blocks * len(widths), 0
        for channels_in, width in zip((3, *widths[:-1]), widths, strict=True):
            layers += [conv3x3(channels_in, width, stride=2), nn.GroupNorm(GROUPS, width), nn.GELU()]
            for _ in range(blocks):
                # The deeper the block, the more often it is dropped.
                layers.append(EncoderBlock(width, drop_path * depth / max(total - 1, 1)))
                depth += 1
        self.layers = nn.Sequential(*layers)

    def forward(
        self,
        small: Tensor,  # [N, 3, 256, 256]
    ) -> Tensor:  # [N, 192, 16, 16]
        return self.layers(small)

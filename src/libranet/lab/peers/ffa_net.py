"""FFA-Net (Qin et al., AAAI 2020): feature attention over three groups of blocks, everything at full size."""

import torch
from torch import Tensor, nn

from libranet.network.peer import Peer, PeerConfig

WIDTH, BLOCKS, GROUPS = 64, 19, 3
"""The released weights have 19 blocks per group, the paper's default 20."""
MEAN, STD = (0.64, 0.60, 0.58), (0.14, 0.15, 0.152)
"""The input is normalised by these; the target is not."""


class PixelAttention(nn.Sequential):
    """A weight for every pixel."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(WIDTH, WIDTH // 8, 1), nn.ReLU(inplace=True), nn.Conv2d(WIDTH // 8, 1, 1), nn.Sigmoid()
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * super().forward(x)


class ChannelAttention(nn.Sequential):
    """A weight for every channel, from its mean over the frame."""

    def __init__(self) -> None:
        super().__init__(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(WIDTH, WIDTH // 8, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(WIDTH // 8, WIDTH, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * super().forward(x)


class Block(nn.Module):
    """Two convolutions with attention to channels and pixels, and two skips."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.second = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.channels, self.pixels = ChannelAttention(), PixelAttention()

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x).relu_() + x
        return self.pixels(self.channels(self.second(hidden))) + x


class Group(nn.Sequential):
    """Blocks, a convolution and a skip."""

    def __init__(self) -> None:
        super().__init__(*(Block() for _ in range(BLOCKS)), nn.Conv2d(WIDTH, WIDTH, 3, padding=1))

    def forward(self, x: Tensor) -> Tensor:
        return x + super().forward(x)


class FfaNet(Peer):
    """FFA-Net as its weights were released."""

    mean: Tensor
    std: Tensor

    def __init__(self) -> None:
        super().__init__(PeerConfig("ffa-net"))
        self.embed = nn.Conv2d(3, WIDTH, 3, padding=1)
        self.groups = nn.ModuleList(Group() for _ in range(GROUPS))
        self.fusion = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(GROUPS * WIDTH, WIDTH // 16, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(WIDTH // 16, GROUPS * WIDTH, 1),
            nn.Sigmoid(),
        )
        self.pixels = PixelAttention()
        self.tail = nn.Sequential(nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.Conv2d(WIDTH, 3, 3, padding=1))
        self.register_buffer("mean", torch.tensor(MEAN).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(STD).view(3, 1, 1), persistent=False)

    def restore(self, frames: Tensor) -> Tensor:
        """Restore one frame. The last skip adds the normalised input, as published."""
        normalised = (frames[:, 0] - self.mean) / self.std
        features, found = self.embed(normalised), []
        for group in self.groups:
            features = group(features)
            found.append(features)
        weighted = torch.cat(found, dim=1)
        weighted = weighted * self.fusion(weighted)
        summed = weighted.unflatten(1, (GROUPS, WIDTH)).sum(dim=1)
        return self.tail(self.pixels(summed)) + normalised

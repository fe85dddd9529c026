"""MSBDN-DFF (Dong et al., CVPR 2020, v1-1): a boosted U-Net whose levels are fed with back-projected errors."""

from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from libranet.network.padding import ReflectConv
from libranet.network.peer import Peer, PeerConfig

WIDTHS = (16, 32, 64, 128, 256)
BOTTLENECK_BLOCKS = 18


class ResidualBlock(nn.Module):
    """Two convolutions whose result is added with weight 0.1."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(ReflectConv(width, width, 3), nn.PReLU(), ReflectConv(width, width, 3))

    def forward(self, x: Tensor) -> Tensor:
        return x + 0.1 * self.body(x)


def residual_group(width: int, blocks: int = 3) -> nn.Sequential:
    return nn.Sequential(*(ResidualBlock(width) for _ in range(blocks)))


class BackProjection(nn.Module):
    """Corrects a map by its error at the size of every map so far, brought there and back by shared layers."""

    def __init__(self, width: int, steps: int, *, enlarge: bool) -> None:
        """Make the layers: `steps` doublings of the size with `enlarge`, else halvings."""
        super().__init__()
        there, back = [], []
        for _ in range(steps):
            other = width // 2 if enlarge else width * 2
            up, down = (width, other) if enlarge else (other, width)
            bigger = nn.Sequential(nn.ConvTranspose2d(up, down, 4, stride=2, padding=1), nn.PReLU())
            smaller = nn.Sequential(nn.Conv2d(down, up, 4, stride=2, padding=1), nn.PReLU())
            there.append(bigger if enlarge else smaller)
            back.append(smaller if enlarge else bigger)
            width = other
        self.there, self.back = nn.ModuleList(there), nn.ModuleList(back)

    def forward(self, x: Tensor, references: list[Tensor]) -> Tensor:
        """`references` begin with the one whose size is farthest from that of x."""
        for index, reference in enumerate(references):
            steps = len(self.there) - index
            error = x
            for layer in self.there[:steps]:
                error = layer(error)
            error = error - reference
            for layer in reversed(self.back[:steps]):
                error = layer(error)
            x = x + error
        return x


class MsbdnDff(Peer):
    """The published network."""

    def __init__(self) -> None:
        super().__init__(PeerConfig("msbdn-dff", divisor=16))
        self.embed = ReflectConv(3, WIDTHS[0], 11)
        self.encoder_groups = nn.ModuleList(residual_group(width) for width in WIDTHS[:4])
        self.downs = nn.ModuleList(ReflectConv(a, b, 3, stride=2) for a, b in pairwise(WIDTHS))
        self.encoder_fusions = nn.ModuleList(
            BackProjection(WIDTHS[level], level, enlarge=True) for level in range(1, 5)
        )
        self.bottleneck = residual_group(WIDTHS[4], BOTTLENECK_BLOCKS)
        self.ups = nn.ModuleList(
            nn.ConvTranspose2d(WIDTHS[level + 1], WIDTHS[level], 3, stride=2) for level in (3, 2, 1, 0)
        )
        self.decoder_groups = nn.ModuleList(residual_group(WIDTHS[level]) for level in (3, 2, 1, 0))
        self.decoder_fusions = nn.ModuleList(
            BackProjection(WIDTHS[level], 4 - level, enlarge=False) for level in (3, 2, 1, 0)
        )
        self.out = ReflectConv(WIDTHS[0], 3, 3)

    def restore(self, frames: Tensor) -> Tensor:
        x = self.embed(frames[:, 0])
        memory, skips = [x], [self.encoder_groups[0](x) + x]
        for level in range(1, 5):
            x = self.encoder_fusions[level - 1](self.downs[level - 1](skips[-1]), memory)
            memory.append(x)
            if level < 4:
                skips.append(self.encoder_groups[level](x) + x)
        boosted = 2 * x
        x = self.bottleneck(boosted) + boosted - x
        decoded = [x]
        for index, (up, group, fusion) in enumerate(
            zip(self.ups, self.decoder_groups, self.decoder_fusions, strict=True)
        ):
            skip = skips[3 - index]
            previous = F.interpolate(up(x), size=skip.shape[-2:], mode="bilinear", align_corners=False)
            boosted = previous + skip
            x = fusion(group(boosted) + boosted - previous, decoded)
            decoded.append(x)
        return self.out(x)

"""DeHamer (Guo et al., CVPR 2022): a Swin Transformer's features modulate those of a convolutional network.

The fact sheet is an outline, but its counts leave one build: the layers below add up to the 29,450,464 parameters that
the official network uses. The 103 million that it holds and never uses are left out. Not settled by counts, and chosen
here: the blur of the multi-scale blocks' downsampling (3x3, binomial) and how pooled maps are enlarged (bilinear).
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.lab.peers.convolutions import conv, double
from libranet.lab.peers.multi_scale import MultiScaleBlocks
from libranet.lab.peers.swin_pyramid import SwinPyramid
from libranet.network.peer import Peer, PeerConfig

FIRST, STAGES = 32, 4
BINS = (1, 2, 3, 4)
SWIN_WIDTHS = (96, 192, 384)


def pair(entering: int, leaving: int) -> nn.Sequential:
    return nn.Sequential(conv(entering, leaving), nn.ReLU(inplace=True), conv(leaving, leaving), nn.ReLU(inplace=True))


class PyramidPooling(nn.Module):
    """Adds means over coarse grids to a map: the width doubles."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.reduce = nn.ModuleList(nn.Conv2d(width, width // len(BINS), 1, bias=False) for _ in BINS)

    def forward(self, x: Tensor) -> Tensor:
        found = [x]
        for side, layer in zip(BINS, self.reduce, strict=True):
            pooled = F.relu(layer(F.adaptive_avg_pool2d(x, side)))
            found.append(F.interpolate(pooled, size=x.shape[-2:], mode="bilinear", align_corners=True))
        return torch.cat(found, dim=1)


class Encoder(nn.Module):
    """The convolutional features at 1/2, 1/4, 1/8 and 1/16: 64, 128, 256 and 512 maps."""

    def __init__(self) -> None:
        super().__init__()
        widths = [FIRST * 2**stage for stage in range(STAGES)]
        self.stages = nn.ModuleList(pair(3 if width == FIRST else width, width) for width in widths)
        self.pools = nn.ModuleList(PyramidPooling(width) for width in widths)

    def forward(self, frame: Tensor) -> list[Tensor]:
        found, x = [], frame
        for stage, pool in zip(self.stages, self.pools, strict=True):
            x = pool(F.max_pool2d(stage(x), 2))
            found.append(x)
        return found


class Modulate(nn.Module):
    """Scales and shifts the normalised convolutional features by the transformer's."""

    def __init__(self, width: int, swin: int) -> None:
        super().__init__()
        self.scale, self.shift = conv(swin, width), conv(swin, width)

    def forward(self, x: Tensor, swin: Tensor) -> Tensor:
        return F.instance_norm(x) * self.scale(swin) + self.shift(swin)


class Dehamer(Peer):
    """The published network without the layers that it never uses."""

    def __init__(self) -> None:
        super().__init__(PeerConfig("dehamer", divisor=16))
        widths = [2 * FIRST * 2**level for level in range(len(SWIN_WIDTHS))]  # 64, 128, 256 at 1/2, 1/4, 1/8
        self.cnn, self.swin = Encoder(), SwinPyramid()
        self.bottleneck = pair(2 * widths[-1], widths[-1])
        self.modulate = nn.ModuleList(Modulate(w, s) for w, s in zip(widths, SWIN_WIDTHS, strict=True))
        self.fuse = nn.ModuleList(conv(3 * width, width) for width in widths)
        self.halve = nn.ModuleList(pair(width, width // 2) for width in widths)
        self.multi_scale = MultiScaleBlocks((widths[0], widths[1]))
        self.tail = nn.Sequential(
            conv(FIRST, FIRST), nn.ReLU(inplace=True), conv(FIRST, FIRST), nn.ReLU(inplace=True), conv(FIRST, 3)
        )

    def restore(self, frames: Tensor) -> Tensor:
        frame = frames[:, 0]
        cnn, swin = self.cnn(frame), self.swin(frame)
        x = double(self.bottleneck(cnn[-1]), align_corners=True)
        for level in reversed(range(len(SWIN_WIDTHS))):
            modulated = self.modulate[level](cnn[level], swin[level])
            x = F.relu(self.fuse[level](torch.cat([cnn[level], modulated, x], dim=1)))
            x = double(self.halve[level](x), align_corners=True)
            if level:
                x = self.multi_scale(level - 1, x)
        return self.tail(x)

"""ViWS-Net (Yang et al., ICCV 2023): five frames that exchange messenger tokens, a decoder asked by them, a refinement.

The official network restores all frames of a window and keeps the centre one; here its last decoder draws that one
only, with the same result. The weather classifier serves an adversarial loss of the makers and is unused.
"""

import itertools

import torch
from torch import Tensor, nn

from libranet.lab.peers.convolutions import Residual, conv
from libranet.lab.peers.mix_transformer import Block, to_map, to_tokens
from libranet.lab.peers.shunted_transformer import EPS, TOKENS, WIDTHS, ShuntedTransformer, initialise
from libranet.network.peer import Peer, PeerConfig

DEPTHS, REFINE_DEPTHS = (2, 4, 12, 1), (1, 2, 4, 1)
WIDTH = WIDTHS[-1]
QUERY_BLOCKS, QUERY_HEADS = 3, 8
DROP_PATH_STEP = 0.1 / 15
LAST_WIDTHS = (16, 8)  # maps at a half of the size and at the full size
GATE_WIDTH, WEATHERS = 128, 3


class QueryDecoder(nn.Module):
    """Asks the map at 1/64 by the tokens, which are stretched over its pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.reduce, self.norm = conv(WIDTH, WIDTH, stride=2), nn.LayerNorm(WIDTH)
        self.blocks = nn.ModuleList(
            Block(WIDTH, QUERY_HEADS, 1, drop_path=index * DROP_PATH_STEP) for index in range(QUERY_BLOCKS)
        )
        self.last_norm = nn.LayerNorm(WIDTH, eps=EPS)
        initialise(self)

    def forward(
        self,
        features: Tensor,  # [N, 512, h, w]
        tokens: Tensor,  # [N, 48, 512]
    ) -> Tensor:  # [N, 512, h / 2, w / 2], rounded up
        found = self.reduce(features)
        size = (found.shape[-2], found.shape[-1])
        x = self.norm(to_tokens(found))
        count = x.shape[1]
        asking = tokens[:, torch.arange(count, device=x.device) * TOKENS // count]
        for block in self.blocks:
            x = block(x, size, asking)
        return to_map(self.last_norm(x), size)


class ImageDecoder(nn.Module):
    """Enlarges the coarsest features to the frame, adding the finer ones on the way."""

    def __init__(self) -> None:
        super().__init__()
        widths = (*WIDTHS[::-1], LAST_WIDTHS[0])
        self.ups = nn.ModuleList(double_conv(a, b) for a, b in itertools.pairwise(widths))
        self.blocks = nn.ModuleList(Residual(width, 0.1) for width in widths[1:])
        self.last = double_conv(*LAST_WIDTHS)

    def forward(self, x: Tensor, features: list[Tensor]) -> Tensor:  # [N, 512, H / 32, W / 32] -> [N, 8, H, W]
        for up, block, skip in zip(self.ups, self.blocks, (*features[::-1], None), strict=True):
            x = block(up(x))
            x = x if skip is None else x + skip
        return self.last(x)


class TemporalConvs(nn.Sequential):
    """Three convolutions over space and time; the first and the last frame are repeated."""

    def __init__(self, width: int = 32) -> None:
        widths = (3, width, width, 3)
        super().__init__(*(nn.Conv3d(a, b, 3, padding=(0, 1, 1), bias=False) for a, b in itertools.pairwise(widths)))

    def forward(self, frames: Tensor) -> Tensor:  # [B, T, 3, H, W]
        x = frames.transpose(1, 2)
        for index, layer in enumerate(self):
            x = layer(torch.cat([x[:, :, :1], x, x[:, :, -1:]], dim=2))
            x = x.relu() if index + 1 < len(self) else x
        return x.transpose(1, 2)


class Refinement(nn.Module):
    """Corrects the centre frame by a smaller transformer over all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = ShuntedTransformer(REFINE_DEPTHS, deep_stem=False), ImageDecoder()
        self.out, self.unused = conv(LAST_WIDTHS[-1], 3), conv(LAST_WIDTHS[-1], 3)

    def forward(self, frames: Tensor) -> Tensor:  # [B, T, 3, H, W] -> [B, 3, H, W]
        count = frames.shape[1]
        centre = count // 2
        features = [x.unflatten(0, (-1, count))[:, centre] for x in self.encoder(frames)[0]]
        return frames[:, centre] + self.out(self.decoder(features[-1], features[:-1])).tanh()


class ViwsNet(Peer):
    """The published network, on whole frames where the official one cuts tiles."""

    def __init__(self) -> None:
        super().__init__(PeerConfig("viws-net", past=2, future=2, divisor=32))
        self.encoder = ShuntedTransformer(DEPTHS, deep_stem=True)
        self.query_decoder = QueryDecoder()
        self.weather = nn.ModuleList(
            nn.Linear(a, b, bias=False)
            for a, b in ((WIDTH, GATE_WIDTH), (WIDTH, GATE_WIDTH), (GATE_WIDTH, 1), (WIDTH, WEATHERS))
        )
        self.enlarge, self.decoder = double_conv(WIDTH, WIDTH), ImageDecoder()
        self.out = conv(LAST_WIDTHS[-1], 3)
        self.temporal, self.refine = TemporalConvs(), Refinement()

    def restore(self, frames: Tensor) -> Tensor:
        features, tokens = self.encoder(frames)
        height, width = features[-1].shape[-2:]
        asked = self.enlarge(self.query_decoder(features[-1], tokens[-1]))[..., :height, :width]
        haze = self.out(self.decoder(asked + features[-1], features[:-1])).tanh()
        return self.refine(self.temporal(frames - haze.unflatten(0, frames.shape[:2])))


def double_conv(entering: int, leaving: int) -> nn.ConvTranspose2d:
    return nn.ConvTranspose2d(entering, leaving, 4, stride=2, padding=1)

"""DehazeXL (Chen et al., CVPR 2025): tiles encoded and decoded one by one, joined by attention over the whole frame.

The official network takes square frames; this one counts rows and columns of tiles separately. Above 4,096 tokens the
official attention is an approximation; this one is exact at every size.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.lab.peers.swin import SwinBlock, SwinV2Tiny
from libranet.network.peer import Peer, PeerConfig

TILE, WIDTH, HEADS, WINDOW = 256, 768, 8, 8
TILES_AT_ONCE = 16
DROP_PATH = 0.1
DECODER = ((1536, 24), (768, 12), (384, 6), (192, 3))
"""Width and heads of the decoder's levels, coarse to fine."""


class GlobalLayer(nn.Module):
    """Attention over all tokens of a frame, and a gated feed-forward layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first_norm, self.second_norm = nn.RMSNorm(WIDTH, eps=1e-5), nn.RMSNorm(WIDTH, eps=1e-5)
        self.qkv, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.gate, self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # [B, N, 768]
        q, k, v = self.qkv(self.first_norm(x)).unflatten(2, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.project(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        hidden = self.second_norm(x)
        return x + self.down(F.gelu(self.gate(hidden)) * self.up(hidden))


class Bottleneck(nn.Module):
    """What joins the tiles."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(WIDTH, WIDTH)
        self.layers = nn.Sequential(GlobalLayer(), GlobalLayer())

    def forward(self, x: Tensor) -> Tensor:  # [B, 768, h, w]
        tokens = self.embed(x.flatten(2).transpose(1, 2)) + position_code(x)
        return self.layers(tokens).transpose(1, 2).unflatten(2, x.shape[-2:])


class DecoderLevel(nn.Module):
    """Two Swin blocks, then twice the size at a quarter of the width."""

    def __init__(self, width: int, heads: int, side: int, drop_path: tuple[float, float]) -> None:
        super().__init__()
        shift = 0 if side <= WINDOW else WINDOW // 2
        self.blocks = nn.Sequential(
            SwinBlock(width, heads, WINDOW, shift=0, drop_path=drop_path[0]),
            SwinBlock(width, heads, WINDOW, shift=shift, drop_path=drop_path[1]),
        )
        self.up = nn.ConvTranspose2d(width, width // 4, 2, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.up(self.blocks(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))


class Decoder(nn.Module):
    """From joined features and the encoder's maps of a tile back to its pixels."""

    def __init__(self) -> None:
        super().__init__()
        rates = torch.linspace(0, DROP_PATH, 2 * len(DECODER), device="cpu").tolist()
        self.levels = nn.ModuleList(
            DecoderLevel(width, heads, 8 * 2**i, (rates[2 * i], rates[2 * i + 1]))
            for i, (width, heads) in enumerate(DECODER)
        )
        self.up = nn.ConvTranspose2d(48, 12, 2, stride=2)
        self.out = nn.Conv2d(12, 3, 1, bias=False)

    def forward(self, x: Tensor, features: list[Tensor]) -> Tensor:
        for level, feature in zip(self.levels, reversed(features), strict=True):
            x = level(torch.cat([x, feature], dim=1))
        return self.out(self.up(x))


class DehazeXl(Peer):
    """The published network with exact global attention."""

    def __init__(self) -> None:
        super().__init__(PeerConfig("dehazexl", divisor=TILE))
        self.encoder, self.bottleneck, self.decoder = SwinV2Tiny(), Bottleneck(), Decoder()

    def restore(self, frames: Tensor) -> Tensor:
        frame = frames[:, 0]
        batch, rows, columns = len(frame), frame.shape[-2] // TILE, frame.shape[-1] // TILE
        tiles = _split(frame, rows, columns, TILE)
        parts = [self.encoder(part) for part in tiles.split(TILES_AT_ONCE)]
        features = [torch.cat(maps) for maps in zip(*parts, strict=True)]
        side = features[-1].shape[-1]
        joined = _split(self.bottleneck(_join(features[-1], batch, rows, columns)), rows, columns, side)
        restored = [
            self.decoder(x, maps)
            for x, *maps in zip(joined.split(TILES_AT_ONCE), *(f.split(TILES_AT_ONCE) for f in features), strict=True)
        ]
        return frame + _join(torch.cat(restored), batch, rows, columns)


def position_code(like: Tensor) -> Tensor:  # [h w, 768]
    """Sine and cosine of the place: half of the channels for x, half for y."""
    height, width = like.shape[-2:]
    quarter = WIDTH // 4
    rates = 10000.0 ** (-torch.arange(quarter, device=like.device) / quarter)
    xs, ys = (torch.arange(size, device=like.device)[:, None] * rates for size in (width, height))
    x, y = (torch.cat([angle.sin(), angle.cos()], dim=1) for angle in (xs, ys))
    code = torch.cat([x.expand(height, -1, -1), y[:, None].expand(-1, width, -1)], dim=-1)
    return code.flatten(0, 1).to(like.dtype)


def _split(x: Tensor, rows: int, columns: int, side: int) -> Tensor:  # [B, C, H, W] -> [B rows columns, C, s, s]
    parts = x.unflatten(3, (columns, side)).unflatten(2, (rows, side))
    return parts.permute(0, 2, 4, 1, 3, 5).flatten(0, 2)


def _join(tiles: Tensor, batch: int, rows: int, columns: int) -> Tensor:  # the reverse of _split
    parts = tiles.unflatten(0, (batch, rows, columns)).permute(0, 3, 1, 4, 2, 5)
    return parts.flatten(4, 5).flatten(2, 3)

"""The Shunted Transformer (Ren et al., CVPR 2022) with the messenger tokens of ViWS-Net.

A sequence holds the pixels of a frame, then its tokens. A convolution treats a token as a constant image, so that it
multiplies it by the sum of its kernel. Frames meet only where tokens are exchanged between them.
"""

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.lab.peers.convolutions import conv
from libranet.lab.peers.mix_transformer import to_map, to_tokens
from libranet.network.layers import StochasticDepth

WIDTHS, HEADS, EXPANSIONS, REDUCTIONS = (64, 128, 256, 512), (2, 4, 8, 16), (8, 8, 4, 4), (8, 4, 2, 1)
TOKENS = 48
SHIFTS = (1, 0, -1, 2, 0, -2)  # by how many frames the six groups of tokens move after a block
DROP_PATH = 0.3
EPS = 1e-6


class ReducedSource(nn.Module):
    """Keys and values of one reduction."""

    def __init__(self, width: int, reduction: int) -> None:
        super().__init__()
        self.reduce, self.norm = nn.Conv2d(width, width, reduction, stride=reduction), nn.LayerNorm(width)
        self.key_value = nn.Linear(width, width)
        self.local = nn.Conv2d(width // 2, width // 2, 3, padding=1, groups=width // 2)

    def forward(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, Tensor]:  # [N, places, C / 2] each
        reduced, size = convolve(self.reduce, x, size)
        key, value = self.key_value(F.gelu(self.norm(reduced))).chunk(2, dim=-1)
        return key, value + local(self.local, value, size)


class ShuntedAttention(nn.Module):
    """Attention to reduced maps: half of the heads see one reduction, half another."""

    def __init__(self, width: int, heads: int, reduction: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.project = nn.Linear(width, width), nn.Linear(width, width)
        self.sources = nn.ModuleList(ReducedSource(width, r) for r in (reduction, reduction // 2))

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        queries = self.query(x).chunk(2, dim=-1)
        found = [
            attend(query, *source(x, size), heads=self.heads // 2)
            for query, source in zip(queries, self.sources, strict=True)
        ]
        return self.project(torch.cat(found, dim=-1))


class FullAttention(nn.Module):
    """Attention of the last stage, to all places."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.project = nn.Linear(width, width), nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.local = nn.Conv2d(width, width, 3, padding=1, groups=width)

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        key, value = self.key_value(x).chunk(2, dim=-1)
        return self.project(attend(self.query(x), key, value, heads=self.heads) + local(self.local, value, size))


class Block(nn.Module):
    """Attention, then two layers per place with a depth-wise convolution between them."""

    def __init__(self, width: int, heads: int, expansion: int, reduction: int, drop_path: float) -> None:
        super().__init__()
        hidden = expansion * width
        self.norm, self.second_norm = nn.LayerNorm(width, eps=EPS), nn.LayerNorm(width, eps=EPS)
        self.attention = ShuntedAttention(width, heads, reduction) if reduction > 1 else FullAttention(width, heads)
        self.expand, self.contract = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.depthwise = nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden)
        self.drop_path = StochasticDepth(drop_path)

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        x = x + self.drop_path(self.attention(self.norm(x), size))
        hidden = self.expand(self.second_norm(x))
        hidden = F.gelu(hidden + convolve(self.depthwise, hidden, size)[0])
        return x + self.drop_path(self.contract(hidden))


class Stem(nn.Module):
    """From frames to a quarter of their size. The tokens, like pixels, pass its first convolution and its norm."""

    def __init__(self, width: int, *, deep: bool) -> None:
        super().__init__()
        self.tokens = nn.Parameter(torch.zeros(TOKENS, 3))
        nn.init.trunc_normal_(self.tokens, std=0.02)
        self.enter = nn.Conv2d(3, width, 7, stride=2, padding=3)
        layers: list[nn.Module] = [nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        if deep:
            second = nn.Conv2d(width, width, 3, padding=1, bias=False)
            layers += [second, nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*layers, nn.Conv2d(width, width, 2, stride=2))
        self.norm = nn.LayerNorm(width)

    def forward(self, frames: Tensor) -> tuple[Tensor, tuple[int, int]]:  # [N, 3, H, W]
        x = self.body(self.enter(frames))
        tokens = token_conv(self.enter, self.tokens[None].to(x.dtype)).expand(len(x), -1, -1)
        return self.norm(torch.cat([to_tokens(x), tokens], dim=1)), (x.shape[-2], x.shape[-1])


class Embed(nn.Module):
    """Halves the size between two stages."""

    def __init__(self, entering: int, leaving: int) -> None:
        super().__init__()
        self.reduce, self.norm = conv(entering, leaving, stride=2), nn.LayerNorm(leaving)

    def forward(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, tuple[int, int]]:
        x, size = convolve(self.reduce, x, size)
        return self.norm(x), size


class ShuntedTransformer(nn.Module):
    """Features of frames at 1/4, 1/8, 1/16 and 1/32, and the tokens of every stage."""

    def __init__(self, depths: tuple[int, int, int, int], *, deep_stem: bool) -> None:
        super().__init__()
        rates = iter(torch.linspace(0, DROP_PATH, sum(depths), device="cpu").tolist())
        self.stem = Stem(WIDTHS[0], deep=deep_stem)
        self.embeds = nn.ModuleList(Embed(a, b) for a, b in itertools.pairwise(WIDTHS))
        self.stages = nn.ModuleList(
            nn.ModuleList(Block(width, heads, expansion, reduction, next(rates)) for _ in range(depth))
            for depth, width, heads, expansion, reduction in zip(
                depths, WIDTHS, HEADS, EXPANSIONS, REDUCTIONS, strict=True
            )
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width, eps=EPS) for width in WIDTHS)
        initialise(self)

    def forward(
        self,
        frames: Tensor,  # [B, T, 3, H, W]; H and W multiples of 32
    ) -> tuple[list[Tensor], list[Tensor]]:  # [B T, C, h, w] and [B T, 48, C] of four stages
        count = frames.shape[1]
        x, size = self.stem(frames.flatten(0, 1))
        maps, tokens = [], []
        for level, (stage, norm) in enumerate(zip(self.stages, self.norms, strict=True)):
            if level:
                x, size = self.embeds[level - 1](x, size)
            for index, block in enumerate(stage):  # type: ignore[arg-type, var-annotated]
                x = block(x, size)
                if index % 2 or index + 1 < len(stage):  # type: ignore[arg-type]
                    x = exchange(x, count, back=index % 2 == 1)
            x = norm(x)
            maps.append(to_map(x[:, :-TOKENS], size))
            tokens.append(x[:, -TOKENS:])
        return maps, tokens


def attend(query: Tensor, key: Tensor, value: Tensor, *, heads: int) -> Tensor:  # [N, places, C] each
    query, key, value = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (query, key, value))
    return F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)


def convolve(layer: nn.Conv2d, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, tuple[int, int]]:
    """Apply a convolution to the pixels of a sequence and to its tokens; return the new size of the map, too."""
    found = layer(to_map(x[:, :-TOKENS], size))
    joined = torch.cat([to_tokens(found), token_conv(layer, x[:, -TOKENS:])], dim=1)
    return joined, (found.shape[-2], found.shape[-1])


def token_conv(layer: nn.Conv2d, tokens: Tensor) -> Tensor:  # [N, 48, C] -> [N, 48, C']
    """Apply a convolution to tokens as if each were a constant image."""
    weight = layer.weight.sum(dim=(2, 3))[..., None].to(tokens.dtype)
    bias = layer.bias.to(tokens.dtype) if layer.bias is not None else None
    return F.conv1d(tokens.transpose(1, 2), weight, bias, groups=layer.groups).transpose(1, 2)


def local(layer: nn.Conv2d, value: Tensor, size: tuple[int, int]) -> Tensor:  # [N, places, C]
    """Convolve the pixels of a sequence; its tokens stay."""
    return torch.cat([to_tokens(layer(to_map(value[:, :-TOKENS], size))), value[:, -TOKENS:]], dim=1)


def exchange(x: Tensor, count: int, *, back: bool) -> Tensor:  # [B T, places, C]
    """Move groups of tokens to other frames of their clip, around its ends."""
    groups = x[:, -TOKENS:].unflatten(0, (-1, count)).chunk(len(SHIFTS), dim=2)
    moved = [group.roll(-shift if back else shift, dims=1) for group, shift in zip(groups, SHIFTS, strict=True)]
    return torch.cat([x[:, :-TOKENS], torch.cat(moved, dim=2).flatten(0, 1)], dim=1)


def initialise(network: nn.Module) -> None:
    """Draw the weights of layers and convolutions as the makers do."""
    for module in network.modules():
        if isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=0.02)
        elif isinstance(module, nn.Conv2d):
            fan_out = module.weight[0, 0].numel() * module.out_channels // module.groups
            nn.init.normal_(module.weight, std=(2 / fan_out) ** 0.5)
        else:
            continue
        if module.bias is not None:
            nn.init.zeros_(module.bias)

"""The Mix Transformer of SegFormer (Xie et al., NeurIPS 2021) as an encoder: four feature maps at 1/4 to 1/32."""

import torch.nn.functional as F
from torch import Tensor, nn

from libranet.network.layers import StochasticDepth

DEPTH = 2  # blocks of every stage, as in B1
HEADS, REDUCTIONS = (1, 2, 5, 8), (8, 4, 2, 1)
"""Attention heads of each stage, and by how much its keys and values are reduced in height and width."""
EXPANSION = 4
EPS = 1e-6


class Attention(nn.Module):
    """Attention of every token to a reduced map."""

    def __init__(self, width: int, heads: int, reduction: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key_value = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.project = nn.Linear(width, width)
        self.reduce = nn.Conv2d(width, width, reduction, stride=reduction) if reduction > 1 else None
        self.norm = nn.LayerNorm(width, eps=EPS) if reduction > 1 else None

    def forward(
        self,
        x: Tensor,  # [B, h w, C]
        size: tuple[int, int],
        asking: Tensor | None = None,  # [B, h w, C]: what the queries are made of, if not of x
    ) -> Tensor:
        context = x
        if self.reduce is not None and self.norm is not None:
            context = self.norm(to_tokens(self.reduce(to_map(x, size))))
        query = self.query(x if asking is None else asking).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        key, value = self.key_value(context).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(query, key, value)
        return self.project(found.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention, then two layers per token with a depth-wise convolution between them, which knows the positions."""

    def __init__(self, width: int, heads: int, reduction: int, *, drop_path: float = 0.0) -> None:
        super().__init__()
        hidden = EXPANSION * width
        self.norm, self.attention = nn.LayerNorm(width, eps=EPS), Attention(width, heads, reduction)
        self.second_norm = nn.LayerNorm(width, eps=EPS)
        self.expand, self.contract = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.depthwise = nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden)
        self.drop_path = StochasticDepth(drop_path)

    def forward(self, x: Tensor, size: tuple[int, int], asking: Tensor | None = None) -> Tensor:
        x = x + self.drop_path(self.attention(self.norm(x), size, asking))
        hidden = self.depthwise(to_map(self.expand(self.second_norm(x)), size))
        return x + self.drop_path(self.contract(F.gelu(to_tokens(hidden))))


class Stage(nn.Module):
    """A reduction by overlapping patches, blocks, and a norm."""

    def __init__(self, entering: int, width: int, *, patch: int, stride: int, heads: int, reduction: int) -> None:
        super().__init__()
        self.embed = nn.Conv2d(entering, width, patch, stride=stride, padding=patch // 2)
        self.embed_norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Block(width, heads, reduction) for _ in range(DEPTH))
        self.norm = nn.LayerNorm(width, eps=EPS)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        size = (x.shape[-2], x.shape[-1])
        tokens = self.embed_norm(to_tokens(x))
        for block in self.blocks:
            tokens = block(tokens, size)
        return to_map(self.norm(tokens), size)


class MixTransformer(nn.Module):
    """Features at 1/4, 1/8, 1/16 and 1/32 of the size."""

    def __init__(self, widths: tuple[int, int, int, int]) -> None:
        super().__init__()
        self.stages = nn.ModuleList(
            Stage(
                widths[level - 1] if level else 3,
                width,
                patch=3 if level else 7,
                stride=2 if level else 4,
                heads=HEADS[level],
                reduction=REDUCTIONS[level],
            )
            for level, width in enumerate(widths)
        )

    def forward(self, x: Tensor) -> list[Tensor]:  # [B, 3, H, W]; H and W multiples of 32
        found = []
        for stage in self.stages:
            x = stage(x)
            found.append(x)
        return found


def to_tokens(x: Tensor) -> Tensor:  # [B, C, h, w] -> [B, h w, C]
    return x.flatten(2).transpose(1, 2)


def to_map(x: Tensor, size: tuple[int, int]) -> Tensor:  # [B, h w, C] -> [B, C, h, w]
    return x.transpose(1, 2).unflatten(2, size)

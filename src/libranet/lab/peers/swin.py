"""Swin blocks (Liu et al., ICCV 2021) and the SwinV2-T encoder (CVPR 2022), on maps [B, H, W, C]."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.network.layers import StochasticDepth

DEPTHS, HEADS, WIDTH, PATCH = (2, 2, 6, 2), (3, 6, 12, 24), 96, 4
TILE, WINDOW_V2 = 256, 16
LARGEST_SCALE = math.log(100.0)


def over_windows(
    x: Tensor,  # [B, H, W, C]
    window: int,
    shift: int,
    mix: Callable[[Tensor, Tensor | None], Tensor],
) -> Tensor:  # [B, H, W, C]
    """Let `mix` work on windows [N, window^2, C], shifted or not. The map is padded with zeros to whole ones.

    Its second argument is 0 or -100, [windows of a map, window^2, window^2]: it keeps pixels apart that only the roll
    has made neighbours.
    """
    height, width = x.shape[1:3]
    x = F.pad(x, (0, 0, 0, -width % window, 0, -height % window))
    rows, columns = x.shape[1] // window, x.shape[2] // window
    mask = None
    if shift:
        x = x.roll((-shift, -shift), dims=(1, 2))
        down, across = (_bands(side, window, shift, x) for side in x.shape[1:3])
        regions = _split((3 * down[:, None] + across)[None, ..., None], window)[..., 0]
        mask = (regions[:, :, None] != regions[:, None, :]).to(x.dtype) * -100.0
    parts = mix(_split(x, window), mask).unflatten(1, (window, window)).unflatten(0, (-1, rows, columns))
    joined = parts.permute(0, 1, 3, 2, 4, 5).flatten(3, 4).flatten(1, 2)
    joined = joined.roll((shift, shift), dims=(1, 2)) if shift else joined
    return joined[:, :height, :width]


def _split(x: Tensor, window: int) -> Tensor:  # [B, H, W, C] -> [B windows, window^2, C]
    parts = x.unflatten(2, (-1, window)).unflatten(1, (-1, window))
    return parts.permute(0, 1, 3, 2, 4, 5).flatten(3, 4).flatten(0, 2)


def _bands(side: int, window: int, shift: int, like: Tensor) -> Tensor:  # [side]
    band = like.new_zeros(side)
    band[side - window : side - shift] = 1
    band[side - shift :] = 2
    return band


def mlp(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


class SwinBlock(nn.Module):
    """A classic block: norms first, a table of position biases."""

    index: Tensor

    def __init__(self, width: int, heads: int, window: int, *, shift: int, drop_path: float = 0.0) -> None:
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        nn.init.trunc_normal_(self.bias, std=0.02)
        self.mlp, self.drop_path = mlp(width), StochasticDepth(drop_path)
        self.register_buffer("index", relative_index(window), persistent=False)

    def forward(self, x: Tensor) -> Tensor:  # [B, H, W, C]
        x = x + self.drop_path(over_windows(self.first_norm(x), self.window, self.shift, self._attend))
        return x + self.drop_path(self.mlp(self.second_norm(x)))

    def _attend(self, windows: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = self.qkv(windows).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        bias = _masked(self.bias[self.index].permute(2, 0, 1)[None], mask, len(windows))
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype))
        return self.project(mixed.transpose(1, 2).flatten(2))


def _masked(bias: Tensor, mask: Tensor | None, count: int) -> Tensor:  # [1, heads, w^2, w^2] -> [N or 1, ...]
    return bias if mask is None else (bias + mask[:, None]).repeat(count // len(mask), 1, 1, 1)


class SwinV2Block(nn.Module):
    """A SwinV2 block: cosine attention, position biases from a small network, norms last."""

    index: Tensor
    table: Tensor

    def __init__(self, width: int, heads: int, side: int, *, shifted: bool) -> None:
        super().__init__()
        self.heads, self.window = heads, (window := min(WINDOW_V2, side))
        self.shift = window // 2 if shifted and window < side else 0
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.query_bias, self.value_bias = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(width))
        self.log_scale = nn.Parameter(torch.full((heads, 1, 1), math.log(10.0)))
        self.position = nn.Sequential(nn.Linear(2, 512), nn.ReLU(inplace=True), nn.Linear(512, heads, bias=False))
        self.project = nn.Linear(width, width)
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = mlp(width)
        self.register_buffer("index", relative_index(window), persistent=False)
        self.register_buffer("table", _log_table(window), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.first_norm(over_windows(x, self.window, self.shift, self._attend))
        return x + self.second_norm(self.mlp(x))

    def _attend(self, windows: Tensor, mask: Tensor | None) -> Tensor:
        no_bias = torch.zeros_like(self.query_bias)
        qkv = F.linear(windows, self.qkv.weight, torch.cat([self.query_bias, no_bias, self.value_bias]))
        q, k, v = qkv.unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = (F.normalize(t.float(), dim=-1) for t in (q, k))
        q = q * self.log_scale.clamp(max=LARGEST_SCALE).exp()
        bias = 16 * self.position(self.table).float()[self.index].permute(2, 0, 1).sigmoid()[None]
        bias, dtype = _masked(bias, mask, len(windows)), v.dtype
        mixed = F.scaled_dot_product_attention(q.to(dtype), k.to(dtype), v, attn_mask=bias.to(dtype), scale=1.0)
        return self.project(mixed.transpose(1, 2).flatten(2))


class PatchMerging(nn.Module):
    """Halves the size and doubles the width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.reduce, self.norm = nn.Linear(4 * width, 2 * width, bias=False), nn.LayerNorm(2 * width)

    def forward(self, x: Tensor) -> Tensor:
        corners = (x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2])
        return self.norm(self.reduce(torch.cat(corners, dim=-1)))


class PatchEmbed(nn.Module):
    """From pixels to patches of 4x4."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.norm = nn.Conv2d(3, WIDTH, PATCH, stride=PATCH), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.project(x).permute(0, 2, 3, 1))


class SwinV2Tiny(nn.Module):
    """Features of tiles of 256x256 at 1/4, 1/8, 1/16 and 1/32: 96, 192, 384 and 768 maps."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = PatchEmbed()
        self.stages = nn.ModuleList()
        for level, (depth, heads) in enumerate(zip(DEPTHS, HEADS, strict=True)):
            width, side = WIDTH * 2**level, TILE // PATCH // 2**level
            blocks: list[nn.Module] = [PatchMerging(width // 2)] if level else []
            blocks += [SwinV2Block(width, heads, side, shifted=index % 2 == 1) for index in range(depth)]
            self.stages.append(nn.Sequential(*blocks))

    def forward(self, x: Tensor) -> list[Tensor]:
        found = []
        x = self.embed(x)
        for stage in self.stages:
            x = stage(x)
            found.append(x.permute(0, 3, 1, 2).contiguous())
        return found


def relative_index(window: int) -> Tensor:  # [window^2, window^2]
    """Where the position bias of every two places in a window is in its table."""
    axis = torch.arange(window)
    places = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), dim=-1).flatten(0, 1)
    offsets = places[:, None] - places[None] + window - 1
    return offsets[..., 0] * (2 * window - 1) + offsets[..., 1]


def _log_table(window: int) -> Tensor:  # [(2 window - 1)^2, 2]
    """Offsets in units of the window, times eight, compressed by a logarithm that keeps the sign."""
    axis = torch.arange(1 - window, window).float() / (window - 1) * 8
    offsets = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), dim=-1).flatten(0, 1)
    return offsets.sign() * (1 + offsets.abs()).log2() / 3.0

"""Swin blocks (Liu et al., ICCV 2021) and the SwinV2-T encoder (CVPR 2022), on maps [B, H, W, C] of a fixed side."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

DEPTHS, HEADS, WIDTH, PATCH = (2, 2, 6, 2), (3, 6, 12, 24), 96, 4
TILE, WINDOW_V2 = 256, 16
CLASSIC_WINDOW = 8
LARGEST_SCALE = math.log(100.0)


class Windows:
    """How a map of a given side is cut into windows, shifted or not."""

    def __init__(self, side: int, window: int, shift: int) -> None:
        self.side, self.window, self.shift = side, window, shift

    def split(self, x: Tensor) -> Tensor:  # [B, H, W, C] -> [B windows, window^2, C]
        if self.shift:
            x = x.roll((-self.shift, -self.shift), dims=(1, 2))
        parts = x.unflatten(2, (-1, self.window)).unflatten(1, (-1, self.window))
        return parts.permute(0, 1, 3, 2, 4, 5).flatten(3, 4).flatten(0, 2)

    def join(self, windows: Tensor) -> Tensor:  # the reverse of split
        count, size = self.side // self.window, self.window
        parts = windows.unflatten(1, (size, size)).unflatten(0, (-1, count, count))
        x = parts.permute(0, 1, 3, 2, 4, 5).flatten(3, 4).flatten(1, 2)
        return x.roll((self.shift, self.shift), dims=(1, 2)) if self.shift else x

    def mask(self) -> Tensor:  # [windows, window^2, window^2], 0 or -100
        """Keeps pixels apart that only the roll has made neighbours."""
        bounds = torch.zeros(self.side, dtype=torch.long)
        bounds[self.side - self.window : self.side - self.shift] = 1
        bounds[self.side - self.shift :] = 2
        regions = (3 * bounds[:, None] + bounds)[None, ..., None]
        plain = Windows(self.side, self.window, 0).split(regions)[..., 0]
        return (plain[:, :, None] != plain[:, None, :]).float() * -100.0


class DropPath(nn.Module):
    """Stochastic depth: leaves out a residual branch of some samples while training."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.rate:
            return x
        kept = torch.rand(len(x), *(1,) * (x.dim() - 1), device=x.device) >= self.rate
        return x * kept / (1 - self.rate)


def mlp(width: int) -> nn.Sequential:
    """Make the feed-forward layer of a block."""
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


class SwinBlock(nn.Module):
    """A classic block: norms first, a table of position biases."""

    index: Tensor
    mask: Tensor | None

    def __init__(self, width: int, heads: int, side: int, *, shift: int, drop_path: float) -> None:
        super().__init__()
        self.heads, self.windows = heads, Windows(side, CLASSIC_WINDOW, shift)
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros((2 * CLASSIC_WINDOW - 1) ** 2, heads))
        nn.init.trunc_normal_(self.bias, std=0.02)
        self.mlp, self.drop_path = mlp(width), DropPath(drop_path)
        self.register_buffer("index", relative_index(CLASSIC_WINDOW), persistent=False)
        self.register_buffer("mask", self.windows.mask() if shift else None, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop_path(self._attend(self.first_norm(x)))
        return x + self.drop_path(self.mlp(self.second_norm(x)))

    def _attend(self, x: Tensor) -> Tensor:
        windows = self.windows.split(x)
        q, k, v = self.qkv(windows).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        bias = self.bias[self.index].permute(2, 0, 1)[None]
        if self.mask is not None:
            bias = (bias + self.mask[:, None]).repeat(len(x), 1, 1, 1)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype))
        return self.windows.join(self.project(mixed.transpose(1, 2).flatten(2)))


class SwinV2Block(nn.Module):
    """A SwinV2 block: cosine attention, position biases from a small network, norms last."""

    index: Tensor
    table: Tensor
    mask: Tensor | None

    def __init__(self, width: int, heads: int, side: int, *, shifted: bool) -> None:
        super().__init__()
        window = min(WINDOW_V2, side)
        shift = window // 2 if shifted and window < side else 0
        self.heads, self.windows = heads, Windows(side, window, shift)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.query_bias, self.value_bias = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(width))
        self.log_scale = nn.Parameter(torch.full((heads, 1, 1), math.log(10.0)))
        self.position = nn.Sequential(nn.Linear(2, 512), nn.ReLU(inplace=True), nn.Linear(512, heads, bias=False))
        self.project = nn.Linear(width, width)
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = mlp(width)
        self.register_buffer("index", relative_index(window), persistent=False)
        self.register_buffer("table", _log_table(window), persistent=False)
        self.register_buffer("mask", self.windows.mask() if shift else None, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.first_norm(self._attend(x))
        return x + self.second_norm(self.mlp(x))

    def _attend(self, x: Tensor) -> Tensor:
        windows = self.windows.split(x)
        no_bias = torch.zeros_like(self.query_bias)
        qkv = F.linear(windows, self.qkv.weight, torch.cat([self.query_bias, no_bias, self.value_bias]))
        q, k, v = qkv.unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = (F.normalize(t.float(), dim=-1) for t in (q, k))
        q = q * self.log_scale.clamp(max=LARGEST_SCALE).exp()
        bias = 16 * self.position(self.table).float()[self.index].permute(2, 0, 1).sigmoid()[None]
        if self.mask is not None:
            bias = (bias + self.mask[:, None]).repeat(len(x), 1, 1, 1)
        dtype = v.dtype
        mixed = F.scaled_dot_product_attention(q.to(dtype), k.to(dtype), v, attn_mask=bias.to(dtype), scale=1.0)
        return self.windows.join(self.project(mixed.transpose(1, 2).flatten(2)))


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

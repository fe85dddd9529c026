"""A small Swin Transformer (Liu et al., ICCV 2021) over frames of any size: three stages, features of each."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.lab.peers.swin import mlp, relative_index

PATCH, WIDTH, DEPTH, HEADS, WINDOW = 2, 96, 2, (3, 6, 12), 7


class Block(nn.Module):
    """Attention inside windows, then a feed-forward layer. Maps are padded with zeros to whole windows."""

    index: Tensor

    def __init__(self, width: int, heads: int, *, shift: int) -> None:
        super().__init__()
        self.heads, self.shift = heads, shift
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros((2 * WINDOW - 1) ** 2, heads))
        nn.init.trunc_normal_(self.bias, std=0.02)
        self.mlp = mlp(width)
        self.register_buffer("index", relative_index(WINDOW), persistent=False)

    def forward(self, x: Tensor) -> Tensor:  # [B, H, W, C]
        x = x + self._attend(self.first_norm(x))
        return x + self.mlp(self.second_norm(x))

    def _attend(self, x: Tensor) -> Tensor:
        height, width = x.shape[1:3]
        padded = F.pad(x, (0, 0, 0, -width % WINDOW, 0, -height % WINDOW))
        rows, columns = padded.shape[1] // WINDOW, padded.shape[2] // WINDOW
        windows = _split(padded.roll((-self.shift, -self.shift), dims=(1, 2)))
        q, k, v = self.qkv(windows).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        bias = self.bias[self.index].permute(2, 0, 1)[None]
        if self.shift:
            bias = (bias + self._mask(padded)[:, None]).repeat(len(x), 1, 1, 1)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype))
        parts = self.project(mixed.transpose(1, 2).flatten(2)).unflatten(1, (WINDOW, WINDOW))
        joined = parts.unflatten(0, (-1, rows, columns)).permute(0, 1, 3, 2, 4, 5).flatten(3, 4).flatten(1, 2)
        return joined.roll((self.shift, self.shift), dims=(1, 2))[:, :height, :width]

    def _mask(self, padded: Tensor) -> Tensor:  # [windows, window^2, window^2], 0 or -100
        """Keeps pixels apart that only the roll has made neighbours."""
        bands = []
        for side in padded.shape[1:3]:
            band = torch.zeros(side, dtype=padded.dtype, device=padded.device)
            band[side - WINDOW : side - self.shift] = 1
            band[side - self.shift :] = 2
            bands.append(band)
        regions = _split((3 * bands[0][:, None] + bands[1])[None, ..., None])[..., 0]
        return (regions[:, :, None] != regions[:, None, :]).to(padded.dtype) * -100.0


class Merge(nn.Module):
    """Halves the size and doubles the width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.reduce = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        corners = (x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2])
        return self.reduce(self.norm(torch.cat(corners, dim=-1)))


class SwinPyramid(nn.Module):
    """Features at 1/2, 1/4 and 1/8: 96, 192 and 384 maps. Sides must be multiples of 8."""

    def __init__(self) -> None:
        super().__init__()
        widths = [WIDTH * 2**level for level in range(len(HEADS))]
        self.embed, self.embed_norm = nn.Conv2d(3, WIDTH, PATCH, stride=PATCH), nn.LayerNorm(WIDTH)
        self.stages = nn.ModuleList(
            nn.Sequential(*(Block(width, heads, shift=WINDOW // 2 * (index % 2)) for index in range(DEPTH)))
            for width, heads in zip(widths, HEADS, strict=True)
        )
        self.merges = nn.ModuleList(Merge(width) for width in widths[:-1])
        self.norms = nn.ModuleList(nn.LayerNorm(width) for width in widths)

    def forward(self, frame: Tensor) -> list[Tensor]:
        found = []
        x = self.embed_norm(self.embed(frame).permute(0, 2, 3, 1))
        for level, (stage, norm) in enumerate(zip(self.stages, self.norms, strict=True)):
            if level:
                x = self.merges[level - 1](x)
            x = stage(x)
            found.append(norm(x).permute(0, 3, 1, 2))
        return found


def _split(x: Tensor) -> Tensor:  # [B, H, W, C] -> [B windows, window^2, C]
    parts = x.unflatten(2, (-1, WINDOW)).unflatten(1, (-1, WINDOW))
    return parts.permute(0, 1, 3, 2, 4, 5).flatten(3, 4).flatten(0, 2)

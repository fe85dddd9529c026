"""The network's parts: the encoder, the two affine fields that predict bilateral grids, and the refiner."""

from collections.abc import Callable
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.kernels.attention.reference import attend
from libranet.kernels.conv3x3.reference import GROUPS

COEFFICIENTS = 12  # numbers per grid cell: a 3x3 matrix in row-major order, then a translation


def conv3x3(channels_in: int, channels_out: int, *, stride: int = 1) -> nn.Conv2d:
    """A 3x3 convolution that a GroupNorm follows, so it carries no bias."""
    return nn.Conv2d(channels_in, channels_out, 3, stride=stride, padding=1, bias=False)


def conv_of(layer: nn.Module) -> nn.Conv2d:
    assert isinstance(layer, nn.Conv2d)
    return layer


class StochasticDepth(nn.Module):
    """Drop a residual branch for whole samples while training, and scale the rest up to keep the mean."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, branch: Tensor) -> Tensor:
        if not self.training or self.rate == 0.0:
            return branch
        keep = torch.rand(len(branch), *(1,) * (branch.dim() - 1), device=branch.device) >= self.rate
        return branch * (keep / (1.0 - self.rate)).to(branch.dtype)


class EncoderBlock(nn.Module):
    """x + GN(conv(GELU(GN(conv(x))))), the branch subject to stochastic depth."""

    def __init__(self, width: int, drop_path: float) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            conv3x3(width, width),
            nn.GroupNorm(GROUPS, width),
            nn.GELU(),
            conv3x3(width, width),
            nn.GroupNorm(GROUPS, width),
        )
        self.drop_path = StochasticDepth(drop_path)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.drop_path(self.branch(x))


class Encoder(nn.Module):
    """Four stride-2 stages: a 256x256 frame becomes 192 channels at 16x16."""

    def __init__(self, widths: tuple[int, ...], blocks: int, drop_path: float) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        total, depth = blocks * len(widths), 0
        for channels_in, width in zip((3, *widths[:-1]), widths, strict=True):
            layers += [conv3x3(channels_in, width, stride=2), nn.GroupNorm(GROUPS, width), nn.GELU()]
            for _ in range(blocks):
                # The deeper the block, the more often it is dropped.
                layers.append(EncoderBlock(width, drop_path * depth / max(total - 1, 1)))
                depth += 1
        self.width = widths[-1]
        self.layers = nn.Sequential(*layers)

    def forward(self, small: Tensor) -> Tensor:  # [N, 3, 256, 256] -> [N, 192, 16, 16]
        return self.layers(small)


class GridHead(nn.Module):
    """Two convolutions with GELU and Dropout2d between them. The last starts at zero, so the first transform is I.

    The last one computes in float32 whatever the precision of the rest: in dense haze A is large and A I + b a small
    difference of large numbers.
    """

    def __init__(self, width: int, hidden: int, channels_out: int, dropout: float) -> None:
        super().__init__()
        self.expand = nn.Conv2d(width, hidden, 3, padding=1)
        self.dropout = nn.Dropout2d(dropout)
        self.project = nn.Conv2d(hidden, channels_out, 3, padding=1)
        nn.init.zeros_(self.project.weight)
        nn.init.zeros_(self.project.bias)  # type: ignore[arg-type]

    def forward(self, features: Tensor) -> Tensor:  # [N, width, 16, 16] -> [N, channels_out, 16, 16] float32
        hidden = self.dropout(self.activate(features))
        last = self.project
        with torch.autocast("cuda" if hidden.is_cuda else "cpu", enabled=False):
            bias = None if last.bias is None else last.bias.float()
            return F.conv2d(hidden.float(), last.weight.float(), bias, padding=last.padding)

    def activate(self, features: Tensor) -> Tensor:  # [N, width, 16, 16] -> [N, hidden, 16, 16]
        """The hidden units."""
        return F.gelu(self.expand(features))


class ChromaticField(nn.Module):
    """Predicts, from one frame, the two spatial-colour grids that the red and the green channel guide."""

    def __init__(self, encoder: Encoder, *, hidden: int, bins: int, dropout: float) -> None:
        super().__init__()
        self.bins = bins
        self.encoder = encoder
        self.head = GridHead(encoder.width, hidden, 2 * COEFFICIENTS * bins, dropout)

    def forward(self, small: Tensor) -> Tensor:  # [B, 3, 256, 256] -> [B, 2, 12, bins, 16, 16]
        grids = self.head(self.encoder(small))
        return grids.unflatten(1, (2, COEFFICIENTS, self.bins))


class TemporalAttention(nn.Module):
    """A pre-norm transformer block along time, at each position of the 16x16 map on its own."""

    def __init__(self, width: int, heads: int, ffn_ratio: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.ffn = nn.Sequential(nn.Linear(width, ffn_ratio * width), nn.GELU(), nn.Linear(ffn_ratio * width, width))

    def forward(
        self,
        tokens: Tensor,  # [N, T, C]
        rows: slice,  # which of the T outputs are wanted
    ) -> Tensor:  # [N, len(rows), C]
        normed, kept = self.norm1(tokens), tokens[:, rows]
        mixed = attend(self.query(normed[:, rows]), self.key_value(normed), self.heads)
        kept = kept + self.out(mixed)
        return kept + self.ffn(self.norm2(kept))


class TemporalField(nn.Module):
    """Predicts one plane of coefficients per frame of the window, from all frames.

    `encode` takes frames one by one, so a stream calls it once per frame and keeps the features; `mix` joins the
    features of a window.
    """

    def __init__(
        self, encoder: Encoder, *, hidden: int, window: int, heads: int, ffn_ratio: int, dropout: float
    ) -> None:
        super().__init__()
        self.window = window
        self.encoder = encoder
        self.position = nn.Parameter(torch.zeros(1, window, encoder.width, 1, 1))
        nn.init.trunc_normal_(self.position, std=0.02)
        self.attention = TemporalAttention(encoder.width, heads, ffn_ratio)
        self.head = GridHead(encoder.width, hidden, COEFFICIENTS, dropout)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # `to(memory_format=torch.channels_last)` asks tensors of five axes for it, too, and only four can have it.
        def convert(tensor: Tensor) -> Tensor:
            return fn(tensor[0])[None] if tensor.dim() == 5 else fn(tensor)

        return super()._apply(convert, recurse)

    def encode(self, small: Tensor) -> Tensor:  # [N, 3, 256, 256] -> [N, C, 16, 16]
        return self.encoder(small)

    def mix(
        self,
        features: Tensor,  # [B, T, C, 16, 16]
        *,
        centre_only: bool = False,
    ) -> Tensor:  # [B, 12, T, 16, 16], or [B, 12, 1, 16, 16]
        """Attend along time and predict the grid; with `centre_only`, only the plane that is sliced."""
        b, t, _, gh, gw = features.shape
        middle = self.window // 2
        rows = slice(middle, middle + 1) if centre_only else slice(0, t)
        tokens = (features + self.position).permute(0, 3, 4, 1, 2).flatten(0, 2)  # [B*gh*gw, T, C]
        mixed = self.attention(tokens, rows)
        planes = mixed.unflatten(0, (b, gh, gw)).permute(0, 3, 4, 1, 2).flatten(0, 1)  # [B*t, C, gh, gw]
        return self.head(planes.contiguous()).unflatten(0, (b, -1)).transpose(1, 2)


class RefinerBlock(nn.Module):
    """x + mix(GELU(GN(conv3x3(x)))).

    With a 1x1 `mix`, normalising, activating, mixing and adding happen pixel by pixel, which a kernel can do in one
    pass over memory.
    """

    def __init__(self, width: int, mix_kernel: int) -> None:
        super().__init__()
        self.conv = conv3x3(width, width)
        self.norm = nn.GroupNorm(GROUPS, width)
        self.mix = nn.Conv2d(width, width, mix_kernel, padding=mix_kernel // 2)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mix(F.gelu(self.norm(self.conv(x))))


class RefinerStream(nn.Sequential):
    """One input of the refiner: 3x3 convolution, GroupNorm, GELU, residual blocks."""

    def __init__(self, channels_in: int, width: int, blocks: int, mix_kernel: int) -> None:
        super().__init__(
            conv3x3(channels_in, width),
            nn.GroupNorm(GROUPS, width),
            nn.GELU(),
            *(RefinerBlock(width, mix_kernel) for _ in range(blocks)),
        )


class Refiner(nn.Module):
    """Two streams at 1/scale of the frame's size, fused into a residual at full size."""

    def __init__(self, *, scale: int, width: int, stream_blocks: int, fusion_blocks: int, mix_kernel: int) -> None:
        super().__init__()
        detail_channels = 3 * scale * scale
        self.scale = scale
        self.detail = RefinerStream(detail_channels, width, stream_blocks, mix_kernel)
        self.structure = RefinerStream(3, width, stream_blocks, mix_kernel)
        self.join = nn.Conv2d(2 * width, width, 3, padding=1)
        self.fusion = nn.Sequential(*(RefinerBlock(width, mix_kernel) for _ in range(fusion_blocks)))
        self.project = nn.Conv2d(width, detail_channels, 3, padding=1)
        nn.init.zeros_(self.project.weight)
        nn.init.zeros_(self.project.bias)  # type: ignore[arg-type]

    def forward(
        self,
        frame: Tensor,  # [B, 3, H, W], the hazy frame
        restored: Tensor,  # [B, 3, H/scale, W/scale], the colour-corrected small frame
    ) -> Tensor:  # [B, 3, H, W], to be added to the frame
        cells = F.pixel_unshuffle(frame, self.scale)  # [B, 3 * scale^2, H/scale, W/scale]
        streams = torch.cat([self.detail(cells), self.structure(restored)], dim=1)
        return F.pixel_shuffle(self.project(self.fusion(self.join(streams))), self.scale)

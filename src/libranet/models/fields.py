"""The two affine fields: encoders and heads that predict the bilateral grids at low resolution."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.models.encoder import Encoder

COEFFICIENTS = 12
"""Numbers per grid cell: a 3x3 matrix in row-major order, then a translation."""


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

    def forward(
        self,
        features: Tensor,  # [N, width, 16, 16]
    ) -> Tensor:  # [N, channels_out, 16, 16] float32
        hidden = self.dropout(F.gelu(self.expand(features)))
        last = self.project
        with torch.autocast("cuda" if hidden.is_cuda else "cpu", enabled=False):
            bias = None if last.bias is None else last.bias.float()
            return F.conv2d(hidden.float(), last.weight.float(), bias, padding=last.padding)


class ChromaticField(nn.Module):
    """Predicts, from one frame, the two spatial-colour grids that the red and the green channel guide."""

    def __init__(
        self, *, widths: tuple[int, ...], blocks: int, hidden: int, bins: int, drop_path: float, dropout: float
    ) -> None:
        super().__init__()
        self.bins = bins
        self.encoder = Encoder(widths, blocks, drop_path)
        self.head = GridHead(widths[-1], hidden, 2 * COEFFICIENTS * bins, dropout)

    def forward(
        self,
        small: Tensor,  # [B, 3, 256, 256]
    ) -> Tensor:  # [B, 2, 12, bins, 16, 16]
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
        query = self._split(self.query(normed[:, rows]))
        key, value = (self._split(part) for part in self.key_value(normed).chunk(2, dim=-1))
        mixed = F.scaled_dot_product_attention(query, key, value)
        kept = kept + self.out(mixed.transpose(1, 2).flatten(2))
        return kept + self.ffn(self.norm2(kept))

    def _split(self, x: Tensor) -> Tensor:  # [N, t, C] -> [N, heads, t, C / heads]
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class TemporalField(nn.Module):
    """Predicts one coefficient plane per frame of the window, each knowing the others.

    `encode` looks at frames one by one, so a stream calls it once per frame and keeps the features;
    `mix` joins the features of a window.
    """

    def __init__(
        self,
        *,
        widths: tuple[int, ...],
        blocks: int,
        hidden: int,
        window: int,
        heads: int,
        ffn_ratio: int,
        drop_path: float,
        dropout: float,
    ) -> None:
        super().__init__()
        self.window = window
        self.encoder = Encoder(widths, blocks, drop_path)
        self.position = nn.Parameter(torch.zeros(1, window, widths[-1], 1, 1))
        nn.init.trunc_normal_(self.position, std=0.02)
        self.attention = TemporalAttention(widths[-1], heads, ffn_ratio)
        self.head = GridHead(widths[-1], hidden, COEFFICIENTS, dropout)

    def encode(
        self,
        small: Tensor,  # [N, 3, 256, 256]
    ) -> Tensor:  # [N, C, 16, 16]
        return self.encoder(small)

    def mix(
        self,
        features: Tensor,  # [B, T, C, 16, 16]
        *,
        centre_only: bool = False,
    ) -> Tensor:  # [B, 12, T, 16, 16], or [B, 12, 1, 16, 16]
        """Attend along time and predict the grid; with `centre_only`, just the plane that is ever sliced."""
        b, t, _, gh, gw = features.shape
        middle = self.window // 2
        rows = slice(middle, middle + 1) if centre_only else slice(0, t)
        tokens = (features + self.position).permute(0, 3, 4, 1, 2).flatten(0, 2)  # [B*gh*gw, T, C]
        mixed = self.attention(tokens, rows)
        planes = mixed.unflatten(0, (b, gh, gw)).permute(0, 3, 4, 1, 2).flatten(0, 1)  # [B*t, C, gh, gw]
        return self.head(planes.contiguous()).unflatten(0, (b, -1)).transpose(1, 2)

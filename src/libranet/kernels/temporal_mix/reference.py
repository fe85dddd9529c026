"""The transformer block along time, at each position of the grid on its own: weights and reference implementation.

Heads are padded to a power of two (24 channels to 32) in the packed weights, so that a head is an axis of a block.
LayerNorm's own factor and summand are folded into the matrices that follow it.
"""

from dataclasses import dataclass, fields, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class MixWeights:
    """A transformer block's weights as the kernels read them. C channels; N = heads * padded channels of a head."""

    position: Tensor  # [T, C] fp32
    keys: Tensor  # [3 N, C] fp16: keys, values, queries (scaled)
    keys_bias: Tensor  # [3 N] fp32
    out: Tensor  # [N, C] fp16
    out_bias: Tensor  # [C] fp32
    expand: Tensor  # [C, hidden] fp16
    expand_bias: Tensor  # [hidden] fp32
    shrink: Tensor  # [hidden, C] fp16
    shrink_bias: Tensor  # [C] fp32
    heads: int
    eps: float

    def to(self, device: torch.device) -> "MixWeights":
        moved = {f.name: getattr(self, f.name).to(device) for f in fields(self) if f.name not in ("heads", "eps")}
        return replace(self, **moved)


def pack_mix(
    position: Tensor,  # [1, T, C, 1, 1]
    norm1: nn.LayerNorm,
    query: nn.Linear,
    key_value: nn.Linear,
    out: nn.Linear,
    norm2: nn.LayerNorm,
    expand: nn.Linear,
    shrink: nn.Linear,
    heads: int,
) -> MixWeights:
    """Pad heads, scale queries, and fold both LayerNorms into the matrices after them."""
    channels = query.weight.shape[1]
    per = channels // heads
    width = max(1 << (per - 1).bit_length(), 8)

    def widen(rows: Tensor) -> Tensor:  # [C, ...] -> [N, ...]
        padded = rows.new_zeros(heads, width, *rows.shape[1:])
        padded[:, :per] = rows.unflatten(0, (heads, per))
        return padded.flatten(0, 1)

    def folded(linear: nn.Linear, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
        weight = linear.weight.detach().float()
        return weight * norm.weight.detach().float(), linear.bias.detach().float() + weight @ norm.bias.detach().float()

    (key, value), (key_bias, value_bias) = (part.chunk(2) for part in folded(key_value, norm1))
    asked, asked_bias = (part * per**-0.5 for part in folded(query, norm1))
    grown, grown_bias = folded(expand, norm2)
    return MixWeights(
        position.detach().float().flatten(0, 1).flatten(1).contiguous(),
        torch.cat([widen(key), widen(value), widen(asked)]).half(),
        torch.cat([widen(key_bias), widen(value_bias), widen(asked_bias)]),
        widen(out.weight.detach().float().T).half().contiguous(),
        out.bias.detach().float(),
        grown.T.half().contiguous(),
        grown_bias,
        shrink.weight.detach().T.half().contiguous(),
        shrink.bias.detach().float(),
        heads,
        norm1.eps,
    )


def mix_out(
    features: Tensor,  # [ring, gh, gw, C] fp16
    windows: Tensor,  # [B, T] int64, slots of the ring
    weights: MixWeights,
    out: Tensor,  # [B, gh, gw, C] fp16, written
) -> None:
    """Attend along time for the windows' centre frames: attention, skip, feed-forward, skip."""
    w, centre = weights, windows.shape[1] // 2
    tokens = features.float()[windows].flatten(2, 3).transpose(1, 2) + w.position  # [B, positions, T, C]

    def norm(x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], eps=w.eps)

    def split(x: Tensor) -> Tensor:  # [B, positions, T, N] -> [B, positions, heads, T, N / heads]
        return x.unflatten(-1, (w.heads, -1)).transpose(2, 3)

    projected = norm(tokens) @ w.keys.float().T + w.keys_bias
    key, value, query = (split(part) for part in projected.chunk(3, dim=-1))
    mixed = F.scaled_dot_product_attention(query[..., centre : centre + 1, :], key, value, scale=1.0)
    kept = tokens[:, :, centre] + mixed.flatten(2) @ w.out.float() + w.out_bias
    hidden = F.gelu(norm(kept) @ w.expand.float() + w.expand_bias)
    out.copy_((kept + hidden @ w.shrink.float() + w.shrink_bias).view(out.shape))

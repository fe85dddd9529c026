"""The refiner's passes between convolutions, in plain torch: GroupNorm from sums, GELU, 1x1 mix, skip connection."""

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.kernels.conv3x3.reference import write_group_sums


def fold_sums_out(
    sums: Tensor,  # [B, parts, 2, G]: sums and sums of squares
    weight: Tensor,  # [C]
    bias: Tensor,  # [C]
    fold: Tensor,  # [B, 2, C] fp32, written: factor and summand per channel
    *,
    count: int,
    eps: float = 1e-5,
) -> None:
    """Write GroupNorm as y = factor * x + summand, from the sums that the producer of x left.

    Args:
        count: Values per group: pixels times channels of a group.
    """
    total = sums.double().sum(1) / count  # [B, 2, G]
    mean, variance = total[:, 0], (total[:, 1] - total[:, 0] ** 2).clamp_min(0.0)
    rstd = (variance + eps).rsqrt()
    repeat = weight.shape[0] // sums.shape[-1]
    factor = rstd.repeat_interleave(repeat, 1) * weight.double()
    summand = bias.double() - mean.repeat_interleave(repeat, 1) * factor
    fold.copy_(torch.stack([factor, summand], dim=1))


def normalise_mix_out(
    raw: Tensor,  # [B, h, w, C] fp16
    fold: Tensor,  # [B, 2, C] fp32
    out: Tensor,  # [B, h, w, C] fp16, written; may be a channel slice of a wider map, or `skip` itself
    *,
    skip: Tensor | None = None,  # [B, h, w, C] fp16
    mix: Tensor | None = None,  # [C, C] fp16, a 1x1 convolution
    mix_bias: Tensor | None = None,  # [C] fp32
) -> None:
    """GELU(factor * raw + summand); with `mix`, which needs `skip` and `mix_bias`: skip + mix(that) + mix_bias."""
    y = _activate(raw, fold)
    if mix is not None and mix_bias is not None and skip is not None:
        y = skip.double() + y @ mix.double().T + mix_bias.double()
    out.copy_(y)


def pack_structure_weight(weight: Tensor) -> Tensor:  # [C, 3, 3, 3] -> [C, 32] fp16
    """Lay out a convolution of three channels by (row, column, colour), padded with zeros."""
    return F.pad(weight.detach().permute(0, 2, 3, 1).flatten(1), (0, 5)).half().contiguous()


def structure_sums_out(
    small: Tensor,  # [B, 3, h, w] fp32
    weight: Tensor,  # [C, 32] fp16, from `pack_structure_weight`
    sums: Tensor,  # [B, parts, 2, 8] fp32, written
) -> None:
    """Group sums of the structure stream's first convolution."""
    write_group_sums(_structure(small, weight), sums)


def structure_apply_out(
    small: Tensor,  # [B, 3, h, w] fp32
    weight: Tensor,  # [C, 32] fp16, from `pack_structure_weight`
    fold: Tensor,  # [B, 2, C] fp32
    out: Tensor,  # [B, h, w, C] fp16, written
) -> None:
    """The structure stream up to its first GELU."""
    out.copy_(_activate(_structure(small, weight), fold))


def _structure(small: Tensor, weight: Tensor) -> Tensor:  # [B, h, w, C]
    """The structure stream's first convolution. It reads its input in half precision."""
    taps = weight[:, :27].double().unflatten(1, (3, 3, 3)).permute(0, 3, 1, 2)
    return F.conv2d(small.half().double(), taps, padding=1).permute(0, 2, 3, 1)


def _activate(raw: Tensor, fold: Tensor) -> Tensor:  # [B, h, w, C]
    factor, summand = (part[:, None, None] for part in fold.double().unbind(1))
    return F.gelu(raw.double() * factor + summand)

"""The layers of two encoders at once, in plain torch: convolutions, and GroupNorm with what follows it.

Both encoders have the same layers and their own weights; maps are [2, B, side, side, C], channels last.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.kernels.conv3x3.reference import write_group_sums


def pack_stem(
    weights: Tensor,  # [2, Cout, 3, 3, 3]
) -> Tensor:  # [64, 2 * PAD] fp16; PAD is Cout rounded up to a power of two
    """Lay out the first convolutions' weights as (row, four pixels, four channels), (encoder, channel)."""
    cout = weights.shape[1]
    pad = max(1 << (cout - 1).bit_length(), 8)
    packed = torch.zeros(2, pad, 4, 4, 4, device=weights.device)  # [encoder, channel out, row, pixel, channel in]
    packed[:, :cout, :3, :3, :3] = weights.detach().permute(0, 1, 3, 4, 2)
    return packed.flatten(0, 1).flatten(1).T.half().contiguous()


def pack_weights(weights: Tensor) -> Tensor:  # [E, Cout, Cin, 3, 3] -> [E * 9, Cout, Cin] fp16
    """Order the encoders' weights by tap."""
    return weights.detach().permute(0, 3, 4, 1, 2).flatten(0, 2).half().contiguous()


def pack_pairs(weights: Tensor) -> Tensor:  # [E, Cout, Cin, 3, 3] -> [E * 3, 2 Cout, 4 Cin] fp16
    """Weights for two output pixels side by side from the four input pixels of a row around them.

    A third of them are zero, but four pixels of 24 channels are 96 contiguous values, which is what tensor cores and
    fetches like, where 24 is not; each pixel is fetched twice instead of three times.
    """
    encoders, cout, cin = weights.shape[:3]
    packed = torch.zeros(encoders, 3, 2, cout, 4, cin, device=weights.device)
    by_tap = weights.detach().permute(0, 3, 4, 1, 2)  # [encoders, row, column, Cout, Cin]
    for right in range(2):
        packed[:, :, right, :, right : right + 3] = by_tap.transpose(2, 3)
    return packed.flatten(0, 1).flatten(1, 2).flatten(2).half().contiguous()


def make_maps(
    encoders: int, batch: int, side: int, channels: int, device: torch.device | str
) -> Tensor:  # [E, B, side, side, C] fp16
    """Maps of zeros whose rows lie one pixel apart, with one pixel before the first: what `pairs` reads over the edges.

    Nothing may write to those gaps.
    """
    gapped = (encoders, batch, side, side + 1, channels)
    values = torch.zeros(torch.Size(gapped).numel() + channels, dtype=torch.float16, device=device)
    return values[channels:].view(gapped)[:, :, :, :side]


def stem_out(
    x: Tensor,  # [B, 2 side, 2 side, 4] fp16; the fourth channel is not read
    weight: Tensor,  # [64, 2 * PAD] fp16, from `pack_stem`
    out: Tensor,  # [2, B, side, side, C] fp16, written
    sums: Tensor,  # [2, B, parts, 2, 8] fp32, written
) -> None:
    """Convolve with stride 2 by both encoders' weights."""
    packed = weight.T.unflatten(0, (2, -1)).unflatten(2, (4, 4, 4))  # [encoder, channel out, row, pixel, channel in]
    taps = packed[:, : out.shape[-1], :3, :3, :3].permute(0, 1, 4, 2, 3)
    y = _convolve(x[None, ..., :3].expand(2, -1, -1, -1, -1), taps, 2)
    out.copy_(y)
    write_group_sums(y, sums)


def conv_out(
    x: Tensor,  # [E, B, stride * side, stride * side, Cin] fp16; for weights of `pack_pairs` from `make_maps`
    weight: Tensor,  # [E * 9, Cout, Cin] fp16, from `pack_weights`; or [E * 3, 2 Cout, 4 Cin], from `pack_pairs`
    out: Tensor,  # [E, B, side, side, Cout] fp16, written; with `planes` [E, B, Cout, side, side] fp32
    *,
    stride: int = 1,
    bias: Tensor | None = None,  # [Cout] fp32
    sums: Tensor | None = None,  # [E, B, parts, 2, 8] fp32, written
    activate: bool = False,
    planes: bool = False,
) -> None:
    """Convolve each encoder's maps by its own weights, padding 1.

    Args:
        bias: The same for all encoders.
        sums: Group sums of the output, for `normalise_out`.
        activate: GELU after the bias.
        planes: Write channels first.
    """
    y = _convolve(x, _unpack(weight, len(x)), stride)
    if bias is not None:
        y = y + bias.double()
    if activate:
        y = F.gelu(y)
    if sums is not None:
        write_group_sums(y, sums)
    out.copy_(y.permute(0, 1, 4, 2, 3) if planes else y)


def normalise_out(
    raw: Tensor,  # [E, B, side, side, C] fp16
    sums: Tensor,  # [E, B, parts, 2, 8] fp32
    weight: Tensor,  # [E, C] fp32
    bias: Tensor,  # [E, C] fp32
    out: Tensor,  # [E, B, side, side, C] fp16, written; may be `skip`
    *,
    eps: float = 1e-5,
    skip: Tensor | None = None,  # [E, B, side, side, C] fp16
) -> None:
    """GELU(GroupNorm(raw)), or GroupNorm(raw) + skip. `sums` are the group sums of `raw`."""
    side, channels, groups = raw.shape[3], raw.shape[4], sums.shape[-1]
    mean, square = (sums.double().sum(2) / (side * side * channels // groups)).unbind(2)  # [E, B, G]
    rstd = ((square - mean**2).clamp_min(0.0) + eps).rsqrt()
    mean, rstd = (v.repeat_interleave(channels // groups, -1)[:, :, None, None] for v in (mean, rstd))
    y = (raw.double() - mean) * rstd * weight.double()[:, None, None, None] + bias.double()[:, None, None, None]
    out.copy_(F.gelu(y) if skip is None else y + skip.double())


def _convolve(x: Tensor, weights: Tensor, stride: int) -> Tensor:  # [E, B, side, side, Cout]
    """Each encoder's channels-last maps by its own weights [E, Cout, Cin, 3, 3]."""
    both = zip(x.double(), weights.double(), strict=True)
    maps = [F.conv2d(m.permute(0, 3, 1, 2), w, stride=stride, padding=1).permute(0, 2, 3, 1) for m, w in both]
    return torch.stack(maps)


def _unpack(weight: Tensor, encoders: int) -> Tensor:  # [E, Cout, Cin, 3, 3]
    """Weights as `pack_weights` or `pack_pairs` found them."""
    if len(weight) == 9 * encoders:
        return weight.unflatten(0, (encoders, 3, 3)).permute(0, 3, 4, 1, 2)
    pairs = weight.unflatten(2, (4, -1)).unflatten(1, (2, -1)).unflatten(0, (encoders, 3))
    return pairs[:, :, 0, :, :3].permute(0, 2, 4, 1, 3)  # the left pixel's, from [encoder, row, Cout, column, Cin]

"""3x3 convolution over channels-last maps, with GroupNorm's sums of its output: the reference implementation."""

import torch.nn.functional as F
from torch import Tensor

GROUPS = 8  # groups of every GroupNorm in the network


def pack_weight(weight: Tensor) -> Tensor:  # [Cout, Cin, 3, 3] -> [9, Cout, Cin] fp16
    """Order a convolution's weights by tap, as the kernels fetch them."""
    return weight.detach().permute(2, 3, 0, 1).flatten(0, 1).half().contiguous()


def conv3x3_out(
    x: Tensor,  # [B, h, w, Cin] fp16
    weight: Tensor,  # [9, Cout, Cin] fp16, from `pack_weight`
    out: Tensor,  # [B, h, w, Cout] fp16, written
    *,
    bias: Tensor | None = None,  # [Cout] fp32
    sums: Tensor | None = None,  # [B, parts, 2, 8] fp32, written
) -> None:
    """Convolve with padding 1; with `sums`, leave the group sums of the output for `fold_sums_out`."""
    taps = weight.double().unflatten(0, (3, 3)).permute(2, 3, 0, 1)
    shift = None if bias is None else bias.double()
    y = F.conv2d(x.double().permute(0, 3, 1, 2), taps, shift, padding=1).permute(0, 2, 3, 1)
    out.copy_(y)
    if sums is not None:
        write_group_sums(y, sums)


def write_group_sums(
    x: Tensor,  # [..., h, w, C]
    sums: Tensor,  # [..., parts, 2, 8], written
) -> None:
    """Leave each group's sum and sum of squares in the first part, zeros in the others."""
    groups = x.unflatten(-1, (GROUPS, -1))
    sums.zero_()
    sums[..., 0, 0, :] = groups.sum((-4, -3, -1))
    sums[..., 0, 1, :] = groups.square().sum((-4, -3, -1))

"""Launches of the 3x3 convolution that every GPU from capability 8.0 on has."""

from torch import Tensor

from libranet.kernels.conv3x3.reference import GROUPS
from libranet.kernels.launch import launch
from libranet.kernels.tiles import ConvTile


def conv3x3_out(
    x: Tensor,  # [B, h, w, Cin] fp16
    weight: Tensor,  # [9, Cout, Cin] fp16, from `pack_weight`
    out: Tensor,  # [B, h, w, Cout] fp16, written
    *,
    bias: Tensor | None = None,  # [Cout] fp32
    sums: Tensor | None = None,  # [B, tile.parts(h, w), 2, 8] fp32, written
    tile: ConvTile,
) -> None:
    """Convolve with padding 1; with `sums`, leave each tile's group sums for `fold_sums_out`."""
    b, height, width, cin = x.shape
    cout = weight.shape[1]
    launch("conv3x3.triton._conv3x3_kernel", (b * tile.parts(height, width),))(
        x, weight, bias, out, sums, height, width, x.stride(2), out.stride(2),
        CIN=cin, COUT=cout, GROUPS=GROUPS, ROWS=tile.rows, COLS=tile.cols, BLOCK_K=tile.block_k,
        PIXELS_FIRST=tile.pixels_first, HAS_BIAS=bias is not None, HAS_SUMS=sums is not None,
        num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip

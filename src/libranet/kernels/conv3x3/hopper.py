"""Launches of the weight-stationary 3x3 convolution."""

from torch import Tensor

from libranet.kernels.launch import Blocks, launch, processors
from libranet.kernels.tiles import BIAS_STRIP, SUMS_STRIP, WIDE_STRIP, StripTile, ceil_div

CHANNELS = 64  # output channels, and input channels per buffer: 128 bytes, one swizzled row
HALO = 8
"""Pixels fetched beyond a strip; two are needed, eight keep rows aligned to the swizzle's pattern."""


def conv3x3_out(
    x: Tensor,  # [B, h, w, 64 or 128] fp16
    weight: Tensor,  # [9, 64, Cin] fp16, from `pack_weight`
    out: Tensor,  # [B, h, w, 64] fp16, written
    *,
    bias: Tensor | None = None,  # [64] fp32
    sums: Tensor | None = None,  # [B, SUMS_STRIP.parts(h, w), 2, 8] fp32, written; for 64 input channels
) -> None:
    """Convolve with padding 1; with `sums`, leave each row's group sums for `fold_sums_out`."""
    b, height, width, cin = x.shape
    tile = _tile_for(cin, with_sums=sums is not None)
    strips = ceil_div(width, tile.cols)
    total = b * strips * (height + 2)
    steps = ceil_div(total, processors(x.device)) | 1
    maps, result, taps = x.flatten(0, 1), out.flatten(0, 1), weight.flatten(0, 1)
    launch("conv3x3.gluon.conv3x3_kernel", (ceil_div(total, steps),))(
        Blocks(maps, (1, tile.cols, CHANNELS)),
        Blocks(maps, (1, HALO, CHANNELS)),
        Blocks(taps, (CHANNELS, CHANNELS)),
        bias,
        Blocks(result, (1, tile.cols, CHANNELS)),
        sums, height, width, total, steps, strips,
        COLS=tile.cols, CHUNKS=cin // CHANNELS, RING=tile.ring, STAGES=tile.stages,
        HAS_BIAS=bias is not None, HAS_SUMS=sums is not None, num_warps=4,
    )  # fmt: skip


def _tile_for(cin: int, *, with_sums: bool) -> StripTile:
    if cin == 2 * CHANNELS:
        return WIDE_STRIP
    return SUMS_STRIP if with_sums else BIAS_STRIP

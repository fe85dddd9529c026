"""Launches of the encoders' kernels."""

from torch import Tensor

from libranet.kernels.conv3x3.reference import GROUPS
from libranet.kernels.launch import launch
from libranet.kernels.tiles import STEM_TILE, EncoderTile, ceil_div, power_of_2

NORM_VALUES = 4096  # values per program that normalises


def stem_out(
    x: Tensor,  # [B, 2 side, 2 side, 4] fp16
    weight: Tensor,  # [64, 2 * PAD] fp16, from `pack_stem`
    out: Tensor,  # [2, B, side, side, C] fp16, written
    sums: Tensor,  # [2, B, STEM_TILE.parts(side * side), 2, 8] fp32, written
) -> None:
    _, b, side, _, channels = out.shape
    launch("encoder_layers.triton._stem_kernel", (STEM_TILE.parts(side * side), b))(
        x, weight, out, sums,
        SIDE=side, COUT=channels, PAD=weight.shape[1] // 2, GROUPS=GROUPS, BLOCK=STEM_TILE.block,
        num_warps=STEM_TILE.warps,
    )  # fmt: skip


def conv_out(
    x: Tensor,  # [E, B, side, side, Cin] fp16; with stride 2 twice the side; with `tile.pairs` made by `make_maps`
    weight: Tensor,  # [E * 9, Cout, Cin] fp16; with `tile.pairs` [E * 3, 2 Cout, 4 Cin]
    out: Tensor,  # [E, B, side, side, Cout] fp16, written; with `planes` [E, B, Cout, side, side] fp32
    *,
    tile: EncoderTile,
    stride: int = 1,
    bias: Tensor | None = None,  # [Cout] fp32
    sums: Tensor | None = None,  # [E, B, tile.parts(side, Cout), 2, 8] fp32, written
    activate: bool = False,
    planes: bool = False,
) -> None:
    """Convolve each encoder's maps by its own weights, padding 1; `sums` are for `normalise_out`."""
    encoders, each, _, _, channels = x.shape
    _, cout, cin = weight.shape
    side, maps, row = x.shape[2] // stride, encoders * each, x.stride(2)
    width, step, start = side, channels, x.storage_offset()
    if tile.pairs:
        assert row == (side + 1) * channels
        width, step, start = side // 2, 2 * channels, start - channels
    source = x.as_strided((maps, stride * side, stride * width, cin), (stride * side * row, row, step, 1), start)
    launch("encoder_layers.triton._conv_kernel", (tile.parts(side, weight.shape[1] // (side // width)), maps))(
        source, weight, bias, out, sums, each,
        SIDE=side, WIDTH=width, CIN=cin, COUT=cout, CHANNELS=cout // (side // width), GROUPS=GROUPS,
        ROW=row, STEP=step, STRIDE=stride,
        ROWS=tile.rows, LINES=tile.lines, COLS=tile.cols, BLOCK_N=tile.block_n, BLOCK_K=tile.block_k,
        PAIRS=tile.pairs, HAS_BIAS=bias is not None, ACTIVATE=activate, PLANES=planes, HAS_SUMS=sums is not None,
        num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip


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
    encoders, each, side, _, channels = raw.shape
    pad = power_of_2(channels)
    pixels = max(NORM_VALUES // pad, 1)
    parts = sums.shape[2]
    launch("encoder_layers.triton._normalise_kernel", (ceil_div(side * side, pixels), encoders * each))(
        raw, sums, weight, bias, skip, out, each, parts, out.stride(0) // channels, eps,
        SIDE=side, CHANNELS=channels, PAD=pad, GROUPS=GROUPS, PARTS_PAD=power_of_2(parts),
        BLOCK=pixels, ACTIVATE=skip is None, HAS_SKIP=skip is not None,
        SKIP_GAP=0 if skip is None else skip.stride(2) // channels - side, OUT_GAP=out.stride(2) // channels - side,
        num_warps=4,
    )  # fmt: skip

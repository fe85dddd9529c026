"""Launches of the refiner's passes between convolutions."""

from torch import Tensor

from libranet.kernels.conv3x3.reference import GROUPS
from libranet.kernels.launch import launch
from libranet.kernels.tiles import STRUCTURE_TILE, PixelTile, ceil_div


def fold_sums_out(
    sums: Tensor,  # [B, parts, 2, G] fp32
    weight: Tensor,  # [C] fp32
    bias: Tensor,  # [C] fp32
    fold: Tensor,  # [B, 2, C] fp32, written
    *,
    count: int,
    eps: float = 1e-5,
) -> None:
    """Write GroupNorm as y = factor * x + summand, from the sums that the producer of x left."""
    b, tiles, _, groups = sums.shape
    launch("norm_mix.triton._fold_kernel", (groups, b))(
        sums, weight, bias, fold, tiles, count, eps,
        CHANNELS=weight.shape[0], GROUPS=groups, BLOCK=1024, STEPS=ceil_div(tiles, 1024),
    )  # fmt: skip


def normalise_mix_out(
    raw: Tensor,  # [B, h, w, C] fp16
    fold: Tensor,  # [B, 2, C] fp32
    out: Tensor,  # [B, h, w, C] fp16, written; may be a channel slice of a wider map, or `skip` itself
    *,
    skip: Tensor | None = None,  # [B, h, w, C] fp16
    mix: Tensor | None = None,  # [C, C] fp16, a 1x1 convolution
    mix_bias: Tensor | None = None,  # [C] fp32
    tile: PixelTile,
) -> None:
    """GELU(factor * raw + summand); with `mix`, skip + mix(that) + mix_bias."""
    b, height, width, channels = raw.shape
    launch("norm_mix.triton._normalise_mix_kernel", (ceil_div(height * width, tile.block), b))(
        raw, skip, fold, mix, mix_bias, out, height * width, out.stride(2),
        CHANNELS=channels, BLOCK=tile.block, HAS_MIX=mix is not None, num_warps=tile.warps,
    )  # fmt: skip


def structure_sums_out(
    small: Tensor,  # [B, 3, h, w] fp32
    weight: Tensor,  # [C, 32] fp16, from `pack_structure_weight`
    sums: Tensor,  # [B, h * tile.parts(w), 2, 8] fp32, written
    *,
    tile: PixelTile = STRUCTURE_TILE,
) -> None:
    _structure(small, weight, sums, None, None, tile)


def structure_apply_out(
    small: Tensor,  # [B, 3, h, w] fp32
    weight: Tensor,  # [C, 32] fp16, from `pack_structure_weight`
    fold: Tensor,  # [B, 2, C] fp32
    out: Tensor,  # [B, h, w, C] fp16, written
    *,
    tile: PixelTile = STRUCTURE_TILE,
) -> None:
    _structure(small, weight, None, fold, out, tile)


def _structure(
    small: Tensor,
    weight: Tensor,
    sums: Tensor | None,
    fold: Tensor | None,
    out: Tensor | None,
    tile: PixelTile,
) -> None:
    b, _, height, width = small.shape
    launch("norm_mix.triton._structure_kernel", (tile.parts(width), height, b))(
        small, weight, fold, sums, out, height, width,
        CHANNELS=weight.shape[0], GROUPS=GROUPS, BLOCK=tile.block, APPLY=out is not None, num_warps=tile.warps,
    )  # fmt: skip

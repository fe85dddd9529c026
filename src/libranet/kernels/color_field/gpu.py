"""Launches of the colour field's kernels."""

from torch import Tensor

from libranet.kernels.color_field.reference import SINGULAR_DET
from libranet.kernels.launch import launch
from libranet.kernels.tiles import ceil_div


def apply_field_out(
    low: Tensor,  # [B, 3, h, w] fp32
    chromatic: Tensor,  # [B, 2, 12, D, gh, gw]; D and gw powers of two
    plane: Tensor,  # [B, 12, gh, gw]
    strength: Tensor,  # [B] fp32
    small: Tensor,  # [B, 3, h, w] fp32, written
    delta: Tensor,  # [B, 3, h, w] fp32, written: small - low
    *,
    scratch: Tensor,  # [B, h, 2, D, gw, 16] fp32: the grids at each row of pixels
) -> None:
    b, _, height, width = low.shape
    d, gh, gw = chromatic.shape[3:]
    launch("color_field.triton._rows_kernel", (height, b))(
        chromatic, plane, strength, scratch, height, D=d, GH=gh, GW=gw, num_warps=4
    )
    launch("color_field.triton._field_kernel", (ceil_div(width, 128), height, b))(
        low, scratch, small, delta, height, width,
        SINGULAR=SINGULAR_DET, D=d, GW=gw, BLOCK=128, num_warps=4,
    )  # fmt: skip

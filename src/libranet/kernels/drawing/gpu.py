"""Launches of the kernels that draw."""

from torch import Tensor

from libranet.frames import FrameFormat
from libranet.kernels.drawing.reference import SHADES, UNKNOWN, HeatMap, Join, Overlay
from libranet.kernels.launch import launch
from libranet.kernels.samples.reference import SampleCodes
from libranet.kernels.tiles import ceil_div


def draw_out(
    first: Tensor | HeatMap,  # [h, w]
    second: Tensor | HeatMap,  # [h, w]
    join: Join,
    overlay: Overlay,
    out: Tensor,  # [h, w], written
    *,
    peak: int,
) -> None:
    heat = second if isinstance(second, HeatMap) else first if isinstance(first, HeatMap) else None
    kind = 2 if isinstance(second, HeatMap) else 1 if heat else 0  # without an edge both are the same one
    # Pointers that the kernel does not follow still need a tensor.
    a, b = (out if isinstance(source, HeatMap) else source for source in (first, second))
    rows, columns = heat.transmission.shape if heat else (1, 1)
    launch("drawing.triton._draw_kernel", (ceil_div(out.shape[1], 512), out.shape[0]))(
        a, b, out, heat.transmission if heat else overlay.factor, heat.table if heat else overlay.factor,
        overlay.factor, overlay.summand, a.stride(0), b.stride(0), out.stride(0),
        *out.shape, join.edge, join.shift, overlay.top, overlay.left, *overlay.factor.shape,
        rows, columns, *(heat.size if heat else (1, 1)), peak,
        AXIS=join.axis, HEAT=kind, FIRST_STEP=a.stride(1), SECOND_STEP=b.stride(1), OUT_STEP=out.stride(1),
        SHADES=SHADES, FLOATING=peak == 0, BLOCK=512, num_warps=4,
    )  # fmt: skip


def small_rgb_out(
    planes: tuple[Tensor, ...],
    out: Tensor,  # [3, h, w] fp32, written
    *,
    format_: FrameFormat,
    step: int,
    codes: SampleCodes,
) -> None:
    launch("drawing.triton._small_kernel", (ceil_div(out.shape[2], 128), out.shape[1]))(
        *codes.components(planes), codes.numbers, out, format_.height, format_.width,
        **codes.constants(), CELL=step, BLOCK=128, num_warps=4,
    )  # fmt: skip


def removed_haze_out(
    hazy: Tensor,  # [3, h, w] fp32 in [0, 1]
    clear: Tensor,  # [3, h, w] fp32 in [0, 1]
    airlight: Tensor,  # [3] fp32
    out: Tensor,  # [h, w] fp32, written
) -> None:
    launch("drawing.triton._removed_kernel", (ceil_div(out.numel(), 1024),))(
        hazy, clear, airlight, out, out.numel(), UNKNOWN=UNKNOWN, BLOCK=1024, num_warps=4
    )

"""Frames drawn in their own samples, in plain torch: two sources joined, heat maps, labels and lines on top.

Every function works on one component of a frame (Y, Cb, red, ...): a view [h, w] of a plane.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.frames import ColorConverter, FrameFormat

SHADES = 256  # colours of a heat map
UNKNOWN = 2e-3
"""Where the clear image is as bright as the haze (the sky), the transmission is unknown; this constant makes it 0."""


@dataclass(frozen=True)
class Overlay:
    """What labels and lines make of the samples in a box: sample * factor + summand."""

    top: int
    left: int
    factor: Tensor  # [h, w] fp32
    summand: Tensor  # [h, w] fp32


@dataclass(frozen=True)
class Join:
    """How two sources share a frame: the first before an edge, the second from there on."""

    axis: int  # 0 divides rows, 1 columns
    edge: int  # the first row or column of the second source
    shift: int  # rows or columns by which the second source is moved


@dataclass(frozen=True)
class HeatMap:
    """A map of transmission, and the colours that it is drawn in."""

    transmission: Tensor  # [h, w] fp32 in [0, 1]
    table: Tensor  # [SHADES] int32 or fp32: one component's samples, from clear air to dense haze
    size: tuple[int, int]  # height and width to which the map is enlarged


def draw_out(
    first: Tensor | HeatMap,  # [h, w]
    second: Tensor | HeatMap,  # [h, w]
    join: Join,
    overlay: Overlay,
    out: Tensor,  # [h, w], written
    *,
    peak: int,
) -> None:
    left, right = (_heat(source) if isinstance(source, HeatMap) else source for source in (first, second))
    rest = out.shape[join.axis] - join.edge
    out.narrow(join.axis, 0, join.edge).copy_(left.narrow(join.axis, 0, join.edge))
    out.narrow(join.axis, join.edge, rest).copy_(right.narrow(join.axis, join.edge - join.shift, rest))
    height, width = overlay.factor.shape
    box = out[overlay.top : overlay.top + height, overlay.left : overlay.left + width]
    drawn = box.float() * overlay.factor + overlay.summand
    box.copy_(drawn.round().clamp(0, peak) if peak else drawn)


def _heat(heat: HeatMap) -> Tensor:
    full = F.interpolate(1.0 - heat.transmission[None, None], size=heat.size, mode="bilinear", align_corners=False)
    shade = (full[0, 0] * (SHADES - 1)).round_().clamp_(0, SHADES - 1).int()
    return heat.table.index_select(0, shade.flatten()).view(heat.size)


def small_rgb_out(
    planes: tuple[Tensor, ...],  # of one frame
    out: Tensor,  # [3, h, w] fp32, written: sizes over `step`, rounded up
    *,
    format_: FrameFormat,
    step: int,
) -> None:
    """RGB in [0, 1] at a fraction of the size: each pixel is the mean of a square."""
    out.copy_(ColorConverter(format_.layout, format_.color, device=out.device).to_small_rgb(planes, step)[0])


def removed_haze_out(
    hazy: Tensor,  # [3, h, w] fp32 in [0, 1]
    clear: Tensor,  # [3, h, w] fp32 in [0, 1]
    airlight: Tensor,  # [3] fp32
    out: Tensor,  # [h, w] fp32, written
) -> None:
    """The transmission t of hazy = clear * t + airlight * (1 - t), by least squares over the channels."""
    light = airlight[:, None, None]
    numerator = ((light - hazy) * (light - clear)).sum(dim=0)
    out.copy_((numerator / ((light - clear).square().sum(dim=0) + UNKNOWN)).clamp(0.0, 1.0))


def no_overlay(device: torch.device) -> Overlay:
    """An overlay that changes nothing."""
    return Overlay(0, 0, torch.ones(1, 1, device=device), torch.zeros(1, 1, device=device))

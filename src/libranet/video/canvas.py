"""Drawing on frames in their own samples: halves joined, boxes, labels, heat maps. On any device."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.frames import ColorConverter, ColorSpec, FrameFormat, PixelLayout

LABEL_SHADE = 0.45
"""Brightness that a label's background keeps."""


@dataclass(frozen=True)
class _Component:
    """One array of samples: a view of a plane."""

    values: Tensor  # [h, w]
    sub_y: int
    sub_x: int
    black: float

    def area(self, top: int, bottom: int, left: int, right: int) -> Tensor:
        """The samples of a rectangle, given in luma pixels."""
        return self.values[
            top // self.sub_y : -(-bottom // self.sub_y),
            left // self.sub_x : -(-right // self.sub_x),
        ]


class Canvas:
    """The planes of one frame, to be drawn on."""

    def __init__(self, planes: Sequence[Tensor], format_: FrameFormat) -> None:
        """Draw on these planes in place.

        Args:
            planes: Each [h, w], or one [h, w, 3] of a packed layout.
            format_: Their format.
        """
        layout = format_.layout
        self.height, self.width = format_.height, format_.width
        self.planes = tuple(planes)
        self._layout, self._color = layout, format_.color
        black = _codes(layout, format_.color, (0.0, 0.0, 0.0))
        views = planes[0].unbind(-1) if layout.packed else planes[: layout.colour_planes]
        steps = [(layout.sub_y, layout.sub_x) if layout.model == "yuv" and i else (1, 1) for i in range(len(views))]
        self._components = [
            _Component(view, *step, black=value) for view, step, value in zip(views, steps, black, strict=True)
        ]

    def fill(self, top: int, bottom: int, left: int, right: int, rgb: tuple[float, float, float]) -> None:
        """Fill a rectangle with a colour."""
        for component, code in zip(self._components, _codes(self._layout, self._color, rgb), strict=True):
            area = component.area(top, bottom, left, right)
            area.copy_(torch.full((), self._sample(code), device=area.device).expand_as(area))

    def paste_columns(self, other: "Canvas", left: int, right: int) -> None:
        """Copy columns of another frame of this format."""
        for mine, theirs in zip(self._components, other._components, strict=True):
            mine.area(0, self.height, left, right).copy_(theirs.area(0, self.height, left, right))

    def draw_heat(
        self,
        haze: Tensor,  # [1, 1, h, w] in [0, 1]
    ) -> None:
        """Fill the frame with the heat map's colours, by a map that is enlarged to its size."""
        codes = _heat_codes(self._layout, self._color, haze.device)
        small: dict[tuple[int, ...], Tensor] = {}
        for component, code in zip(self._components, codes, strict=True):
            size = tuple(component.values.shape)
            if size not in small:
                full = F.interpolate(haze, size=size, mode="bilinear", align_corners=False)[0, 0]
                small[size] = (full * 255.0).round_().clamp_(0, 255).int()
            component.values.copy_(code.index_select(0, small[size].flatten()).view(size))

    def draw_scale(self, top: int, bottom: int, left: int, right: int) -> None:
        """Fill a rectangle with the heat map's colours, from its first to its last."""
        codes = _heat_codes(self._layout, self._color, self._components[0].values.device)
        for component, code in zip(self._components, codes, strict=True):
            area = component.area(top, bottom, left, right)
            across = torch.arange(area.shape[1], device=area.device) * 255 // max(1, area.shape[1] - 1)
            area.copy_(code.index_select(0, across).expand(area.shape[0], -1))

    def stamp(self, text: str, corner: tuple[int, int], size: int, *, right: bool = False) -> int:
        """Write white letters on a darkened strip.

        Args:
            text: The label.
            corner: Left (or right) and top of the strip.
            size: Pixels from baseline to capital height.
            right: The corner is the right one.

        Returns:
            The column behind the strip.
        """
        height, width = _label(text, size).shape
        left = max(0, corner[0] - width if right else corner[0])
        left -= left % self._layout.sub_x
        top = corner[1] - corner[1] % self._layout.sub_y
        white = _codes(self._layout, self._color, (1.0, 1.0, 1.0))
        for component, code in zip(self._components, white, strict=True):
            area = component.area(top, top + height, left, left + width)
            ink = _ink(text, size, (component.sub_y, component.sub_x), area.device)[: area.shape[0], : area.shape[1]]
            shaded = (area.float() - component.black) * LABEL_SHADE * (1.0 - ink) + ink * (code - component.black)
            area.copy_(self._round(shaded + component.black))
        return left + width

    def _sample(self, code: float) -> float:
        return code if self._layout.floating else min(max(round(code), 0), self._layout.peak)

    def _round(self, codes: Tensor) -> Tensor:
        return codes if self._layout.floating else codes.round().clamp(0, self._layout.peak)


# What follows is made once: small copies to a GPU would make it wait at every frame.


@cache
def _codes(layout: PixelLayout, color: ColorSpec, rgb: tuple[float, float, float]) -> list[float]:
    codes: list[float] = ColorConverter(layout, color).codes(torch.tensor(rgb)).tolist()
    return codes


@cache
def _heat_codes(layout: PixelLayout, color: ColorSpec, device: torch.device) -> list[Tensor]:  # [256] each
    """The heat map's colours in the samples of each component."""
    ramp = np.arange(256, dtype=np.uint8)[:, None]
    table = cv2.applyColorMap(ramp, cv2.COLORMAP_INFERNO)[:, 0, ::-1].astype(np.float32) / 255  # [256, 3], RGB
    codes = ColorConverter(layout, color).codes(torch.from_numpy(np.ascontiguousarray(table)))
    if not layout.floating:
        codes = codes.round().clamp(0, layout.peak).int()
    return [code.contiguous().to(device) for code in codes.unbind(1)]


@cache
def _ink(text: str, size: int, step: tuple[int, int], device: torch.device) -> Tensor:  # [h, w] in [0, 1]
    """A label's letters at the resolution of a component."""
    label = torch.from_numpy(_label(text, size)).float()[None, None] / 255.0
    return F.avg_pool2d(label, step, ceil_mode=True)[0, 0].to(device)


@cache
def _label(text: str, size: int) -> np.ndarray:  # [h, w] uint8
    """Letters on a strip, with room around them."""
    scale, thickness = size / 22, max(1, round(size / 14))
    (width, _), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_DUPLEX, scale, thickness)
    (_, height), baseline = cv2.getTextSize("Hy", cv2.FONT_HERSHEY_DUPLEX, scale, thickness)  # one height for all words
    pad = size // 2
    label = np.zeros((height + baseline + 2 * pad, width + 2 * pad), np.uint8)
    cv2.putText(label, text, (pad, height + pad), cv2.FONT_HERSHEY_DUPLEX, scale, 255, thickness, cv2.LINE_AA)
    return label

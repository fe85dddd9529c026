"""Drawing on frames in their own samples: halves joined, boxes, labels, heat maps. On any device."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.frames import ColorConverter, FrameFormat

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
        self._layout = layout
        self._converter = ColorConverter(layout, format_.color, device=planes[0].device)
        black = _codes(self._converter, (0.0, 0.0, 0.0))
        views = planes[0].unbind(-1) if layout.packed else planes[: layout.colour_planes]
        steps = [(layout.sub_y, layout.sub_x) if layout.model == "yuv" and i else (1, 1) for i in range(len(views))]
        self._components = [
            _Component(view, *step, black=value) for view, step, value in zip(views, steps, black, strict=True)
        ]

    def fill(self, top: int, bottom: int, left: int, right: int, rgb: tuple[float, float, float]) -> None:
        """Fill a rectangle with a colour."""
        for component, code in zip(self._components, _codes(self._converter, rgb), strict=True):
            area = component.area(top, bottom, left, right)
            area.copy_(torch.full((), self._sample(code), device=area.device).expand_as(area))

    def paste_columns(self, other: "Canvas", left: int, right: int) -> None:
        """Copy columns of another frame of this format."""
        for mine, theirs in zip(self._components, other._components, strict=True):
            mine.area(0, self.height, left, right).copy_(theirs.area(0, self.height, left, right))

    def draw_heat(
        self,
        haze: Tensor,  # [1, 1, h, w] in [0, 1]
        table: Tensor,  # [256, 3], RGB in [0, 1]
    ) -> None:
        """Fill the frame with colours of a table, by a map that is enlarged to its size."""
        codes = self._converter.codes(table.to(haze.device))
        codes = codes if self._layout.floating else codes.round().clamp(0, self._layout.peak)
        small: dict[tuple[int, ...], Tensor] = {}
        for component, code in zip(self._components, codes.unbind(1), strict=True):
            size = tuple(component.values.shape)
            if size not in small:
                full = F.interpolate(haze, size=size, mode="bilinear", align_corners=False)[0, 0]
                small[size] = (full * 255.0).round_().clamp_(0, 255).int()
            entries = code.contiguous() if self._layout.floating else code.int().contiguous()
            component.values.copy_(entries.index_select(0, small[size].flatten()).view(size))

    def draw_strip(
        self,
        top: int,
        bottom: int,
        left: int,
        colors: Tensor,  # [n, 3], RGB in [0, 1]
    ) -> None:
        """Fill a rectangle whose columns have these colours."""
        codes = self._converter.codes(colors.to(self._components[0].values.device))
        for component, code in zip(self._components, codes.unbind(1), strict=True):
            area = component.area(top, bottom, left, left + len(colors))
            columns = code[:: component.sub_x][: area.shape[1]]
            area[:, : len(columns)].copy_(self._round(columns).expand(area.shape[0], -1))

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
        label = _label(text, size)
        left = max(0, corner[0] - label.shape[1] if right else corner[0])
        left -= left % self._layout.sub_x
        top = corner[1] - corner[1] % self._layout.sub_y
        white = _codes(self._converter, (1.0, 1.0, 1.0))
        for component, code in zip(self._components, white, strict=True):
            area = component.area(top, top + label.shape[0], left, left + label.shape[1])
            ink = torch.from_numpy(label).to(area.device).float()[None, None] / 255.0
            step = (component.sub_y, component.sub_x)
            ink = F.avg_pool2d(ink, step, ceil_mode=True)[0, 0, : area.shape[0], : area.shape[1]]
            shaded = (area.float() - component.black) * LABEL_SHADE * (1.0 - ink) + ink * (code - component.black)
            area.copy_(self._round(shaded + component.black))
        return left + label.shape[1]

    def _sample(self, code: float) -> float:
        return code if self._layout.floating else min(max(round(code), 0), self._layout.peak)

    def _round(self, codes: Tensor) -> Tensor:
        return codes if self._layout.floating else codes.round().clamp(0, self._layout.peak)


def _codes(converter: ColorConverter, rgb: tuple[float, float, float]) -> list[float]:
    codes: list[float] = converter.codes(torch.tensor(rgb)).tolist()
    return codes


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

"""Labels, lines and scales on top of frames, prepared once for each format."""

from dataclasses import dataclass

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.frames import ColorConverter, FrameFormat
from libranet.kernels.drawing.reference import Overlay, no_overlay

LABEL_SHADE = 0.45
"""Brightness that a label's background keeps."""
_WHITE = (1.0, 1.0, 1.0)


@dataclass(frozen=True)
class _Layer:
    """What is drawn on one component: sample * factor + summand."""

    factor: Tensor  # [h, w]
    summand: Tensor  # [h, w]
    sub_y: int
    sub_x: int
    black: float

    def area(self, top: int, bottom: int, left: int, right: int) -> tuple[slice, slice]:
        """The samples of a rectangle, given in luma pixels."""
        rows = slice(top // self.sub_y, -(-bottom // self.sub_y))
        return rows, slice(left // self.sub_x, -(-right // self.sub_x))


class OverlayPainter:
    """Draws what will lie on top of every frame, upright."""

    def __init__(self, format_: FrameFormat) -> None:
        """Begin with nothing.

        Args:
            format_: Of the frames as they are shown.
        """
        layout = format_.layout
        self.height, self.width = format_.height, format_.width
        self._format, self._layout, self._converter = format_, layout, ColorConverter(layout, format_.color)
        sizes = [format_.plane_sizes[0]] * 3 if layout.packed else format_.plane_sizes
        steps = [(layout.sub_y, layout.sub_x) if layout.model == "yuv" and i else (1, 1) for i in range(len(sizes))]
        black = self._codes((0.0, 0.0, 0.0))
        self._layers = [
            _Layer(torch.ones(size), torch.zeros(size), *step, black=value)
            for size, step, value in zip(sizes, steps, black, strict=True)
        ]

    def fill(self, top: int, bottom: int, left: int, right: int, rgb: tuple[float, float, float] = _WHITE) -> None:
        """Fill a rectangle with a colour."""
        for layer, code in zip(self._layers, self._codes(rgb), strict=True):
            area = layer.area(top, bottom, left, right)
            layer.factor[area] = 0.0
            layer.summand[area] = self._sample(code)

    def draw_scale(self, top: int, bottom: int, left: int, right: int) -> None:
        """Fill a rectangle with the heat map's colours, from its first to its last."""
        for layer, table in zip(self._layers, heat_tables(self._format), strict=True):
            area = layer.area(top, bottom, left, right)
            columns = layer.factor[area].shape[1]
            across = torch.arange(columns) * 255 // max(1, columns - 1)
            layer.factor[area] = 0.0
            layer.summand[area] = table[across].float()

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
        height, width = label.shape
        left = max(0, corner[0] - width if right else corner[0])
        left -= left % self._layout.sub_x
        top = corner[1] - corner[1] % self._layout.sub_y
        letters = torch.from_numpy(label).float()[None, None] / 255.0
        for layer, white in zip(self._layers, self._codes(_WHITE), strict=True):
            area = layer.area(top, top + height, left, left + width)
            rows, columns = layer.factor[area].shape
            ink = F.avg_pool2d(letters, (layer.sub_y, layer.sub_x), ceil_mode=True)[0, 0, :rows, :columns]
            keep = LABEL_SHADE * (1.0 - ink)
            layer.factor[area] = keep
            layer.summand[area] = layer.black * (1.0 - keep) + ink * (white - layer.black)
        return left + width

    def overlays(self, turns: int, device: torch.device | str) -> list[Overlay]:
        """One overlay for each component, rotated back by `turns` quarter turns, in the smallest box that holds it."""
        return [_cropped(layer, turns, torch.device(device)) for layer in self._layers]

    def _codes(self, rgb: tuple[float, float, float]) -> list[float]:
        codes: list[float] = self._converter.codes(torch.tensor(rgb)).tolist()
        return codes

    def _sample(self, code: float) -> float:
        return code if self._layout.floating else min(max(round(code), 0), self._layout.peak)


def heat_tables(format_: FrameFormat) -> list[Tensor]:  # [256] each
    """The heat map's colours, from clear air to dense haze, in the samples of each component."""
    ramp = np.arange(256, dtype=np.uint8)[:, None]
    table = cv2.applyColorMap(ramp, cv2.COLORMAP_INFERNO)[:, 0, ::-1].astype(np.float32) / 255  # [256, 3], RGB
    layout = format_.layout
    codes = ColorConverter(layout, format_.color).codes(torch.from_numpy(np.ascontiguousarray(table)))
    if not layout.floating:
        codes = codes.round().clamp(0, layout.peak).int()
    return [code.contiguous() for code in codes.unbind(1)]


def _cropped(layer: _Layer, turns: int, device: torch.device) -> Overlay:
    factor, summand = (torch.rot90(map_, -turns, (0, 1)) for map_ in (layer.factor, layer.summand))
    drawn = (factor != 1.0) | (summand != 0.0)
    if not drawn.any():
        return no_overlay(device)
    rows, columns = drawn.any(1).nonzero(), drawn.any(0).nonzero()
    top, bottom, left, right = int(rows[0]), int(rows[-1]) + 1, int(columns[0]), int(columns[-1]) + 1
    factor, summand = (map_[top:bottom, left:right].contiguous().to(device) for map_ in (factor, summand))
    return Overlay(top, left, factor, summand)


def _label(text: str, size: int) -> np.ndarray:  # [h, w] uint8
    """Letters on a strip, with room around them."""
    scale, thickness = size / 22, max(1, round(size / 14))
    (width, _), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_DUPLEX, scale, thickness)
    (_, height), baseline = cv2.getTextSize("Hy", cv2.FONT_HERSHEY_DUPLEX, scale, thickness)  # one height for all words
    pad = size // 2
    label = np.zeros((height + baseline + 2 * pad, width + 2 * pad), np.uint8)
    cv2.putText(label, text, (pad, height + pad), cv2.FONT_HERSHEY_DUPLEX, scale, 255, thickness, cv2.LINE_AA)
    return label

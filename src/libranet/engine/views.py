"""What a frame shows: the result, a heat map, or a comparison, drawn in the samples of the output on any device."""

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.engine.options import Compare, View
from libranet.engine.plan import side_size
from libranet.engine.restorer import Planes, conversion
from libranet.frames import ColorConverter, FrameFormat
from libranet.kernels.drawing import reference
from libranet.kernels.drawing.reference import HeatMap, Join, Overlay, no_overlay
from libranet.kernels.samples.reference import SampleCodes
from libranet.network.haze_map import confidence, estimate_airlight, haze_map
from libranet.runtime import Restored
from libranet.runtime.gpu.support import has_kernels

MAP_STEP = 4
"""Maps are estimated at a quarter of the size, which also averages noise away."""
LABEL_SHADE = 0.45
"""Brightness that a label's background keeps."""
_WHITE = (1.0, 1.0, 1.0)


class FrameView:
    """Turns restored frames into frames of the output's format. Lines and labels stand upright in a player.

    Everything that does not depend on the frame is prepared once. A frame then takes one pass per component, in a
    kernel where the device has them.
    """

    def __init__(
        self,
        source: FrameFormat,
        target: FrameFormat,
        *,
        compare: Compare | None = None,
        view: View = "result",
        turns: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        """Prepare for frames of one format on a device.

        Args:
            target: Of the output; a comparison side by side is twice as wide.
            turns: Quarter turns counter-clockwise by which a player rotates the frame.
        """
        device = torch.device(device)
        self.target, self._compare, self._view, self._turns = target, compare, view, turns
        self._source, self._device = source, device
        self.output = _output_format(target, compare, turns)
        self._convert = conversion(source, target, device)
        self._draws = view != "result" or compare is not None
        if self._draws:
            self._joins = _joins(target, compare, turns)
            overlays = _paint(_rotated_format(target, turns), compare, view).overlays(turns, device)
            if compare == "side" and turns in (0, 1):  # what lies on the result moves with it
                overlays = [_moved(overlay, join) for overlay, join in zip(overlays, self._joins, strict=True)]
            self._overlays = overlays
            self._heat = list(zip([table.to(device) for table in _heat_tables(target)], _sizes(target), strict=True))
            self._ops, self._extra = _operations(source, device)
            if self._ops is not reference:
                try:
                    self.draw(self._example())  # loads or compiles the kernels
                except ModuleNotFoundError:  # of Triton, for a format whose kernels were not shipped
                    self._ops, self._extra = reference, {}

    def draw(self, restored: Restored) -> Planes:
        """Return the planes to show. They may be those of `restored` itself."""
        if not self._draws:
            return self._convert(restored.after)
        shown: list[Tensor | HeatMap]
        if self._view == "result":
            shown = list(_components(self.target, self._convert(restored.after)))
        else:
            map_ = self._map(restored)
            shown = [HeatMap(map_, table, size) for table, size in self._heat]
        hazy: list[Tensor | HeatMap] = shown
        if self._compare is not None:
            hazy = list(_components(self.target, self._convert(restored.before)))
        planes = tuple(plane[0] for plane in self.output.empty(1, device=self._device))
        layout, reverse = self.target.layout, self._turns in (2, 3)
        for index, out in enumerate(_components(self.output, planes)):
            pair = (shown[index], hazy[index]) if reverse else (hazy[index], shown[index])
            peak = 0 if layout.floating else layout.peak
            self._ops.draw_out(*pair, self._joins[index], self._overlays[index], out, peak=peak)
        return planes

    def _example(self) -> Restored:
        planes = tuple(torch.zeros_like(plane[0]) for plane in self._source.empty(1, device=self._device))
        return Restored(planes, planes, self._source)

    def _map(self, restored: Restored) -> Tensor:  # [h, w] in [0, 1], 0 is drawn brightest
        step = MAP_STEP
        size = (-(-self._source.height // step), -(-self._source.width // step))
        small = torch.empty(2, 3, *size, device=self._device)
        for planes, out in zip((restored.before, restored.after), small, strict=True):
            whole = tuple(plane.contiguous() for plane in planes)
            self._ops.small_rgb_out(whole, out, format_=self._source, step=step, **self._extra)
        if self._view != "removed":
            with torch.inference_mode():
                transmission = haze_map(self._device)(small[:1], small[1:])[0, 0]
            return transmission if self._view == "haze" else 1.0 - confidence(transmission)
        map_ = torch.empty(size, device=self._device)
        self._ops.removed_haze_out(*small, estimate_airlight(small[:1])[0], map_)
        return map_


def _operations(source: FrameFormat, device: torch.device) -> tuple[ModuleType, dict[str, Any]]:
    """The module that draws on this device, and what its kernels need to know of the source."""
    if not has_kernels(device):
        return reference, {}
    from libranet.kernels.drawing import gpu  # only GPUs load it

    return gpu, {"codes": SampleCodes.make(source, device)}


def _sizes(format_: FrameFormat) -> list[tuple[int, int]]:
    """Height and width of each component."""
    return [format_.plane_sizes[0]] * 3 if format_.layout.packed else format_.plane_sizes


def _moved(overlay: Overlay, join: Join) -> Overlay:
    down, across = (join.shift, 0) if join.axis == 0 else (0, join.shift)
    return replace(overlay, top=overlay.top + down, left=overlay.left + across)


def _components(format_: FrameFormat, planes: Planes) -> tuple[Tensor, ...]:  # each [h, w]
    return planes[0].unbind(-1) if format_.layout.packed else planes[: format_.layout.colour_planes]


def _output_format(target: FrameFormat, compare: Compare | None, turns: int) -> FrameFormat:
    if compare != "side":
        return target
    width, height = side_size(target.layout, target.width, target.height, turns)
    return replace(target, width=width, height=height)


def _rotated_format(format_: FrameFormat, turns: int) -> FrameFormat:
    if turns % 2 == 0:
        return format_
    layout = replace(format_.layout, sub_x=format_.layout.sub_y, sub_y=format_.layout.sub_x)
    return replace(format_, width=format_.height, height=format_.width, layout=layout)


def _joins(format_: FrameFormat, compare: Compare | None, turns: int) -> list[Join]:
    """Where original and result meet in each component: the original is on the left after `turns` quarter turns."""
    layout, axis = format_.layout, 0 if turns % 2 else 1
    joins = []
    for index, size in enumerate(_sizes(format_)):
        step = (layout.sub_y, layout.sub_x)[axis] if layout.model == "yuv" and index else 1
        length = (format_.height, format_.width)[axis]
        if compare is None:
            joins.append(Join(axis, 0, 0))
        elif compare == "side":
            half = side_size(layout, format_.width, format_.height, turns)[1 - axis] // 2 // step
            joins.append(Join(axis, half, half))
        else:
            hazy = -(-(length // 2) // step)
            joins.append(Join(axis, hazy if turns in (0, 1) else size[axis] - hazy, 0))
    return joins


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


class _Painter:
    """Draws what will lie on top of every frame, upright."""

    def __init__(self, format_: FrameFormat) -> None:
        layout = format_.layout
        self.height, self.width = format_.height, format_.width
        self._format, self._layout, self._converter = format_, layout, ColorConverter(layout, format_.color)
        sizes = _sizes(format_)
        steps = [(layout.sub_y, layout.sub_x) if layout.model == "yuv" and i else (1, 1) for i in range(len(sizes))]
        black = self._codes((0.0, 0.0, 0.0))
        self._layers = [
            _Layer(torch.ones(size), torch.zeros(size), *step, black=value)
            for size, step, value in zip(sizes, steps, black, strict=True)
        ]

    def fill(self, top: int, bottom: int, left: int, right: int, rgb: tuple[float, float, float] = _WHITE) -> None:
        for layer, code in zip(self._layers, self._codes(rgb), strict=True):
            area = layer.area(top, bottom, left, right)
            layer.factor[area] = 0.0
            layer.summand[area] = self._sample(code)

    def draw_scale(self, top: int, bottom: int, left: int, right: int) -> None:
        """Fill a rectangle with the heat map's colours, from its first to its last."""
        for layer, table in zip(self._layers, _heat_tables(self._format), strict=True):
            area = layer.area(top, bottom, left, right)
            columns = layer.factor[area].shape[1]
            across = torch.arange(columns) * 255 // max(1, columns - 1)
            layer.factor[area] = 0.0
            layer.summand[area] = table[across].float()

    def stamp(self, text: str, corner: tuple[int, int], size: int, *, right: bool = False) -> int:
        """Write white letters, `size` pixels high, on a darkened strip whose left (or right) and top is `corner`.

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


def _heat_tables(format_: FrameFormat) -> list[Tensor]:  # [256] each
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


def _paint(upright: FrameFormat, compare: Compare | None, view: View) -> _Painter:
    painter = _Painter(upright)
    room = upright.height >= 160 and upright.width >= 240
    size = int(min(64, max(12, upright.height // 40)))  # pixels from baseline to capital height
    if view != "result" and room:
        _stamp_scale(painter, size, *(("guessed", "seen") if view == "confidence" else ("clear air", "dense haze")))
    if compare == "split":
        middle, half_line = upright.width // 2, max(1, upright.width // 960)
        painter.fill(0, upright.height, middle - half_line, middle + half_line)
        if room:
            painter.stamp("hazy", (middle - size, size), size, right=True)
            painter.stamp("dehazed" if view == "result" else view, (middle + size, size), size)
    return painter


def _stamp_scale(painter: _Painter, size: int, first: str, last: str) -> None:
    long, border = max(64, painter.width // 8), max(1, size // 12)
    top = painter.height - 4 * size
    left = painter.stamp(first, (size, top), size) + size // 2
    top += size // 2
    painter.fill(top - border, top + size + border, left - border, left + long + border)
    painter.draw_scale(top, top + size, left, left + long)
    painter.stamp(last, (left + long + size // 2, top - size // 2), size)

"""What a frame shows: the result, a heat map, or a comparison, drawn in the samples of the output on any device."""

from dataclasses import replace
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from libranet.engine.options import Compare, View
from libranet.engine.overlays import OverlayPainter, heat_tables
from libranet.frames import ColorConverter, FrameFormat, PixelLayout
from libranet.kernels.drawing import reference
from libranet.kernels.drawing.reference import HeatMap, Join, Overlay
from libranet.kernels.samples.reference import SampleCodes
from libranet.runtime import Restored
from libranet.runtime.gpu.support import has_kernels
from libranet.video.visualize import estimate_airlight

Planes = tuple[Tensor, ...]
"""A frame's planes, each [h, w], or one [h, w, 3] of a packed layout."""

TRANSMISSION_STEP = 4
"""The transmission of removed haze is estimated at a quarter of the size, which also averages noise away."""


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
        """Prepare for frames of one format.

        Args:
            source: Of the restored frames.
            target: Of the output; a comparison side by side is twice as wide.
            compare: Show the original, too.
            view: What to show instead of the result.
            turns: Quarter turns counter-clockwise by which a player rotates the frame.
            device: Where the restored frames are.
        """
        device = torch.device(device)
        self.target, self._compare, self._view, self._turns = target, compare, view, turns
        self._source, self._device = source, device
        self.output = _output_format(target, compare, turns)
        self._reader = ColorConverter(source.layout, source.color, device=device)
        same = (source.layout, source.color) == (target.layout, target.color)
        self._writer = None if same else ColorConverter(target.layout, target.color, device=device)
        self._draws = view != "result" or compare is not None
        if self._draws:
            self._joins = _joins(target, compare, turns)
            overlays = _paint(_rotated_format(target, turns), compare, view).overlays(turns, device)
            if compare == "side" and turns in (0, 1):  # what lies on the result moves with it
                overlays = [_moved(overlay, join) for overlay, join in zip(overlays, self._joins, strict=True)]
            self._overlays = overlays
            self._heat = list(zip([table.to(device) for table in heat_tables(target)], _sizes(target), strict=True))
            self._ops, self._extra = _operations(source, device)
            if self._ops is not reference:
                self.draw(self._example())  # compiles the kernels

    def draw(self, restored: Restored) -> Planes:
        """Return the planes to show. They may be those of `restored` itself."""
        if not self._draws:
            return self._convert(restored.after)
        shown: list[Tensor | HeatMap]
        if self._view == "result":
            shown = list(_components(self.target, self._convert(restored.after)))
        else:
            map_ = self._transmission(restored)
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
        return Restored(planes, planes, self._source, torch.ones(1, 1, 4, 4, device=self._device))

    def _convert(self, planes: Planes) -> Planes:
        if self._writer is None:
            return planes
        return tuple(self._writer.encode(self._reader.to_rgb(planes)))

    def _transmission(self, restored: Restored) -> Tensor:  # [h, w] in [0, 1]
        if self._view == "haze":
            assert restored.transmission is not None
            return restored.transmission[0, 0].float().contiguous()
        step = TRANSMISSION_STEP
        size = (-(-self._source.height // step), -(-self._source.width // step))
        small = torch.empty(2, 3, *size, device=self._device)
        for planes, out in zip((restored.before, restored.after), small, strict=True):
            whole = tuple(plane.contiguous() for plane in planes)
            self._ops.small_rgb_out(whole, out, format_=self._source, step=step, **self._extra)
        map_ = torch.empty(size, device=self._device)
        self._ops.removed_haze_out(*small, estimate_airlight(small[:1])[0], map_)
        return map_


def haze_heat_map(
    transmission: Tensor,  # [1, 1, h, w] in [0, 1]
    format_: FrameFormat,
) -> Planes:
    """Draw transmission as a heat map: dark where the air is clear, bright where haze is dense, with a scale."""
    return FrameView(format_, format_, view="haze", device=transmission.device).draw(
        Restored((), (), format_, transmission)
    )


def side_size(layout: PixelLayout, width: int, height: int, turns: int) -> tuple[int, int]:
    """Return width and height of two frames side by side, as a player rotates them, in whole chroma samples."""
    if turns % 2:
        return width, 2 * (height // layout.sub_y * layout.sub_y)
    return 2 * (width // layout.sub_x * layout.sub_x), height


def _operations(source: FrameFormat, device: torch.device) -> tuple[ModuleType, dict[str, Any]]:
    """The module that draws on this device, and what its kernels need to know of the source."""
    if not has_kernels(device):
        return reference, {}
    from libranet.kernels.drawing import triton  # needs Triton

    return triton, {"codes": SampleCodes.make(source, device)}


def _sizes(format_: FrameFormat) -> list[tuple[int, int]]:
    """Height and width of each component."""
    return [format_.plane_sizes[0]] * 3 if format_.layout.packed else format_.plane_sizes


def _moved(overlay: Overlay, join: Join) -> Overlay:
    down, across = (join.shift, 0) if join.axis == 0 else (0, join.shift)
    return replace(overlay, top=overlay.top + down, left=overlay.left + across)


def _components(format_: FrameFormat, planes: Planes) -> tuple[Tensor, ...]:  # each [h, w]
    """Views of the components."""
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


def _paint(upright: FrameFormat, compare: Compare | None, view: View) -> OverlayPainter:
    """The line and the labels of a comparison, the scale of a heat map."""
    painter = OverlayPainter(upright)
    room = upright.height >= 160 and upright.width >= 240
    size = int(min(64, max(12, upright.height // 40)))  # pixels from baseline to capital height
    if view != "result" and room:
        _stamp_scale(painter, size)
    if compare == "split":
        middle, half_line = upright.width // 2, max(1, upright.width // 960)
        painter.fill(0, upright.height, middle - half_line, middle + half_line)
        if room:
            painter.stamp("hazy", (middle - size, size), size, right=True)
            painter.stamp("dehazed", (middle + size, size), size)
    return painter


def _stamp_scale(painter: OverlayPainter, size: int) -> None:
    """Draw a strip of the heat map's colours between labels for its ends."""
    long, border = max(64, painter.width // 8), max(1, size // 12)
    top = painter.height - 4 * size
    left = painter.stamp("clear air", (size, top), size) + size // 2
    top += size // 2
    painter.fill(top - border, top + size + border, left - border, left + long + border)
    painter.draw_scale(top, top + size, left, left + long)
    painter.stamp("dense haze", (left + long + size // 2, top - size // 2), size)

"""What a frame shows: the result, a heat map, or a comparison, drawn in the samples of the output on any device."""

from dataclasses import replace

import torch
from torch import Tensor

from libranet.backends import Restored
from libranet.engine.options import Compare, View
from libranet.frames import ColorConverter, FrameFormat, PixelLayout
from libranet.frames.format import copyable
from libranet.video.visualize import (
    TRANSMISSION_STEP,
    Planes,
    haze_heat_map,
    removed_haze_transmission,
    split_view,
)


class FrameView:
    """Turns restored frames into frames of the output's format. Lines and labels stand upright in a player."""

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
        self.target, self._compare, self._view, self._turns = target, compare, view, turns
        self._reader = ColorConverter(source.layout, source.color, device=device)
        same = (source.layout, source.color) == (target.layout, target.color)
        self._writer = None if same else ColorConverter(target.layout, target.color, device=device)
        self._upright = _rotated_format(target, turns)

    def draw(self, restored: Restored) -> Planes:
        """Return the planes to show. They may be those of `restored` itself."""
        if self._view == "result":
            after = self._convert(restored.after)
        else:
            heat = haze_heat_map(_rotate(self._transmission(restored), self._turns), self._upright)
            after = _rotate_planes(heat, -self._turns)
        if self._compare is None:
            return after
        before = self._convert(restored.before)
        if self._compare == "side":
            return _side_by_side(self.target, before, after, self._turns)
        hazy, clear = (_rotate_planes(planes, self._turns) for planes in (before, after))
        return _rotate_planes(split_view(hazy, clear, self._upright), -self._turns)

    def _convert(self, planes: Planes) -> Planes:
        if self._writer is None:
            return planes
        return tuple(self._writer.encode(self._reader.to_rgb(planes)))

    def _transmission(self, restored: Restored) -> Tensor:  # [1, 1, h, w] in [0, 1]
        if self._view == "haze":
            assert restored.transmission is not None
            return restored.transmission
        small = (self._reader.to_small_rgb(p, TRANSMISSION_STEP) for p in (restored.before, restored.after))
        return removed_haze_transmission(*small)


def side_size(layout: PixelLayout, width: int, height: int, turns: int) -> tuple[int, int]:
    """Return width and height of two frames side by side, as a player rotates them, in whole chroma samples."""
    if turns % 2:
        return width, 2 * (height // layout.sub_y * layout.sub_y)
    return 2 * (width // layout.sub_x * layout.sub_x), height


def _rotate(image: Tensor, turns: int) -> Tensor:  # [1, 1, h, w]
    return torch.rot90(image, turns, (2, 3)) if turns % 4 else image


def _rotate_planes(planes: Planes, turns: int) -> Planes:
    if turns % 4 == 0:
        return planes
    return tuple(torch.rot90(p.view(copyable(p.dtype)), turns, (0, 1)).view(p.dtype) for p in planes)


def _rotated_format(format_: FrameFormat, turns: int) -> FrameFormat:
    if turns % 2 == 0:
        return format_
    layout = replace(format_.layout, sub_x=format_.layout.sub_y, sub_y=format_.layout.sub_x)
    return replace(format_, width=format_.height, height=format_.width, layout=layout)


def _side_by_side(format_: FrameFormat, left: Planes, right: Planes, turns: int) -> Planes:
    """Join planes so that `left` is on the left after `turns` quarter turns counter-clockwise."""
    layout = format_.layout
    size = side_size(layout, format_.width, format_.height, turns)
    axis = 0 if turns % 2 else 1
    joined = []
    for index, (a, b) in enumerate(zip(left, right, strict=True)):
        chroma = layout.model == "yuv" and index in (1, 2)
        step = (layout.sub_y, layout.sub_x)[axis] if chroma else 1
        half = size[1 - axis] // 2 // step
        pair = [a.narrow(axis, 0, half), b.narrow(axis, 0, half)]
        both = a.new_empty([2 * half if dim == axis else length for dim, length in enumerate(a.shape)])
        for part, place in zip(pair if turns in (0, 1) else pair[::-1], both.split(half, dim=axis), strict=True):
            place.copy_(part)
        joined.append(both)
    return tuple(joined)

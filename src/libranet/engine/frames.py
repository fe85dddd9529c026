"""From a decoded frame to the frame to be encoded: convert, restore, carry the change back, draw what was asked for."""

from collections import deque
from dataclasses import replace
from fractions import Fraction

import av
import torch
from torch import Tensor

from libranet.engine.options import Compare, View
from libranet.engine.step import Restored, Step
from libranet.video.color import ColorConverter
from libranet.video.draw import haze_picture, split_picture
from libranet.video.frames import SourceFrame
from libranet.video.pixels import PixelLayout, layout_of, read_planes, write_planes
from libranet.video.tags import VideoTags


class FrameRestorer:
    """Planar frames in, planar frames out, in order. At most look-ahead + 1 frames wait inside."""

    def __init__(
        self,
        step: Step,
        *,
        pixel_format: str,
        height: int,
        tags: VideoTags,
        target_format: str,
        target_tags: VideoTags,
        compare: Compare | None = None,
        view: View = "result",
    ) -> None:
        self._step = step
        self._layout = layout_of(pixel_format)
        self._converter = ColorConverter(self._layout, tags.color_spec(pixel_format, height), device=step.device)
        self._target: ColorConverter | None = None
        self._target_tags = target_tags
        if target_format != pixel_format:
            spec = target_tags.color_spec(target_format, height)
            self._target = ColorConverter(layout_of(target_format), spec, device=step.device)
        self._compare, self._view = compare, view
        self._waiting: deque[tuple[SourceFrame, list[Tensor], Tensor]] = deque()

    def push(self, frame: SourceFrame, *, cut: bool = False) -> list[SourceFrame]:
        """Take a frame and return those that are finished."""
        planes = read_planes(frame.image)
        rgb = self._converter.to_rgb(planes)
        self._waiting.append((frame, planes, rgb))
        return [self._finish(restored) for restored in self._step.push(rgb, cut=cut)]

    def flush(self) -> list[SourceFrame]:
        """Finish the frames still waiting."""
        return [self._finish(restored) for restored in self._step.flush()]

    def _finish(self, restored: Restored) -> SourceFrame:
        frame, planes, rgb = self._waiting.popleft()
        shown = self._shown(rgb, restored)
        if self._target is None:
            result = self._converter.add_change(planes, shown - rgb)
        else:
            result = encode_rgb(self._target, shown)
        if self._compare == "side":
            before = planes if self._target is None else encode_rgb(self._target, rgb)
            result = _side_by_side(self.output_layout, before, result)
        return replace(frame, image=self._pack(frame.image, result))

    @property
    def output_layout(self) -> PixelLayout:
        """The layout of the frames that come out."""
        return self._layout if self._target is None else self._target.layout

    def _shown(self, rgb: Tensor, restored: Restored) -> Tensor:
        if self._view == "haze":
            assert restored.transmission is not None
            picture = haze_picture(restored.transmission, (rgb.shape[-2], rgb.shape[-1]))
        else:
            picture = restored.image
        return split_picture(rgb, picture) if self._compare == "split" else picture

    def _pack(self, carrier: av.VideoFrame, planes: list[Tensor]) -> av.VideoFrame:
        """The planes in the decoded frame itself, which keeps its side data; in a new frame where the shape differs."""
        planes = [plane.cpu() for plane in planes]
        height, width = planes[0].shape
        name = self.output_layout.name
        if (carrier.format.name, carrier.width, carrier.height) == (name, width, height):
            carrier.make_writable()
            write_planes(carrier, planes)
            return carrier
        packed = av.VideoFrame(width, height, name)
        write_planes(packed, planes)
        tags = self._target_tags
        packed.color_range, packed.colorspace = tags.color_range, tags.colorspace
        packed.color_primaries, packed.color_trc = tags.color_primaries, tags.color_trc
        return packed


def encode_rgb(
    converter: ColorConverter,
    rgb: Tensor,  # [1, 3, H, W] in [0, 1]
) -> list[Tensor]:  # planes, each [h, w], int32
    """Planes for a picture that has none of its own: black, plus the picture."""
    height, width = rgb.shape[-2:]
    layout = converter.layout
    small = (-(-height // layout.sub_y), -(-width // layout.sub_x))
    black = []
    for index, value in enumerate(converter.black[: layout.colour_planes]):
        size = small if index and layout.model == "yuv" else (height, width)
        black.append(torch.full(size, round(value), dtype=torch.int32, device=rgb.device))
    return converter.add_change(black, rgb)


def side_size(layout: PixelLayout, width: int, height: int) -> tuple[int, int]:
    """Width and height of a side-by-side picture: whole chroma columns of both halves."""
    return 2 * (width // layout.sub_x * layout.sub_x), height


def target_tags(tags: VideoTags, pixel_format: str, target_format: str, height: int) -> VideoTags:
    """The tags of the output. RGB that has to become YUV takes the matrix of its size and limited range."""
    if pixel_format.startswith("gbr") and target_format.startswith("yuv"):
        return replace(tags, colorspace=1 if height >= 720 else 6, color_range=1)
    return tags


def _side_by_side(layout: PixelLayout, left: list[Tensor], right: list[Tensor]) -> list[Tensor]:
    width = side_size(layout, left[0].shape[1], 0)[0] // 2
    joined = []
    for index, (a, b) in enumerate(zip(left, right, strict=True)):
        columns = width // layout.sub_x if layout.model == "yuv" and index in (1, 2) else width
        joined.append(torch.cat([a.to(b.device)[:, :columns], b[:, :columns]], dim=1))
    return joined


def frame_step(rate: Fraction, time_base: Fraction) -> int:
    """The usual distance of two frames in units of the time base."""
    return max(1, round(1 / (rate * time_base)))

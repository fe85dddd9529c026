"""From a decoded frame to the frame to encode: convert, restore, add the change, draw comparisons and heat maps."""

from collections import deque
from dataclasses import dataclass, replace

import av
import torch
from torch import Tensor

from libranet.backends import Backend, Restored
from libranet.engine.options import Compare, View
from libranet.video.color import ColorConverter
from libranet.video.pixels import PixelLayout, layout_of, read_planes, write_planes
from libranet.video.reader import SourceFrame
from libranet.video.tags import VideoTags
from libranet.video.visualize import haze_heat_map, removed_haze_transmission, split_view

OUTPUT_BUFFERS = 6
"""Sets of arrays for finished frames: as many as can be on their way to the encoder, used in turn, so that a slow
encoder needs no more memory than a fast one.
"""


@dataclass(frozen=True)
class _InputBuffers:
    """A frame's samples, and the RGB image that the network sees."""

    planes: list[Tensor]  # each [h, w], integers
    rgb: Tensor  # [1, 3, H, W] in [0, 1]


@dataclass(frozen=True)
class FinishedFrame:
    """A restored frame whose samples are still in the restorer's arrays. `FrameRestorer.pack` makes a video frame."""

    source: SourceFrame
    planes: list[Tensor]  # each [h, w], integers, in main memory


class FrameRestorer:
    """Planar frames in, planar frames out, in order. At most look-ahead + 1 frames wait inside.

    Waiting and finished frames are in arrays that are reused. New arrays for each frame would be scattered between the
    short-lived arrays of the network, and the gaps would add up: a long video would need more memory. For the same
    reason the encoder's thread calls `pack`, because the encoder keeps those frames for an unknown time.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        pixel_format: str,
        height: int,
        tags: VideoTags,
        target_format: str,
        target_tags: VideoTags,
        compare: Compare | None = None,
        view: View = "result",
    ) -> None:
        self._backend = backend
        self._layout = layout_of(pixel_format)
        self._converter = ColorConverter(self._layout, tags.color_spec(pixel_format, height), device=backend.device)
        self._target: ColorConverter | None = None
        self._target_tags = target_tags
        if target_format != pixel_format:
            spec = target_tags.color_spec(target_format, height)
            self._target = ColorConverter(layout_of(target_format), spec, device=backend.device)
        self._compare, self._view = compare, view
        self._turns = tags.quarter_turns
        self._waiting: deque[tuple[SourceFrame, _InputBuffers]] = deque()
        self._spare: list[_InputBuffers] = []
        self._free: deque[list[Tensor]] = deque()

    def push(self, frame: SourceFrame, *, cut: bool = False) -> list[FinishedFrame]:
        """Take a frame and return the finished ones. `cut` marks the first frame of a shot."""
        buffers = self._read(frame.image)
        self._waiting.append((frame, buffers))
        return [self._finish(restored) for restored in self._backend.push(buffers.rgb, cut=cut)]

    def flush(self) -> list[FinishedFrame]:
        """Finish the frames still waiting."""
        return [self._finish(restored) for restored in self._backend.flush()]

    def pack(self, finished: FinishedFrame) -> SourceFrame:
        """Return the frame to encode. Call it once per frame, on any thread: the arrays are reused afterwards."""
        image = self._image(finished.source.image, finished.planes)
        self._free.append(finished.planes)
        return replace(finished.source, image=image)

    @property
    def output_layout(self) -> PixelLayout:
        """Pixel format of the output frames."""
        return self._layout if self._target is None else self._target.layout

    def _read(self, image: av.VideoFrame) -> _InputBuffers:
        if not self._spare:
            planes = read_planes(image)
            return _InputBuffers(planes, self._converter.to_rgb(planes))
        buffers = self._spare.pop()
        read_planes(image, out=buffers.planes)
        self._converter.to_rgb(buffers.planes, out=buffers.rgb)
        return buffers

    def _finish(self, restored: Restored) -> FinishedFrame:
        frame, buffers = self._waiting.popleft()
        planes, rgb = buffers.planes, buffers.rgb
        shown = self._shown(rgb, restored)
        if self._target is None:
            result = self._converter.add_change(planes, shown.sub_(rgb))
        else:
            result = encode_rgb(self._target, shown)
        if self._compare == "side":
            before = planes if self._target is None else encode_rgb(self._target, rgb)
            result = _side_by_side(self.output_layout, before, result, self._turns)
        output = self._copy_to_output_buffers(result)
        self._spare.append(buffers)
        return FinishedFrame(frame, output)

    def _copy_to_output_buffers(self, planes: list[Tensor]) -> list[Tensor]:
        if not self._free:
            self._free.extend(
                [torch.empty_like(plane, device="cpu") for plane in planes] for _ in range(OUTPUT_BUFFERS)
            )
        output = self._free.popleft()
        for target, plane in zip(output, planes, strict=True):
            target.copy_(plane)
        return output

    def _shown(self, rgb: Tensor, restored: Restored) -> Tensor:
        """Return the image that the options ask for. Lines and labels are drawn on the frame as a player rotates it."""
        image = restored.image
        if self._view != "result":
            upright = _rotate(shown_transmission(self._view, rgb, restored), self._turns)
            size = _rotate(rgb, self._turns).shape
            image = _rotate(haze_heat_map(upright, (size[-2], size[-1])), -self._turns)
        if self._compare == "split":
            upright = split_view(_rotate(rgb, self._turns), _rotate(image, self._turns))
            image = _rotate(upright, -self._turns)
        return image

    def _image(self, carrier: av.VideoFrame, planes: list[Tensor]) -> av.VideoFrame:
        """Write the planes to the decoded frame, which keeps its side data; to a new frame where the shape differs."""
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


def shown_transmission(view: View, rgb: Tensor, restored: Restored) -> Tensor:  # [1, 1, h, w] in [0, 1]
    """Return the transmission for a heat map: that of the removed haze, or the network's own."""
    if view == "removed":
        return removed_haze_transmission(rgb, restored.image)
    assert restored.transmission is not None
    return restored.transmission


def encode_rgb(
    converter: ColorConverter,
    rgb: Tensor,  # [1, 3, H, W] in [0, 1]
) -> list[Tensor]:  # planes, each [h, w], int32
    """Convert an RGB image to planes: black, plus the image."""
    height, width = rgb.shape[-2:]
    layout = converter.layout
    small = (-(-height // layout.sub_y), -(-width // layout.sub_x))
    black = []
    for index, value in enumerate(converter.black[: layout.colour_planes]):
        size = small if index and layout.model == "yuv" else (height, width)
        black.append(torch.full(size, round(value), dtype=torch.int32, device=rgb.device))
    return converter.add_change(black, rgb)


def side_size(layout: PixelLayout, width: int, height: int, turns: int) -> tuple[int, int]:
    """Return width and height of two frames side by side, as a player rotates them, in whole chroma samples."""
    if turns % 2:
        return width, 2 * (height // layout.sub_y * layout.sub_y)
    return 2 * (width // layout.sub_x * layout.sub_x), height


def target_tags(tags: VideoTags, pixel_format: str, target_format: str, height: int) -> VideoTags:
    """Return the tags of the output. RGB that becomes YUV takes the matrix of its size and limited range."""
    if pixel_format.startswith("gbr") and target_format.startswith("yuv"):
        return replace(tags, colorspace=1 if height >= 720 else 6, color_range=1)
    return tags


def _rotate(image: Tensor, turns: int) -> Tensor:
    return torch.rot90(image, turns, (2, 3)) if turns % 4 else image


def _side_by_side(layout: PixelLayout, left: list[Tensor], right: list[Tensor], turns: int) -> list[Tensor]:
    """Join planes so that `left` is on the left after `turns` quarter turns counter-clockwise."""
    height, width = left[0].shape
    size = side_size(layout, width, height, turns)
    axis = 0 if turns % 2 else 1
    joined = []
    for index, (a, b) in enumerate(zip(left, right, strict=True)):
        chroma = layout.model == "yuv" and index in (1, 2)
        step = (layout.sub_y, layout.sub_x)[axis] if chroma else 1
        half = size[1 - axis] // 2 // step
        pair = [a.to(b.device).narrow(axis, 0, half), b.narrow(axis, 0, half)]
        joined.append(torch.cat(pair if turns in (0, 1) else pair[::-1], dim=axis))
    return joined

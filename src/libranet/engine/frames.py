"""From a decoded frame to the frame to be encoded: convert, restore, carry the change back, draw what was asked for."""

from collections import deque
from dataclasses import dataclass, replace
from fractions import Fraction

import av
import torch
from torch import Tensor

from libranet.backends import Backend, Restored
from libranet.engine.options import Compare, View
from libranet.video.color import ColorConverter
from libranet.video.draw import haze_picture, split_picture
from libranet.video.frames import SourceFrame
from libranet.video.pixels import PixelLayout, layout_of, read_planes, write_planes
from libranet.video.tags import VideoTags
from libranet.video.veil import implied_transmission

HELD_FRAMES = 6
"""Sets of arrays for finished frames: as many as can be on their way to the encoder, used in turn, so that a slow
encoder needs no more memory than a fast one.
"""


@dataclass(frozen=True)
class _Seen:
    """A frame's samples and what the network sees of them."""

    planes: list[Tensor]  # each [h, w], integers
    rgb: Tensor  # [1, 3, H, W] in [0, 1]


@dataclass(frozen=True)
class Finished:
    """A restored frame whose samples still lie in the restorer's arrays; `FrameRestorer.pack` makes a frame of it."""

    source: SourceFrame
    planes: list[Tensor]  # each [h, w], integers, in main memory


class FrameRestorer:
    """Planar frames in, planar frames out, in order. At most look-ahead + 1 frames wait inside.

    Waiting and finished frames lie in arrays that are used again and again. Allocated anew they would lie scattered
    between the short-lived arrays of the network, and the gaps would add up: a long video would need more memory. For
    the same reason `pack`, whose frames the encoder keeps as long as it likes, is for the thread that encodes.
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
        self._waiting: deque[tuple[SourceFrame, _Seen]] = deque()
        self._spare: list[_Seen] = []
        self._free: deque[list[Tensor]] = deque()

    def push(self, frame: SourceFrame, *, cut: bool = False) -> list[Finished]:
        """Take a frame and return those that are finished."""
        seen = self._see(frame.image)
        self._waiting.append((frame, seen))
        return [self._finish(restored) for restored in self._backend.push(seen.rgb, cut=cut)]

    def flush(self) -> list[Finished]:
        """Finish the frames still waiting."""
        return [self._finish(restored) for restored in self._backend.flush()]

    def pack(self, finished: Finished) -> SourceFrame:
        """The frame to be encoded. Once per frame, on any thread: its arrays are used again."""
        image = self._image(finished.source.image, finished.planes)
        self._free.append(finished.planes)
        return replace(finished.source, image=image)

    def _see(self, image: av.VideoFrame) -> _Seen:
        if not self._spare:
            planes = read_planes(image)
            return _Seen(planes, self._converter.to_rgb(planes))
        seen = self._spare.pop()
        read_planes(image, out=seen.planes)
        self._converter.to_rgb(seen.planes, out=seen.rgb)
        return seen

    def _finish(self, restored: Restored) -> Finished:
        frame, seen = self._waiting.popleft()
        planes, rgb = seen.planes, seen.rgb
        shown = self._shown(rgb, restored)
        if self._target is None:
            result = self._converter.add_change(planes, shown.sub_(rgb))
        else:
            result = encode_rgb(self._target, shown)
        if self._compare == "side":
            before = planes if self._target is None else encode_rgb(self._target, rgb)
            result = _side_by_side(self.output_layout, before, result, self._turns)
        held = self._hold(result)
        self._spare.append(seen)
        return Finished(frame, held)

    def _hold(self, planes: list[Tensor]) -> list[Tensor]:
        """The planes in main memory, in arrays of an earlier frame where there are some."""
        if not self._free:
            self._free.extend([torch.empty_like(plane, device="cpu") for plane in planes] for _ in range(HELD_FRAMES))
        held = self._free.popleft()
        for target, plane in zip(held, planes, strict=True):
            target.copy_(plane)
        return held

    @property
    def output_layout(self) -> PixelLayout:
        """The layout of the frames that come out."""
        return self._layout if self._target is None else self._target.layout

    def _shown(self, rgb: Tensor, restored: Restored) -> Tensor:
        """What the viewer asked for. Lines and words are drawn as a player turns the picture."""
        picture = restored.image
        if self._view != "result":
            upright = _turn(shown_transmission(self._view, rgb, restored), self._turns)
            size = _turn(rgb, self._turns).shape
            picture = _turn(haze_picture(upright, (size[-2], size[-1])), -self._turns)
        if self._compare == "split":
            upright = split_picture(_turn(rgb, self._turns), _turn(picture, self._turns))
            picture = _turn(upright, -self._turns)
        return picture

    def _image(self, carrier: av.VideoFrame, planes: list[Tensor]) -> av.VideoFrame:
        """The planes in the decoded frame itself, which keeps its side data; in a new frame where the shape differs."""
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
    """The transmission behind a heat map: the network's own, or the one that its result implies."""
    if view == "veil":
        return implied_transmission(rgb, restored.image)
    assert restored.transmission is not None
    return restored.transmission


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


def side_size(layout: PixelLayout, width: int, height: int, turns: int) -> tuple[int, int]:
    """Width and height of both, side by side as a player turns the picture: whole chroma samples of each."""
    if turns % 2:
        return width, 2 * (height // layout.sub_y * layout.sub_y)
    return 2 * (width // layout.sub_x * layout.sub_x), height


def target_tags(tags: VideoTags, pixel_format: str, target_format: str, height: int) -> VideoTags:
    """The tags of the output. RGB that has to become YUV takes the matrix of its size and limited range."""
    if pixel_format.startswith("gbr") and target_format.startswith("yuv"):
        return replace(tags, colorspace=1 if height >= 720 else 6, color_range=1)
    return tags


def _turn(picture: Tensor, turns: int) -> Tensor:
    return torch.rot90(picture, turns, (2, 3)) if turns % 4 else picture


def _side_by_side(layout: PixelLayout, left: list[Tensor], right: list[Tensor], turns: int) -> list[Tensor]:
    """Join planes so that `left` is on the left after `turns` quarter turns against the clock."""
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


def frame_step(rate: Fraction, time_base: Fraction) -> int:
    """The usual distance of two frames in units of the time base."""
    return max(1, round(1 / (rate * time_base)))

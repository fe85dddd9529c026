"""Another size for the output: what `--scale` means, and the scaling itself."""

import re
from dataclasses import replace
from fractions import Fraction

import av
import av.filter

from libranet.errors import InputError
from libranet.frames.format import PixelLayout
from libranet.video.pixels import plane_views
from libranet.video.pyav import filter_graph
from libranet.video.tags import VideoTags

_SIZE = re.compile(r"(\d{1,5})x(\d{1,5})")
_LINES = re.compile(r"(\d{1,5})p")
_SHARE = re.compile(r"(\d{1,4})/(\d{1,4})")
_LEAST, _MOST = 16, 16384
_SAME_SHAPE = Fraction(1, 100)
"""Sizes are whole samples: a change of the aspect ratio below this is rounding."""
_ANY_BASE = Fraction(1, 1000)
"""For frames without a time: the filter wants one."""
_FILTER = "w={}:h={}:flags=lanczos+accurate_rnd"


def check_scale(text: str) -> None:
    """Refuse what `scaled_size` does not take.

    Raises:
        InputError: It is no size, number of lines or fraction.
    """
    share = _SHARE.fullmatch(text)
    if not (_SIZE.fullmatch(text) or _LINES.fullmatch(text) or (share and int(share[1]) and int(share[2]))):
        raise InputError(f"expected --scale as a size such as 1280x720, as lines such as 720p, or as 1/2, got {text!r}")


def scaled_size(text: str, width: int, height: int, *, layout: PixelLayout, turns: int = 0) -> tuple[int, int]:
    """Return the size of a scaled frame, in whole chroma samples.

    Args:
        text: 1280x720 as a player shows it; 720p, which makes the shorter side 720 and keeps the aspect ratio; or a
            fraction of both sides such as 1/2.
        width: Of the frame.
        height: Of the frame.
        layout: Pixel format of the output.
        turns: Quarter turns by which a player rotates the frame.

    Raises:
        InputError: The result would be too small or too large.
    """
    check_scale(text)
    if size := _SIZE.fullmatch(text):
        wanted = (Fraction(size[1]), Fraction(size[2]))
        wanted = wanted[::-1] if turns % 2 else wanted
    else:
        lines, share = _LINES.fullmatch(text), _SHARE.fullmatch(text)
        factor = Fraction(int(lines[1]), min(width, height)) if lines else Fraction(share[0] if share else "1")
        wanted = (width * factor, height * factor)
    found = tuple(
        max(1, round(side / step)) * step for side, step in zip(wanted, (layout.sub_x, layout.sub_y), strict=True)
    )
    if not (min(found) >= _LEAST and max(found) <= _MOST):
        raise InputError(
            f"--scale {text} gives frames of {found[0]}x{found[1]}: expected sides from {_LEAST} to {_MOST} pixels"
        )
    return found[0], found[1]


def scaled_tags(tags: VideoTags, before: tuple[int, int], after: tuple[int, int]) -> VideoTags:
    """Return the tags of scaled frames. Another aspect ratio changes that of pixels: players show the same shape."""
    stretch = Fraction(before[0] * after[1], before[1] * after[0])
    if abs(stretch - 1) < _SAME_SHAPE:
        return tags
    shape = (tags.sample_aspect_ratio or Fraction(1)) * stretch
    return replace(tags, sample_aspect_ratio=shape.limit_denominator(1000))


class FrameScaler:
    """Scales planar frames with FFmpeg's Lanczos filter, each plane on its own. Side data stays on the frame."""

    def __init__(self, width: int, height: int) -> None:
        self._size = (width, height)
        self._graph: av.filter.Graph | None = None

    def scale(self, frame: av.VideoFrame) -> av.VideoFrame:
        """Return the frame in the new size: itself where it has that size already."""
        if (frame.width, frame.height) == self._size:
            return frame
        color_range, matrix = frame.color_range, frame.colorspace
        base = frame.time_base or _ANY_BASE
        name = frame.format.name
        given = _relabelled(frame, name.replace("gbra", "yuva444").replace("gbr", "yuv444"))
        # Without tags the filter has no reason to convert colours.
        given.color_range, given.colorspace = 0, 2
        given.time_base = base
        if self._graph is None:
            self._graph = filter_graph(given, base, "scale", _FILTER.format(*self._size))
        self._graph.push(given)
        scaled = self._graph.pull()
        assert isinstance(scaled, av.VideoFrame)
        scaled = _relabelled(scaled, name)
        for tagged in (frame, scaled):
            tagged.color_range, tagged.colorspace = color_range, matrix
        return scaled


def _relabelled(frame: av.VideoFrame, name: str) -> av.VideoFrame:
    """Return the planes under the name of another format. FFmpeg would scale RGB by way of YUV, and round."""
    if frame.format.name == name:
        return frame
    other = av.VideoFrame(frame.width, frame.height, name)
    for target, source in zip(plane_views(other), plane_views(frame), strict=True):
        target[...] = source
    other.color_primaries, other.color_trc = frame.color_primaries, frame.color_trc
    other.pts = frame.pts
    return other

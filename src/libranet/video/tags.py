"""What a video says about its pictures besides the samples: colour, shape, orientation, mastering display."""

import re
import struct
from dataclasses import dataclass
from fractions import Fraction
from threading import Lock
from typing import cast, get_args

import av
import av.filter
import av.logging

from libranet.video.color import ColorSpec, Siting, matrix_of_tag
from libranet.video.pyav import side_data

_MASTERING_FORMAT = "<20i2i"
"""AVMasteringDisplayMetadata: ten rationals (r, g, b, white as x and y; least and greatest luminance), two flags."""
_LOG_LOCK = Lock()


@dataclass(frozen=True)
class MasteringDisplay:
    """SMPTE ST 2086: the display a HDR video was graded on."""

    red: tuple[Fraction, Fraction]
    green: tuple[Fraction, Fraction]
    blue: tuple[Fraction, Fraction]
    white: tuple[Fraction, Fraction]
    least: Fraction
    """Least luminance in cd/m2."""
    greatest: Fraction
    """Greatest luminance in cd/m2."""


@dataclass(frozen=True)
class VideoTags:
    """Everything that has to survive besides samples and timestamps. Numbers are FFmpeg's (H.273)."""

    color_range: int = 0
    colorspace: int = 2
    color_primaries: int = 2
    color_trc: int = 2
    chroma_location: str = "unspecified"
    sample_aspect_ratio: Fraction | None = None
    display_matrix: tuple[int, ...] | None = None
    mastering: MasteringDisplay | None = None
    light_level: tuple[int, int] | None = None
    """MaxCLL and MaxFALL in cd/m2."""

    @property
    def quarter_turns(self) -> int:
        """How many times a player turns the picture by 90 degrees against the clock."""
        matrix = self.display_matrix or (1, 0, 0, 0, 1)
        across, down = ((value > 0) - (value < 0) for value in (matrix[0], matrix[1]))
        return {(1, 0): 0, (0, -1): 1, (-1, 0): 2, (0, 1): 3}.get((across, down), 0)

    def color_spec(self, pixel_format: str, height: int) -> ColorSpec:
        """How to convert the samples to RGB. Untagged YUV is limited range; untagged RGB and gray are full range."""
        rgb = pixel_format.startswith(("gbr", "gray"))
        full = self.color_range == 2 or (self.color_range == 0 and rgb)
        known = self.chroma_location in get_args(Siting)
        siting = cast(Siting, self.chroma_location) if known else "left"
        matrix = "bt709" if rgb else matrix_of_tag(self.colorspace, height)
        return ColorSpec(matrix, full, siting)


def read_tags(frame: av.VideoFrame, stream: av.VideoStream) -> VideoTags:
    """Collect the tags of a video from its stream and its first frame."""
    context = stream.codec_context
    location, frame_sar = _show_info(frame, stream.time_base or Fraction(1, 1000))
    full = frame.format.name.startswith("yuvj")
    matrix = side_data(frame, "DISPLAYMATRIX")
    light = side_data(frame, "CONTENT_LIGHT_LEVEL")
    return VideoTags(
        color_range=2 if full else int(frame.color_range or context.color_range or 0),
        colorspace=_first_known(int(frame.colorspace), int(context.colorspace)),
        color_primaries=_first_known(int(frame.color_primaries), int(context.color_primaries)),
        color_trc=_first_known(int(frame.color_trc), int(context.color_trc)),
        chroma_location=location,
        sample_aspect_ratio=stream.sample_aspect_ratio or frame_sar,
        display_matrix=struct.unpack("<9i", matrix) if matrix else None,
        mastering=_mastering(side_data(frame, "MASTERING_DISPLAY_METADATA")),
        light_level=struct.unpack("<2I", light[:8]) if light else None,
    )


def _first_known(*tags: int) -> int:
    return next((tag for tag in tags if tag != 2), 2)


def _mastering(raw: bytes | None) -> MasteringDisplay | None:
    if raw is None or len(raw) < struct.calcsize(_MASTERING_FORMAT):
        return None
    *numbers, has_primaries, has_luminance = struct.unpack_from(_MASTERING_FORMAT, raw)
    if not (has_primaries and has_luminance):
        return None
    values = [Fraction(n, d or 1) for n, d in zip(numbers[::2], numbers[1::2], strict=True)]
    points = [(values[i], values[i + 1]) for i in range(0, 8, 2)]
    return MasteringDisplay(points[0], points[1], points[2], points[3], values[8], values[9])


def _show_info(frame: av.VideoFrame, time_base: Fraction) -> tuple[str, Fraction | None]:
    """Chroma location and sample aspect ratio of a frame.

    PyAV has no attribute for either; FFmpeg's `showinfo` filter prints both to the log, where they can be read.
    """
    graph = av.filter.Graph()
    source = graph.add_buffer(width=frame.width, height=frame.height, format=frame.format, time_base=time_base)
    show, sink = graph.add("showinfo", "checksum=0"), graph.add("buffersink")
    source.link_to(show)
    show.link_to(sink)
    with _LOG_LOCK:
        level = av.logging.get_level()
        av.logging.set_level(av.logging.INFO)
        try:
            with av.logging.Capture(local=True) as logs:
                graph.configure()
                graph.push(frame)
                graph.pull()
        finally:
            av.logging.set_level(level)
    text = "".join(entry[2] for entry in logs)
    location = re.search(r"\bcl:(\w+)", text)
    aspect = re.search(r"\bsar:(\d+)/(\d+)", text)
    sar = Fraction(int(aspect[1]), int(aspect[2])) if aspect and int(aspect[1]) and int(aspect[2]) else None
    return (location[1] if location else "unspecified"), sar

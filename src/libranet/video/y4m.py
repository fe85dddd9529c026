"""Raw frames for another program: the YUV4MPEG2 format."""

from fractions import Fraction
from typing import IO

import av

from libranet.errors import InputError
from libranet.video.pixels import layout_of, plane_views
from libranet.video.tags import VideoTags

_CHROMA = {(2, 2): "420", (2, 1): "422", (1, 1): "444", (4, 1): "411"}
_SITING = {"center": "420jpeg", "left": "420mpeg2", "topleft": "420paldv"}


def y4m_header(width: int, height: int, rate: Fraction, pixel_format: str, tags: VideoTags) -> bytes:
    """Return the first line of a YUV4MPEG2 stream. More than 8 bits use FFmpeg's widely read extension."""
    layout = layout_of(pixel_format)
    if layout.model == "rgb" or (layout.sub_x, layout.sub_y) not in _CHROMA or layout.alpha:
        raise InputError(f"y4m cannot hold {pixel_format} frames: write to a file instead")
    if layout.model == "gray":
        chroma = "mono" if layout.bits == 8 else f"mono{layout.bits}"
    else:
        chroma = _CHROMA[layout.sub_x, layout.sub_y]
        if layout.bits > 8:
            chroma = f"{chroma}p{layout.bits} XYSCSS={chroma.upper()}P{layout.bits}"
        elif chroma == "420":
            chroma = _SITING.get(tags.chroma_location, "420jpeg")
    aspect = tags.sample_aspect_ratio or Fraction(0, 1)
    shape = f"A{aspect.numerator}:{aspect.denominator}" if aspect else "A0:0"
    levels = {1: " XCOLORRANGE=LIMITED", 2: " XCOLORRANGE=FULL"}.get(tags.color_range, "")
    text = f"YUV4MPEG2 W{width} H{height} F{rate.numerator}:{rate.denominator} Ip {shape} C{chroma}{levels}\n"
    return text.encode()


def write_y4m_frame(file: IO[bytes], frame: av.VideoFrame) -> None:
    file.write(b"FRAME\n")
    for view in plane_views(frame):
        file.write(view.tobytes())
    file.flush()

"""Tags of a video: colour, pixel aspect ratio, rotation, HDR mastering display."""

import io
import re
import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import cast, get_args

import av

from libranet.errors import InputError
from libranet.frames.format import ColorSpec, Matrix, Siting
from libranet.video.ebml import TRACK_ENTRY, TRACKS, VIDEO, child, children, read_sections
from libranet.video.pyav import side_data

_MASTERING_FORMAT = "<20i2i"
"""AVMasteringDisplayMetadata: ten rationals (r, g, b, white as x and y; min and max luminance), two flags."""
_CHROMA_LOCATIONS = ("unspecified", "left", "center", "topleft", "top", "bottomleft", "bottom")
"""FFmpeg's names in the order of its numbers."""

_CENTRED = ("h263", "h263p", "speedhq")
"""Codecs whose chroma samples always lie between those of luma; FFmpeg says so on its frames alone."""
_MATRIX_OF_TAG: dict[int, Matrix] = {1: "bt709", 4: "fcc", 5: "bt601", 6: "bt601", 7: "smpte240m", 9: "bt2020"}
_UNSPECIFIED_TAGS = (0, 2, 3)

_NAMES = {
    "colorspace": "the colour matrix", "color_primaries": "the colour primaries", "color_trc": "the transfer function",
    "mastering": "the mastering display", "light_level": "the light levels (MaxCLL and MaxFALL)",
}  # fmt: skip
_OF_HDR = ("mastering", "light_level")
"""Containers round their numbers."""

_COLOUR, _SITING_HORIZONTAL, _SITING_VERTICAL = 0x55B0, 0x55B7, 0x55B8


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
    """Everything that has to survive besides samples and timestamps. The numbers are those of H.273, as in FFmpeg."""

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
        """How many times a player rotates the frame by 90 degrees counter-clockwise."""
        matrix = self.display_matrix or (1, 0, 0, 0, 1)
        across, down = ((value > 0) - (value < 0) for value in (matrix[0], matrix[1]))
        return {(1, 0): 0, (0, -1): 1, (-1, 0): 2, (0, 1): 3}.get((across, down), 0)

    def color_spec(self, pixel_format: str, height: int) -> ColorSpec:
        """Return how to convert samples to RGB. Untagged YUV is limited range; untagged RGB and gray are full range."""
        rgb = pixel_format.startswith(("gbr", "gray"))
        full = self.color_range == 2 or (self.color_range == 0 and rgb)
        known = self.chroma_location in get_args(Siting)
        siting = cast(Siting, self.chroma_location) if known else "left"
        matrix = "bt709" if rgb else matrix_of_tag(self.colorspace, height)
        return ColorSpec(matrix, full, siting)


def matrix_of_tag(tag: int, height: int) -> Matrix:
    """Return the matrix of a colour space tag. Untagged video is BT.709 from 720 lines on, BT.601 below.

    Raises:
        InputError: The matrix is not supported.
    """
    if tag in _UNSPECIFIED_TAGS:
        return "bt709" if height >= 720 else "bt601"
    if tag not in _MATRIX_OF_TAG:
        raise InputError(
            f"the colour matrix with tag {tag} (such as YCgCo, ICtCp, constant luminance) is not supported: "
            "convert the video to BT.709 or BT.2020 first"
        )
    return _MATRIX_OF_TAG[tag]


def read_tags(frame: av.VideoFrame, stream: av.VideoStream) -> VideoTags:
    """Collect the tags of a video from its stream and its first frame."""
    context = stream.codec_context
    full = frame.format.name.startswith("yuvj")
    matrix = side_data(frame, "DISPLAYMATRIX")
    light = side_data(frame, "CONTENT_LIGHT_LEVEL")
    return VideoTags(
        color_range=2 if full else int(frame.color_range or context.color_range or 0),
        colorspace=_first_known(int(frame.colorspace), int(context.colorspace)),
        color_primaries=_first_known(int(frame.color_primaries), int(context.color_primaries)),
        color_trc=_first_known(int(frame.color_trc), int(context.color_trc)),
        chroma_location=_chroma_location(frame, stream),
        sample_aspect_ratio=stream.sample_aspect_ratio or context.sample_aspect_ratio,
        display_matrix=struct.unpack("<9i", matrix) if matrix else None,
        mastering=_mastering(side_data(frame, "MASTERING_DISPLAY_METADATA")),
        light_level=struct.unpack("<2I", light[:8]) if light else None,
    )


def lost_tags(before: VideoTags, after: VideoTags, suffix: str, *, rgb: bool) -> list[str]:
    """Return a sentence for the tags that an output does not give back. RGB has no colour matrix."""
    notes, matrix = [], before.display_matrix
    turned = matrix is not None and (matrix[0] < 0 or matrix[4] < 0 or matrix[1] != 0 or matrix[3] != 0)
    if turned and after.display_matrix is None:
        notes.append(f"the rotation is left out: {suffix} has no place for it, and players will show frames turned")
    lost = []
    for name, words in _NAMES.items():
        value, found = getattr(before, name), getattr(after, name)
        same = found is not None if name in _OF_HDR else found == value or (rgb and name == "colorspace")
        if value is not None and value not in _UNSPECIFIED_TAGS and not same:
            lost.append(words)
    if lost:
        verb, pronoun = ("is", "it") if len(lost) == 1 else ("are", "them")
        notes.append(f"{', '.join(lost)} {verb} left out: {suffix} has no place for {pronoun}")
    return notes


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


def track_entry(stream: av.VideoStream) -> list[tuple[int, bytes]]:
    """Return the elements that FFmpeg's Matroska muxer would write for a stream of any container.

    PyAV does not list what FFmpeg knows about a stream. The muxer gets all of it, so its header is written to memory.
    """
    file = io.BytesIO()
    try:
        with av.open(file, "w", format="matroska") as probe:
            probe.add_stream_from_template(stream, opaque=True)
            probe.start_encoding()
    except (av.FFmpegError, ValueError):
        return []
    return children(child(read_sections(file).get(TRACKS, b""), TRACK_ENTRY))


def _chroma_location(frame: av.VideoFrame, stream: av.VideoStream) -> str:
    """Return where chroma samples lie. PyAV 19 has an attribute; PyAV 18 tells only its own muxers.

    Matroska's header knows all locations but the two at the bottom. Y4m states the location in its own header.
    """
    if (known := getattr(frame, "chroma_location", None)) is not None:
        return _CHROMA_LOCATIONS[int(known)]
    if stream.codec_context.name == "rawvideo" and stream.container.format.name == "yuv4mpegpipe":
        return _y4m_location(stream)
    if stream.codec_context.name in _CENTRED:
        return "center"
    colour = dict(children(child(dict(track_entry(stream)).get(VIDEO, b""), _COLOUR)))
    across, down = (int.from_bytes(colour.get(key, b""), "big") for key in (_SITING_HORIZONTAL, _SITING_VERTICAL))
    return {(1, 1): "topleft", (1, 2): "left", (2, 1): "top", (2, 2): "center"}.get((across, down), "unspecified")


def _y4m_location(stream: av.VideoStream) -> str:
    file = io.BytesIO()
    try:
        with av.open(file, "w", format="yuv4mpegpipe") as probe:
            probe.add_stream_from_template(stream, opaque=True)
            probe.start_encoding()
    except (av.FFmpegError, ValueError):
        return "unspecified"
    match = re.search(rb" C420(jpeg|mpeg2|paldv)\b", file.getvalue())
    return {b"jpeg": "center", b"mpeg2": "left", b"paldv": "topleft"}[match[1]] if match else "unspecified"

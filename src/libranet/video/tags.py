"""Tags of a video: colour, pixel aspect ratio, rotation, HDR mastering display; written to Matroska by hand.

PyAV cannot pass the pixel aspect ratio and the mastering display to FFmpeg's Matroska muxer. So the muxer gets a long
track title, and `write_matroska_tags` rewrites the track entry in the same number of bytes: the real title, the missing
elements, and empty space for the rest. No other byte of the file moves.
"""

import io
import re
import struct
import zlib
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import cast, get_args

import av

from libranet.errors import InputError
from libranet.frames.format import ColorSpec, Matrix, Siting
from libranet.video.pyav import side_data

_MASTERING_FORMAT = "<20i2i"
"""AVMasteringDisplayMetadata: ten rationals (r, g, b, white as x and y; min and max luminance), two flags."""
_CHROMA_LOCATIONS = ("unspecified", "left", "center", "topleft", "top", "bottomleft", "bottom")
"""FFmpeg's names in the order of its numbers."""

TITLE_FILLER = "~" * 320
"""Appended to the track's title: space for the Matroska elements below."""

_MATRIX_OF_TAG: dict[int, Matrix] = {1: "bt709", 4: "fcc", 5: "bt601", 6: "bt601", 7: "smpte240m", 9: "bt2020"}
_UNSPECIFIED_TAGS = (0, 2, 3)

_HEAD_LIMIT = 16 << 20
_SEGMENT, _TRACKS, _TRACK_ENTRY = 0x18538067, 0x1654AE6B, 0xAE
_VIDEO, _NAME, _VOID, _CRC = 0xE0, 0x536E, 0xEC, 0xBF
_PIXEL_WIDTH, _PIXEL_HEIGHT = 0xB0, 0xBA
_DISPLAY_WIDTH, _DISPLAY_HEIGHT, _DISPLAY_UNIT = 0x54B0, 0x54BA, 0x54B2
_SITING_HORIZONTAL, _SITING_VERTICAL = 0x55B7, 0x55B8
_COLOUR, _MAX_CLL, _MAX_FALL, _MASTERING = 0x55B0, 0x55BC, 0x55BD, 0x55D0


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


def _chroma_location(frame: av.VideoFrame, stream: av.VideoStream) -> str:
    """Return where chroma samples lie. PyAV 19 has an attribute; PyAV 18 tells only its own muxers.

    So a Matroska header for this stream is written to memory, and read. It knows all locations but the two at the
    bottom. Y4m states the location in its own header.
    """
    if (known := getattr(frame, "chroma_location", None)) is not None:
        return _CHROMA_LOCATIONS[int(known)]
    pipe = stream.codec_context.name == "rawvideo" and stream.container.format.name == "yuv4mpegpipe"
    file = io.BytesIO()
    try:
        with av.open(file, "w", format="yuv4mpegpipe" if pipe else "matroska") as probe:
            probe.add_stream_from_template(stream, opaque=True)
            probe.start_encoding()
    except (av.FFmpegError, ValueError):
        return "unspecified"
    if pipe:
        match = re.search(rb" C420(jpeg|mpeg2|paldv)\b", file.getvalue())
        return {b"jpeg": "center", b"mpeg2": "left", b"paldv": "topleft"}[match[1]] if match else "unspecified"
    return _matroska_location(file.getvalue())


def _matroska_location(head: bytes) -> str:
    start, end = _find_tracks(head)
    video = _child(_child(head[start:end], _TRACK_ENTRY), _VIDEO)
    colour = dict(_children(_child(video, _COLOUR)))
    across, down = (int.from_bytes(colour.get(key, b""), "big") for key in (_SITING_HORIZONTAL, _SITING_VERTICAL))
    return {(1, 1): "topleft", (1, 2): "left", (2, 1): "top", (2, 2): "center"}.get((across, down), "unspecified")


def _child(data: bytes, ident: int) -> bytes:
    return next((content for found, content in _children(data) if found == ident), b"")


def write_matroska_tags(path: Path, tags: VideoTags, title: str) -> None:
    """Write sample aspect ratio, mastering display and light level into a finished Matroska or WebM file.

    Args:
        path: The file, muxed with `TITLE_FILLER` at the end of its video track's title.
        tags: The tags to write.
        title: The track's real title.
    """
    with path.open("r+b") as file:
        head = file.read(_HEAD_LIMIT)
        start, end = _find_tracks(head)
        at, pieces, checksum = start, [], False
        while at < end:
            ident, size, content = _header(head, at)
            data = head[content : content + size]
            if ident == _CRC:
                checksum = True
            elif ident == _TRACK_ENTRY and TITLE_FILLER.encode() in data:
                pieces.append(head[at:content] + _tagged_entry(data, tags, title))
            else:
                pieces.append(head[at : content + size])
            at = content + size
        body = b"".join(pieces)
        if checksum:
            body = _element(_CRC, struct.pack("<I", zlib.crc32(body))) + body
        if len(body) != end - start:
            raise AssertionError(f"the rewritten track list has {len(body)} bytes instead of {end - start}")
        file.seek(start)
        file.write(body)


def _find_tracks(head: bytes) -> tuple[int, int]:
    """Return where the content of the track list begins and ends."""
    at = 0
    while at < len(head):
        ident, size, content = _header(head, at)
        if ident == _TRACKS:
            return content, content + size
        at = content if ident == _SEGMENT else content + size
    raise AssertionError("a Matroska file without a track list")


def _tagged_entry(entry: bytes, tags: VideoTags, title: str) -> bytes:
    parts = []
    for ident, data in _children(entry):
        if ident == _NAME:
            if title:
                parts.append(_element(_NAME, title.encode(errors="surrogateescape")))
        elif ident == _VIDEO:
            parts.append(_element(_VIDEO, _tagged_video(data, tags)))
        else:
            parts.append(_element(ident, data))
    tagged = b"".join(parts)
    return tagged + _void(len(entry) - len(tagged))


def _tagged_video(video: bytes, tags: VideoTags) -> bytes:
    children = dict(_children(video))
    if tags.sample_aspect_ratio not in (None, Fraction(1)):
        assert tags.sample_aspect_ratio is not None
        width, height = (int.from_bytes(children[key], "big") for key in (_PIXEL_WIDTH, _PIXEL_HEIGHT))
        shown = tags.sample_aspect_ratio * width
        unit = 0
        if shown.denominator != 1:  # not a whole number of pixels: state the aspect ratio of the frame instead
            ratio = shown / height
            shown, height, unit = Fraction(ratio.numerator), ratio.denominator, 3
        children[_DISPLAY_WIDTH], children[_DISPLAY_HEIGHT] = _number(int(shown)), _number(height)
        if unit:
            children[_DISPLAY_UNIT] = _number(unit)
        else:
            children.pop(_DISPLAY_UNIT, None)
    colour = dict(_children(children.get(_COLOUR, b"")))
    if tags.light_level is not None:
        colour[_MAX_CLL], colour[_MAX_FALL] = (_number(value) for value in tags.light_level)
    if tags.mastering is not None:
        m = tags.mastering
        values = (*m.red, *m.green, *m.blue, *m.white, m.greatest, m.least)
        colour[_MASTERING] = b"".join(
            _element(0x55D1 + index, struct.pack(">d", float(value))) for index, value in enumerate(values)
        )
    if colour:
        children[_COLOUR] = b"".join(_element(ident, data) for ident, data in colour.items())
    return b"".join(_element(ident, data) for ident, data in children.items())


def _children(data: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at < len(data):
        ident, size, content = _header(data, at)
        found.append((ident, data[content : content + size]))
        at = content + size
    return found


def _header(data: bytes, at: int) -> tuple[int, int, int]:
    """Return identifier, size and position of the content of the element at `at`."""
    length = 9 - data[at].bit_length()
    ident = int.from_bytes(data[at : at + length], "big")
    at += length
    length = 9 - data[at].bit_length()
    size = int.from_bytes(data[at : at + length], "big") & ((1 << (7 * length)) - 1)
    return ident, size, at + length


def _element(ident: int, content: bytes) -> bytes:
    name = ident.to_bytes((ident.bit_length() + 7) // 8, "big")
    size = len(content)
    length = next(n for n in range(1, 9) if size < (1 << (7 * n)) - 1)
    return name + (size | 1 << (7 * length)).to_bytes(length, "big") + content


def _number(value: int) -> bytes:
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def _void(size: int) -> bytes:
    """Make an empty element of exactly `size` bytes."""
    if size == 0:
        return b""
    for length in range(1, 9):
        content = size - 1 - length
        if 0 <= content < (1 << (7 * length)) - 1:
            return bytes([_VOID]) + (content | 1 << (7 * length)).to_bytes(length, "big") + bytes(content)
    raise AssertionError(f"no empty element has {size} bytes: the filler is too short")

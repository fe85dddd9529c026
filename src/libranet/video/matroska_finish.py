"""What FFmpeg's muxer does not write into Matroska files: written into a finished one.

The muxer gets a long title of the video. Afterwards the tracks are written again in the same number of bytes, with the
real title, the missing elements, and empty space for the rest. No other byte of the file moves. What else FFmpeg's
muxer does not write, such as nested chapters and the targets of tags, is named by `file_facts.py`.
"""

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import IO

from libranet.video.ebml import (
    CRC,
    CROPS,
    PROJECTION,
    STEREO,
    TRACK_ENTRY,
    TRACKS,
    VIDEO,
    VOID,
    children,
    element,
    is_rotation,
    number,
    section_places,
    void,
)
from libranet.video.matroska_extras import BCP47, MatroskaExtras
from libranet.video.tags import VideoTags

_FILLER = "~"
_NAME = 0x536E
_TRACK_EXTRAS = (BCP47, 0x258688)
"""Elements of a track that say the same of new samples: the exact language, the name of the codec's program."""
_PIXEL_WIDTH, _PIXEL_HEIGHT, _COLOUR = 0xB0, 0xBA, 0x55B0
_DISPLAY_WIDTH, _DISPLAY_HEIGHT, _DISPLAY_UNIT = 0x54B0, 0x54BA, 0x54B2
_MAX_CLL, _MAX_FALL, _MASTERING = 0x55BC, 0x55BD, 0x55D0
_VIDEO_EXTRAS = (STEREO, *CROPS, PROJECTION, 0x54B3)


@dataclass(frozen=True)
class MatroskaFinish:
    """What is written into a finished file."""

    tags: VideoTags
    title: str
    """Of the video."""
    video: int
    """Place of the video among the output's streams."""
    elements: tuple[tuple[int, bytes], ...]
    """Properties of the video, as elements."""
    source: MatroskaExtras | None = None

    @property
    def video_filler(self) -> str:
        """Text to append to the title of the video."""
        size = 320 + sum(len(content) + 12 for _, content in self.elements)
        entries = self.source.entries if self.source is not None else []
        size += sum(len(content) + 12 for entry in entries for kind, content in entry if kind in _TRACK_EXTRAS)
        return _FILLER * size

    def write(self, file: IO[bytes], places: Mapping[int, int]) -> None:
        """Write the tracks of a finished file again.

        Args:
            file: Open for reading and writing.
            places: Where each stream of the source is in the file.
        """
        at, size = next((at, size) for ident, at, size in section_places(file) if ident == TRACKS)
        file.seek(at)
        old = file.read(size)
        new = self._tracks(old, places)
        checksum = 6 if children(old)[:1] and children(old)[0][0] == CRC else 0
        new += void(size - checksum - len(new))
        if checksum:
            new = element(CRC, struct.pack("<I", zlib.crc32(new))) + new
        if len(new) != size:
            raise AssertionError(f"a section has {len(new)} bytes instead of {size}")
        file.seek(at)
        file.write(new)

    def _tracks(self, old: bytes, places: Mapping[int, int]) -> bytes:
        origin = {place: index for index, place in places.items()}
        given = self.source.entries if self.source is not None else []
        parts, place = [], 0
        for kind, data in children(old):
            if kind != TRACK_ENTRY:
                parts += [element(kind, data)] if kind not in (CRC, VOID) else []
                continue
            source = dict(given[origin[place]]) if place in origin and origin[place] < len(given) else {}
            parts.append(element(kind, self._entry(data, source, is_video=place == self.video)))
            place += 1
        return b"".join(parts)

    def _entry(self, data: bytes, source: Mapping[int, bytes], *, is_video: bool) -> bytes:
        entry = [(kind, content) for kind, content in children(data) if kind != VOID]
        known = {kind for kind, _ in entry}
        entry += [(kind, source[kind]) for kind in _TRACK_EXTRAS if kind in source and kind not in known]
        parts = []
        for kind, content in entry:
            if is_video and kind == _NAME:
                parts += [element(_NAME, self.title.encode(errors="surrogateescape"))] if self.title else []
            elif is_video and kind == VIDEO:
                parts.append(element(VIDEO, self._video(content)))
            else:
                parts.append(element(kind, content))
        return b"".join(parts)

    def _video(self, data: bytes) -> bytes:
        found = dict(children(data))
        _set_shape(found, self.tags.sample_aspect_ratio)
        found |= {kind: content for kind, content in self.elements if kind not in found or kind in _VIDEO_EXTRAS}
        for kind, content in self.elements:  # a frame that is cropped or in two halves has its own shape
            if kind in (_DISPLAY_WIDTH, _DISPLAY_HEIGHT, _DISPLAY_UNIT):
                found[kind] = content
        colour = dict(children(found.get(_COLOUR, b"")))
        if self.tags.light_level is not None:
            colour[_MAX_CLL], colour[_MAX_FALL] = (number(value) for value in self.tags.light_level)
        if self.tags.mastering is not None:
            m = self.tags.mastering
            values = (*m.red, *m.green, *m.blue, *m.white, m.greatest, m.least)
            colour[_MASTERING] = b"".join(
                element(0x55D1 + index, struct.pack(">d", float(value))) for index, value in enumerate(values)
            )
        if colour:
            found[_COLOUR] = b"".join(element(kind, content) for kind, content in colour.items())
        return b"".join(element(kind, content) for kind, content in found.items())


def _set_shape(found: dict[int, bytes], ratio: Fraction | None) -> None:
    """State the shape of a pixel as the size that the frame is shown with."""
    if ratio in (None, Fraction(1)):
        return
    assert ratio is not None
    width, height = (int.from_bytes(found[key], "big") for key in (_PIXEL_WIDTH, _PIXEL_HEIGHT))
    shown, unit = ratio * width, 0
    if shown.denominator != 1:  # not a whole number of pixels: state the aspect ratio of the frame instead
        ratio = shown / height
        shown, height, unit = Fraction(ratio.numerator), ratio.denominator, 3
    found[_DISPLAY_WIDTH], found[_DISPLAY_HEIGHT] = number(int(shown)), number(height)
    if unit:
        found[_DISPLAY_UNIT] = number(unit)
    else:
        found.pop(_DISPLAY_UNIT, None)


def video_elements(entry: list[tuple[int, bytes]], *, same_size: bool, own: bool) -> tuple[tuple[int, bytes], ...]:
    """Return the properties of a video that its frames keep: those of a cropping only where their size stays.

    Args:
        entry: The elements of the source's track.
        same_size: The output's frames are as large as the source's.
        own: The track is that of a Matroska file, not one that FFmpeg made from another.
    """
    found = children(dict(entry).get(VIDEO, b""))
    kept = [pair for pair in found if pair[0] in _VIDEO_EXTRAS and (same_size or pair[0] not in CROPS)]
    kept = [pair for pair in kept if pair[0] != PROJECTION or not is_rotation(pair[1])]
    if own and same_size and any(kind in (STEREO, *CROPS) for kind, _ in kept):
        kept += [pair for pair in found if pair[0] in (_DISPLAY_WIDTH, _DISPLAY_HEIGHT, _DISPLAY_UNIT)]
    return tuple(kept)

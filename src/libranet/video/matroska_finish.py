"""What FFmpeg's muxer does not write into Matroska files: written into a finished one.

The muxer gets long texts instead of what is missing: as the title of the video, of a chapter and of a tag. Afterwards
each section is written again in the same number of bytes, with the real texts, the missing elements, and empty space
for the rest. No other byte of the file moves.
"""

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import IO

from libranet.video.ebml import (
    ATTACHED_FILE,
    ATTACHMENTS,
    CHAPTERS,
    CRC,
    TAGS,
    TRACKS,
    VOID,
    child,
    children,
    element,
    number,
    read_sections,
    section_places,
    void,
)
from libranet.video.matroska_extras import (
    BCP47,
    CHAPTER,
    CROPS,
    DEEPEST,
    EDITION,
    PROJECTION,
    SIMPLE_TAG,
    SPACE_TAG,
    STEREO,
    TAG,
    TAG_NAME,
    TRACK_ENTRY,
    VIDEO,
    MatroskaExtras,
    is_rotation,
    is_stale,
    tag_texts,
)
from libranet.video.tags import VideoTags

_FILLER = "~"
_TRACK_UID, _NAME = 0x73C5, 0x536E
_TRACK_EXTRAS = (BCP47, 0x258688)
"""Elements of a track that say the same of new samples: the exact language, the name of the codec's program."""
_PIXEL_WIDTH, _PIXEL_HEIGHT, _COLOUR = 0xB0, 0xBA, 0x55B0
_DISPLAY_WIDTH, _DISPLAY_HEIGHT, _DISPLAY_UNIT = 0x54B0, 0x54BA, 0x54B2
_MAX_CLL, _MAX_FALL, _MASTERING = 0x55BC, 0x55BD, 0x55D0
_VIDEO_EXTRAS = (STEREO, *CROPS, PROJECTION, 0x54B3)
_TARGETS, _TARGET_TRACK, _TARGET_ATTACHMENT = 0x63C0, 0x63C5, 0x63C6
_CHAPTER_START, _CHAPTER_END = 0x91, 0x92
_FILE_UID = 0x46AE


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
    part: tuple[Fraction, Fraction | None] = (Fraction(0), None)
    """Where the output begins in the source, in seconds, and how long it is."""

    @property
    def video_filler(self) -> str:
        """Text to append to the title of the video."""
        size = 320 + sum(len(content) + 12 for _, content in self.elements)
        entries = self.source.entries if self.source is not None else []
        size += sum(len(content) + 12 for entry in entries for kind, content in entry if kind in _TRACK_EXTRAS)
        return _FILLER * size

    @property
    def chapter_filler(self) -> str:
        """Text to append to the title of a chapter."""
        chapters = self._given(CHAPTERS)
        return _FILLER * (len(chapters) + 32) if chapters else ""

    @property
    def tag_filler(self) -> str:
        """Text of a tag that makes space."""
        tags = self._given(TAGS)
        return _FILLER * (len(tags) + 64) if tags else ""

    def write(self, file: IO[bytes], places: Mapping[int, int]) -> None:
        """Write the sections of a finished file again.

        Args:
            file: Open for reading and writing.
            places: Where each stream of the source is in the file.
        """
        written = MatroskaExtras(read_sections(file))
        for ident, at, size in list(section_places(file)):
            file.seek(at)
            old = file.read(size) if ident != ATTACHMENTS else b""
            if ident == TRACKS:
                new = self._tracks(old, places)
            elif ident == CHAPTERS and (given := self._given(CHAPTERS)):
                new = _chapters_of(given, *self.part)
            elif ident == TAGS and self._given(TAGS):
                new = self._tags(old, written, places)
            else:
                continue
            checksum = 6 if children(old)[:1] and children(old)[0][0] == CRC else 0
            new += void(size - checksum - len(new))
            if checksum:
                new = element(CRC, struct.pack("<I", zlib.crc32(new))) + new
            if len(new) != size:
                raise AssertionError(f"a section has {len(new)} bytes instead of {size}")
            file.seek(at)
            file.write(new)

    def _given(self, section: int) -> bytes:
        return self.source.sections.get(section, b"") if self.source is not None else b""

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

    def _tags(self, old: bytes, written: MatroskaExtras, places: Mapping[int, int]) -> bytes:
        """Join the source's tags with those that the muxer wrote and the source does not have."""
        assert self.source is not None
        tracks: dict[bytes, bytes] = {}
        for index, place in places.items():
            uids = [
                dict(e[i]).get(_TRACK_UID, b"")
                for e, i in ((self.source.entries, index), (written.entries, place))
                if i < len(e)
            ]
            tracks |= {uids[0]: uids[1]} if len(uids) == 2 else {}
        files = dict(zip(*(_attachment_uids(side.sections) for side in (self.source, written)), strict=False))
        given, names = [], set[tuple[bytes, str]]()
        for _, tag in (pair for pair in children(self.source.sections[TAGS]) if pair[0] == TAG):
            moved = _retargeted(tag, tracks, files)
            if moved is not None:
                given.append(element(TAG, moved))
                owner = child(child(moved, _TARGETS), _TARGET_TRACK)
                names |= {(owner, name.upper()) for name, _ in tag_texts(element(TAG, moved))}
        own = []
        for _, tag in (pair for pair in children(old) if pair[0] == TAG):
            owner = child(child(tag, _TARGETS), _TARGET_TRACK)
            parts = [
                element(kind, content)
                for kind, content in children(tag)
                if kind != SIMPLE_TAG
                or not _is_same_tag(owner, child(content, TAG_NAME).decode(errors="replace"), names)
            ]
            if any(kind == SIMPLE_TAG for kind, _ in children(b"".join(parts))):
                own.append(element(TAG, b"".join(parts)))
        return b"".join(given + own)


def _chapters_of(data: bytes, start: Fraction, length: Fraction | None, depth: int = 0) -> bytes:
    """Return editions and chapters, nested ones as well, of a part of the source, from its own zero."""
    if depth == DEEPEST:
        return b""
    parts = []
    for kind, content in children(data):
        if kind == EDITION:
            parts.append(element(kind, _chapters_of(content, start, length, depth + 1)))
        elif kind == CHAPTER:
            parts.append(_chapter_of(content, start, length, depth))
        elif kind not in (CRC, VOID):
            parts.append(element(kind, content))
    return b"".join(parts)


def _chapter_of(content: bytes, start: Fraction, length: Fraction | None, depth: int) -> bytes:
    """Return a chapter with its times moved; nothing where it lies outside."""
    times = {
        kind: Fraction(int.from_bytes(value, "big"), 10**9) - start
        for kind, value in children(content)
        if kind in (_CHAPTER_START, _CHAPTER_END)
    }
    begin = times.get(_CHAPTER_START, Fraction(0))
    if times.get(_CHAPTER_END, begin + 1) <= 0 or (length is not None and begin >= length):
        return b""
    moved = [element(kind, number(round(max(Fraction(0), time) * 10**9))) for kind, time in times.items()]
    inside = children(_chapters_of(content, start, length, depth + 1))
    rest = [element(kind, value) for kind, value in inside if kind not in times]
    return element(CHAPTER, b"".join(moved + rest))


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


def _is_same_tag(owner: bytes, name: str, names: set[tuple[bytes, str]]) -> bool:
    """Return whether the source has a tag. FFmpeg writes PARENT/CHILD and NAME-language for some."""
    if name == SPACE_TAG:
        return True
    variants = {name, name.rsplit("/", maxsplit=1)[-1], name.rsplit("/", maxsplit=1)[-1].rsplit("-", 1)[0]}
    return any((owner, variant.upper()) in names for variant in variants)


def _retargeted(tag: bytes, tracks: Mapping[bytes, bytes], files: Mapping[bytes, bytes]) -> bytes | None:
    """Return a tag for the tracks and files of the output, without statistics; None where nothing is left of it."""
    parts, texts = [], 0
    for kind, content in children(tag):
        if kind == _TARGETS:
            targets = _moved_targets(content, tracks, files)
            if targets is None:
                return None
            parts.append(element(kind, targets))
        elif kind != SIMPLE_TAG or not is_stale(child(content, TAG_NAME).decode(errors="replace")):
            texts += kind == SIMPLE_TAG
            parts.append(element(kind, content))
    return b"".join(parts) if texts else None


def _moved_targets(content: bytes, tracks: Mapping[bytes, bytes], files: Mapping[bytes, bytes]) -> bytes | None:
    """Return the targets of a tag in the output; None where it is about a track or file that the output lacks."""
    targets = []
    for kind, uid in children(content):
        moved = {_TARGET_TRACK: tracks, _TARGET_ATTACHMENT: files}.get(kind)
        if moved is not None and int.from_bytes(uid, "big") and uid not in moved:
            return None
        targets.append(element(kind, uid if moved is None else moved.get(uid, uid)))
    return b"".join(targets)


def _attachment_uids(sections: Mapping[int, bytes]) -> list[bytes]:
    return [child(data, _FILE_UID) for kind, data in children(sections.get(ATTACHMENTS, b"")) if kind == ATTACHED_FILE]

"""What Matroska files say and FFmpeg's muxer does not write, read from a source; `matroska_finish.py` writes it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO

from libranet.video.ebml import ATTACHMENTS, CHAPTERS, INFO, TAGS, TRACK_ENTRY, TRACKS, child, children, read_sections

_DEEPEST = 16
"""Elements inside of each other that are followed. A hostile file may have thousands."""
_TRACK_TYPE, BCP47 = 0x83, 0x22B59D
_STREAM_TYPES = (1, 2, 17, 33)
"""Tracks that FFmpeg has a stream for: video, audio, subtitles, metadata."""
_TAG, _SIMPLE_TAG, _TAG_NAME, _TAG_STRING = 0x7373, 0x67C8, 0x45A3, 0x4487
_STALE_TAGS = (
    "BPS", "DURATION", "NUMBER_OF_FRAMES", "NUMBER_OF_BYTES", "ENCODER", "ALPHA_MODE", "HANDLER_NAME", "VENDOR_ID",
)  # fmt: skip
_EDITION, _CHAPTER, _CHAPTER_DISPLAY, _CHAPTER_TEXT = 0x45B9, 0xB6, 0x80, 0x85
_ORDERED = 0x45DD
_FILE_NAME, _FILE_DESCRIPTION = 0x466E, 0x467E
_LINKS = {0x3CB923: "link to the file before", 0x3EB923: "link to the next file", 0x4444: "segment family"}


@dataclass(frozen=True)
class MatroskaExtras:
    """Sections of a source."""

    sections: Mapping[int, bytes]

    @property
    def entries(self) -> list[list[tuple[int, bytes]]]:
        """The tracks that FFmpeg has streams for, in order."""
        found = [children(data) for kind, data in children(self.sections.get(TRACKS, b"")) if kind == TRACK_ENTRY]
        return [entry for entry in found if int.from_bytes(dict(entry).get(_TRACK_TYPE, b""), "big") in _STREAM_TYPES]

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the text of everything that programs show of a file."""
        for name, text in _tag_texts(self.sections.get(TAGS, b"")):
            yield f"tag {name}", text
        for text in _chapter_texts(self.sections.get(CHAPTERS, b"")):
            yield "chapter title", text
        for kind, edition in children(self.sections.get(CHAPTERS, b"")):
            if kind == _EDITION and int.from_bytes(child(edition, _ORDERED), "big"):
                yield "order of chapters", "players show the chapters alone, in their order"
        for index, entry in enumerate(self.entries):
            language = dict(entry).get(BCP47, b"").decode(errors="replace")
            if "-" in language:
                yield f"exact language of stream {index}", language
        for _, data in children(self.sections.get(ATTACHMENTS, b"")):
            for kind, label in (
                (_FILE_NAME, "name of an attachment"),
                (_FILE_DESCRIPTION, "description of an attachment"),
            ):
                if text := child(data, kind).decode(errors="replace"):
                    yield label, text
        for kind, label in _LINKS.items():
            if child(self.sections.get(INFO, b""), kind):
                yield label, ""


def read_extras(file: IO[bytes]) -> MatroskaExtras | None:
    """Return what a Matroska or WebM file says; None for other files."""
    sections = read_sections(file)
    return MatroskaExtras(sections) if TRACKS in sections else None


def _tag_texts(data: bytes, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield name and text of all tags, those inside of others as well, but no statistics."""
    for kind, content in children(data):
        if kind == _SIMPLE_TAG:
            name = child(content, _TAG_NAME).decode(errors="replace")
            if not _is_stale(name):
                yield name, child(content, _TAG_STRING).decode(errors="replace")
        if kind in (_TAG, _SIMPLE_TAG) and depth < _DEEPEST:
            yield from _tag_texts(content, depth + 1)


def _is_stale(name: str) -> bool:
    return name.upper() in _STALE_TAGS or name.upper().startswith("_STATISTICS")


def _chapter_texts(data: bytes, depth: int = 0) -> Iterator[str]:
    """Yield the titles of all chapters, of nested ones and in every language."""
    for kind, content in children(data):
        if kind == _CHAPTER_TEXT:
            yield content.decode(errors="replace")
        elif kind in (_EDITION, _CHAPTER, _CHAPTER_DISPLAY) and depth < _DEEPEST:
            yield from _chapter_texts(content, depth + 1)

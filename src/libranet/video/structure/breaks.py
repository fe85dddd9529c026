"""Broken places of a file, reading at any place, and the checksum of Ogg and NUT."""

import os
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

_CHUNK = 1 << 20
_MOST_READS = 5_000_000
"""Half a day of frames and sound. A hostile file may have any number of empty parts."""


_MIRRORED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


class TooManyPartsError(Exception):
    """The file has more parts than any video."""


@dataclass
class Breaks:
    """Where the chain of a file's parts is broken."""

    places: int = 0
    """Places with bytes that belong to no part."""
    bytes: int = 0
    """All of them."""
    cut: bool = False
    """The last part is not whole."""
    strays: int = 0
    """Parts that belong to no stream."""
    gaps: int = 0
    """Jumps of the counters in a transport stream, or of the numbers of pages in Ogg."""
    contradictions: int = 0
    """Tables of an index that contradict each other, or are not there."""

    video_packets: int | None = None
    """Packets of the first video track that the file holds, where the container tells streams apart."""

    def add(self, size: int) -> None:
        """Count a place."""
        self.places += 1
        self.bytes += size

    def __bool__(self) -> bool:
        return bool(self.places or self.cut or self.strays or self.gaps or self.contradictions)

    def sentence(self) -> str:
        """What is broken, in words for the user, or nothing."""
        parts = []
        if self.places:
            where = "one place" if self.places == 1 else f"{self.places} places"
            parts.append(f"the file is damaged in {where}: {self.bytes} bytes belong to no part of it")
        if self.gaps:
            parts.append(f"pieces of a stream are missing in {self.gaps} places")
        if self.strays:
            parts.append(f"{self.strays} packets of the file belong to no stream")
        if self.contradictions:
            parts.append("tables of the file's index are missing or contradict each other")
        if self.cut:
            parts.append("the file ends in the middle of a part")
        return "; ".join(parts)


class FileBytes:
    """Bytes of a file by their place."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self.size = os.fstat(self._file.fileno()).st_size
        self._reads = 0

    def __enter__(self) -> "FileBytes":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, at: int, size: int) -> bytes:
        """Return up to `size` bytes, fewer at the end."""
        if at >= self.size:
            return b""
        self._reads += 1
        if self._reads > _MOST_READS:
            raise TooManyPartsError
        self._file.seek(at)
        data = self._file.read(size)
        while data and len(data) < size and (more := self._file.read(size - len(data))):
            data += more
        return data

    def find(self, pattern: re.Pattern[bytes], at: int, end: int | None = None, *, longest: int = 16) -> int | None:
        """Return where the pattern first matches from `at` on, or None. A match has at most `longest` bytes."""
        end = self.size if end is None else end
        while at < end:
            data = self.read(at, min(_CHUNK, end - at))
            if match := pattern.search(data):
                return at + match.start()
            if len(data) < _CHUNK:
                return None
            at += len(data) - longest
        return None

    def only_zeros(self, at: int) -> bool:
        """Return whether nothing but zeros follows, as in files with room kept for more."""
        return self.find(re.compile(rb"[^\0]"), at) is None


def is_sound(data: bytes) -> bool:
    """Return whether data that end with their own CRC-32, its highest bit first, give zero, as undamaged ones do."""
    # zlib has the same polynomial with the lowest bit first; the value given makes its register begin at zero.
    return zlib.crc32(data.translate(_MIRRORED), 0xFFFFFFFF) == 0xFFFFFFFF

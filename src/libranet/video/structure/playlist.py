"""HLS playlists: a list of files, each with its length.

The silent loss: FFmpeg passes over a file that it cannot open, and goes on with the next one.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin

import av

from libranet.video.pyav import open_input

_LENGTH = re.compile(r"#EXTINF:\s*([\d.]+)")
_LARGEST = 16 << 20
"""Bytes of a playlist, at most."""
_TIMEOUT = 20.0
_HEAD = 8
"""Bytes that tell the kind of a file."""


@dataclass(frozen=True)
class Playlist:
    """The files of a finished recording."""

    segments: tuple[str, ...] = ()
    """Addresses of the files that hold frames and sound."""
    lengths: tuple[float, ...] = ()
    """Of each, in seconds."""
    gaps: int = 0
    """Files that the list itself calls missing."""
    encrypted: bool = False
    exact: bool = True
    """Lengths have fractions of seconds."""

    def unreadable(self) -> list[str]:
        """Return the files that cannot be opened or are of another kind than the first, each once.

        A server that has lost a file may answer with a page.
        """
        heads = {segment: _read(segment, _HEAD) for segment in dict.fromkeys(self.segments)}
        kinds = {segment: _kind(head) for segment, head in heads.items() if head and not self.encrypted}
        first = next((kind for kind in kinds.values() if kind), "")
        return [
            segment for segment, head in heads.items() if not head or (first and kinds.get(segment, first) != first)
        ]


def read_playlist(address: str) -> Playlist:
    """Read the list that an address names, or the first one of a list of lists. One that still grows has no files."""
    lines = [line.strip() for line in _read(address, _LARGEST).decode(errors="replace").splitlines()]
    for place, line in enumerate(lines):
        if line.startswith("#EXT-X-STREAM-INF"):
            further = [found for found in lines[place + 1 :] if found and not found.startswith("#")]
            return read_playlist(_absolute(address, further[0])) if further else Playlist()
    if "#EXT-X-ENDLIST" not in lines:
        return Playlist()
    segments, lengths, gap, gaps = [], [], False, 0
    for line in lines:
        if match := _LENGTH.match(line):
            lengths.append(float(match[1]))
        elif line.startswith("#EXT-X-GAP"):
            gap = True
        elif line and not line.startswith("#"):
            if gap and lengths:
                lengths.pop()
                gaps += 1
            else:
                segments.append(_absolute(address, line))
            gap = False
    return Playlist(
        tuple(segments),
        tuple(lengths),
        gaps,
        encrypted=any(line.startswith("#EXT-X-KEY") and "METHOD=NONE" not in line for line in lines),
        exact=any("." in match[1] for line in lines if (match := _LENGTH.match(line))),
    )


def _kind(head: bytes) -> str:
    """Return the kind of a file that has a sign of its own: transport stream or fragment of mp4."""
    return "ts" if head[:1] == b"\x47" else "mp4" if head[4:8].isalpha() and head[4:8].islower() else ""


def _absolute(base: str, address: str) -> str:
    if "://" in address or "://" in base:
        return urljoin(base, address)
    return f"file:{Path(base.removeprefix('file:')).parent / address}"


def _read(address: str, size: int) -> bytes:
    """Return the beginning of a file by FFmpeg, which knows all kinds of addresses; nothing where there is none."""
    data = b""
    try:
        with open_input(address, format_name="data", timeout=_TIMEOUT if "://" in address else None) as container:
            for packet in container.demux():
                data += bytes(packet)
                if len(data) >= size:
                    break
    except (av.FFmpegError, OSError, ValueError):
        return b""
    return data

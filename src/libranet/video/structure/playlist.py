"""HLS playlists: a list of files, each with its length.

The silent losses: FFmpeg passes over a file that it cannot open, and over the end of one that was cut short.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from urllib.parse import urljoin

import av

from libranet.video.pyav import open_input

_LENGTH = re.compile(r"#EXTINF:\s*(\d+(?:\.(\d*))?)")
_LARGEST = 16 << 20
"""Bytes of a playlist, at most."""
_TIMEOUT = 20.0
_STEADY = 0.9
"""Share of the frames that follow each other evenly in a video of a constant rate."""
_AGREES = 0.6
"""Frames by which a whole file may differ from its length."""
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
    digits: int = 0
    """Most decimals of a length."""
    joins: frozenset[int] = frozenset()
    """Numbers of the files behind which the clock begins anew, and of the last one."""

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

    def cut_short(self, times: Sequence[float], keys: Sequence[float]) -> dict[str, int]:
        """Return how many frames are missing at the ends of files, which begin with key frames, by their addresses.

        Nothing is known where frames have no steady rate, or where lengths are only nominal: no file agrees with them.

        Args:
            times: Of all frames of the video, in seconds, in order.
            keys: Of its key frames, in order.
        """
        steps = [after - before for before, after in pairwise(times)]
        usual = median(steps) if steps else 0.0
        even = [step for step in steps if abs(step - usual) < usual / 10]
        if len(even) < _STEADY * len(steps) or not even or 10.0**-self.digits > usual / 2:
            return {}
        if len(self.lengths) != len(self.segments):
            return {}
        usual, begin = mean(even), 0
        missing, agreeing = {}, 0
        for number, length in enumerate(self.lengths):
            end = _begin_of(keys, times, times[begin] + length, usual) if number < len(self.lengths) - 1 else len(times)
            if end <= begin:
                return {}
            own = sum(round(step / usual) - 1 for step in steps[begin : end - 1])  # frames that were left out before
            lacking = length / usual - (end - begin) - own
            agreeing += abs(lacking) < _AGREES
            if number not in self.joins:
                lacking = min(lacking, round(steps[end - 1] / usual) - 1)
            if lacking > _AGREES:
                missing[self.segments[number]] = round(lacking)
            begin = end
        return missing if agreeing else {}


def _begin_of(keys: Sequence[float], times: Sequence[float], about: float, step: float) -> int:
    """Return the place in `times` of the key frame that is nearest to a time."""
    at = bisect_left(keys, about)
    key = min(keys[max(0, at - 1) : at + 1], key=lambda time: abs(time - about))
    return bisect_left(times, key - step / 2)


def read_playlist(address: str) -> Playlist:
    """Read the list that an address names, or the first one of a list of lists. One that still grows has no files."""
    lines = [line.strip() for line in _read(address, _LARGEST).decode(errors="replace").splitlines()]
    for place, line in enumerate(lines):
        if line.startswith("#EXT-X-STREAM-INF"):
            further = [found for found in lines[place + 1 :] if found and not found.startswith("#")]
            return read_playlist(_absolute(address, further[0])) if further else Playlist()
    if "#EXT-X-ENDLIST" not in lines:
        return Playlist()
    segments: list[str] = []
    lengths, joins, gap, gaps = [], set(), False, 0
    for line in lines:
        if match := _LENGTH.match(line):
            lengths.append(float(match[1]))
        elif line.startswith("#EXT-X-GAP"):
            gap = True
        elif line == "#EXT-X-DISCONTINUITY":
            joins.add(len(segments) - 1)
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
        digits=max((len(match[2] or "") for line in lines if (match := _LENGTH.match(line))), default=0),
        joins=frozenset({*joins, len(segments) - 1}),
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

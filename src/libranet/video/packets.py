"""A segment on disk: encoded packets with exact timestamps, one file, whole or not there at all.

Containers round timestamps to their own clock; this plain log does not. Each packet is a fixed header and its bytes.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import av

from libranet.errors import InputError

_MAGIC = b"libranet-packets-1\n"
_HEADER = struct.Struct("<qqqBI")  # pts, dts, duration, key frame, size


@dataclass(frozen=True)
class StoredPacket:
    """One encoded packet, timestamps in the video's time base."""

    pts: int
    dts: int
    duration: int
    key: bool
    data: bytes


class PacketLog:
    """Writes a segment under a temporary name; `finish` gives it its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._temporary = path.with_name(f".{path.name}.part")
        self._file = self._temporary.open("wb")
        self._file.write(_MAGIC)

    def add(self, packet: av.Packet, duration: int) -> None:
        """Append an encoded packet."""
        data = bytes(packet)
        if packet.pts is None:
            raise InputError("the encoder gave a packet without a timestamp: choose another --codec")
        dts = packet.pts if packet.dts is None else packet.dts
        self._file.write(_HEADER.pack(packet.pts, dts, duration, packet.is_keyframe, len(data)))
        self._file.write(data)

    def finish(self) -> None:
        """Make the segment permanent."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        os.replace(self._temporary, self.path)

    def discard(self) -> None:
        """Forget an unfinished segment."""
        self._file.close()
        self._temporary.unlink(missing_ok=True)


def read_packets(path: Path) -> Iterator[StoredPacket]:
    """The packets of a finished segment in the order of decoding."""
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise InputError(f"{path} is not a segment of an unfinished run: leave out --resume to begin anew")
        while head := file.read(_HEADER.size):
            if len(head) < _HEADER.size:
                raise InputError(f"{path} is cut off: leave out --resume to begin anew")
            pts, dts, duration, key, size = _HEADER.unpack(head)
            data = file.read(size)
            if len(data) < size:
                raise InputError(f"{path} is cut off: leave out --resume to begin anew")
            yield StoredPacket(pts, dts, duration, bool(key), data)


def read_times(path: Path) -> list[int]:
    """The presentation times of a finished segment in the order of decoding."""
    return [packet.pts for packet in read_packets(path)]


def reorder_delay(times: list[int]) -> int:
    """How many packets a decoder reads ahead: the smallest d for which sorted(times)[i - d] <= times[i] for all i."""
    rank = {pts: index for index, pts in enumerate(sorted(times))}
    return max((index - rank[pts] for index, pts in enumerate(times)), default=0)


def decode_times(times: list[int], delay: int, before: list[int], step: int) -> list[int]:
    """Decoding times for packets with presentation times `times`: increasing, and never after presentation.

    They are the sorted presentation times, `delay` packets late. `before` holds the last `delay` sorted presentation
    times of what came before this segment; in front of the first segment, time runs backwards by `step`.
    """
    ordered = sorted(times)
    lead = before[-delay:] if delay else []
    while len(lead) < delay:
        lead = [(lead or ordered)[0] - step, *lead]
    return (lead + ordered)[: len(times)]

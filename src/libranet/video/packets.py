"""Segment files: encoded packets with exact timestamps.

Containers round timestamps to their own time base; this plain log does not. A packet is a fixed header and its bytes.
"""

import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
from av.packet import PktSideDataT

from libranet.errors import InputError
from libranet.video.pyav import set_side_data

_MAGIC = b"libranet-packets-2\n"
_HEADER = struct.Struct("<qqqBBI")  # pts, dts, duration, key frame, pieces of side data, size
_SIDE = struct.Struct("<BI")  # length of the name, size
_KEPT_SIDE_DATA: tuple[PktSideDataT, ...] = ("matroska_block_additional",)
"""Alpha of VP9. Other side data is about the encoder."""


@dataclass(frozen=True)
class StoredPacket:
    """One encoded packet, timestamps in the video's time base."""

    pts: int
    dts: int
    duration: int
    key: bool
    data: bytes
    side_data: tuple[tuple[str, bytes], ...] = ()


class PacketLog:
    """Writes a segment under a temporary name. `finish` renames it."""

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
        side = [(kind, bytes(packet.get_sidedata(kind))) for kind in _KEPT_SIDE_DATA if packet.has_sidedata(kind)]
        self._file.write(_HEADER.pack(packet.pts, dts, duration, packet.is_keyframe, len(side), len(data)))
        self._file.write(data)
        for kind, content in side:
            self._file.write(_SIDE.pack(len(kind), len(content)) + kind.encode() + content)

    def finish(self) -> None:
        """Make the segment permanent."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        os.replace(self._temporary, self.path)

    def discard(self) -> None:
        """Delete an unfinished segment. What a full disk did not take is of no use any more."""
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self._temporary.unlink(missing_ok=True)


def read_segment(path: Path) -> Iterator[StoredPacket]:
    """Yield the packets of a finished segment in decoding order.

    Raises:
        InputError: The file is no segment, or cut off.
    """
    with path.open("rb") as file:

        def take(size: int) -> bytes:
            data = file.read(size)
            if len(data) < size:
                raise InputError(f"{path} is cut off: leave out --resume to start over")
            return data

        if file.read(len(_MAGIC)) != _MAGIC:
            raise InputError(f"{path} is not a segment of an unfinished run: leave out --resume to start over")
        while head := file.read(_HEADER.size):
            if len(head) < _HEADER.size:
                raise InputError(f"{path} is cut off: leave out --resume to start over")
            pts, dts, duration, key, pieces, size = _HEADER.unpack(head)
            data, side = take(size), []
            for _ in range(pieces):
                name, length = _SIDE.unpack(take(_SIDE.size))
                side.append((take(name).decode(), take(length)))
            yield StoredPacket(pts, dts, duration, bool(key), data, tuple(side))


def read_times(path: Path) -> list[int]:
    """Return the presentation times of a finished segment in decoding order."""
    return [packet.pts for packet in read_segment(path)]


def reorder_delay(times: list[int]) -> int:
    """Return how many packets a decoder reads ahead: the smallest d with sorted(times)[i - d] <= times[i] for all i."""
    rank = {pts: index for index, pts in enumerate(sorted(times))}
    return max((index - rank[pts] for index, pts in enumerate(times)), default=0)


def decode_times(times: list[int], delay: int, before: list[int], step: int) -> list[int]:
    """Compute decoding times: increasing, and never after presentation.

    They are the sorted presentation times, `delay` packets late.

    Args:
        times: Presentation times in decoding order.
        delay: The largest `reorder_delay` of all segments.
        before: The last `delay` sorted presentation times before this segment.
        step: In front of the first segment, time runs backwards by this much per packet.
    """
    ordered = sorted(times)
    lead = before[-delay:] if delay else []
    while len(lead) < delay:
        lead = [(lead or ordered)[0] - step, *lead]
    return (lead + ordered)[: len(times)]


def joined_packets(
    video: Any, segments: list[Path], time_base: Fraction, step: int, zero: Fraction
) -> Iterator[av.Packet]:
    """Yield the packets of all segments, with decoding times that increase across their borders, and a new zero.

    Args:
        video: The stream that they go into.
        segments: Files written by `PacketLog`, in order.
        time_base: In which the segments count.
        step: Duration of a frame.
        zero: The time, in seconds, that becomes zero.
    """
    shift = round(zero / time_base)
    all_times = [read_times(path) for path in segments]
    delay = max((reorder_delay(times) for times in all_times), default=0)
    before: list[int] = []
    for path, times in zip(segments, all_times, strict=True):
        decode = decode_times(times, delay, before, step)
        for stored, dts in zip(read_segment(path), decode, strict=True):
            packet = av.Packet(stored.data)
            packet.pts, packet.dts, packet.duration = stored.pts - shift, dts - shift, stored.duration
            packet.time_base = time_base
            packet.is_keyframe = stored.key
            for kind, data in stored.side_data:
                set_side_data(packet, kind, data)
            packet.stream = video
            yield packet
        before = (before + sorted(times))[-max(delay, 1) :]

"""When the frames of a live source came, and when their camera took them, where it says so."""

import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass

import av
from av.codec.context import Flags

_MOST_KEPT = 2000
"""Frames whose arrival is remembered: those that were dropped are never asked for."""
_PLAUSIBLE = 3600.0
"""Seconds by which the camera's clock may be off before its times say nothing."""


@dataclass(frozen=True)
class Arrival:
    """One frame's."""

    number: int
    """How many came before it."""
    at: float
    """Of `time.monotonic`."""
    taken: float | None
    """Of `time.time`: when the camera took it, by the camera's clock; None where it does not say."""


class Arrivals:
    """Arrivals of the last frames: noted by their packets, asked for by the times that the reader gives them."""

    def __init__(self) -> None:
        self._packets: dict[int, Arrival] = {}
        self._frames: dict[int, Arrival] = {}
        self.count = 0
        """Frames that came so far."""

    def noted(self, packets: Iterator[av.Packet], stream: av.VideoStream) -> Iterator[av.Packet]:
        """Note when the packets of a stream come, and let its decoder hold no frame back, as several threads do."""
        stream.codec_context.flags |= int(Flags.low_delay)
        for packet in packets:
            if packet.stream.index == stream.index and packet.size and packet.pts is not None:
                self.came(packet.pts, camera_time(packet))
            yield packet

    def came(self, pts: int, taken: float | None = None) -> None:
        """Note that the packet of a frame came now."""
        if pts not in self._packets:
            _remember(self._packets, pts, self._next(taken))

    def decoded(self, raw: int | None, pts: int) -> None:
        """Note that a frame was decoded: its packet's time, and the time that the reader gave it.

        A frame without a packet, from a file or another program, comes now.
        """
        arrival = None if raw is None else self._packets.pop(raw, None)
        _remember(self._frames, pts, arrival or self._next(None))

    def of(self, pts: int) -> Arrival | None:
        """Return a frame's arrival, by the time that the reader gave it."""
        return self._frames.get(pts)

    def _next(self, taken: float | None) -> Arrival:
        self.count += 1
        return Arrival(self.count - 1, time.monotonic(), taken)


def _remember(kept: dict[int, Arrival], pts: int, arrival: Arrival) -> None:
    kept[pts] = arrival
    while len(kept) > _MOST_KEPT:
        del kept[next(iter(kept))]


def camera_time(packet: av.Packet) -> float | None:
    """Return when a camera took a frame, in seconds since 1970; None where it does not say, or its clock is not set.

    RTSP cameras send the time of day with their frames (RTCP), and FFmpeg attaches it to the packets.
    """
    if not packet.has_sidedata("prft"):
        return None
    data = bytes(packet.get_sidedata("prft"))
    taken = struct.unpack_from("=q", data)[0] / 1e6
    return taken if abs(time.time() - taken) < _PLAUSIBLE else None

"""How old frames are when they leave: from their arrival, and from their camera, to the output."""

import math
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from libranet.video.arrival import Arrivals

_RECENT = 10_000
"""Frames that the statistics cover."""


@dataclass(frozen=True)
class Spread:
    """Of a value over the last frames."""

    p50: float
    p95: float
    most: float


@dataclass(frozen=True)
class LiveReport:
    """What a live output had to leave out, and how old its frames were."""

    latency_ms: Spread | None
    """From the arrival of a frame's last packet until the output has taken it."""
    camera_latency_ms: Spread | None
    """From the camera's own time; None where the camera does not send it. Right as far as both clocks agree."""
    frames_behind: Spread | None
    """Frames that came meanwhile."""
    late: int = 0
    """Frames left out because the network was busy with another one."""
    unsent: int = 0
    """Frames left out because the output did not take them."""
    reconnections: int = 0
    """How often the output was lost and came back."""

    @property
    def line(self) -> str:
        if self.latency_ms is None:
            return "waiting for the output"
        words = f"{self.latency_ms.p50:.0f} ms (95 %: {self.latency_ms.p95:.0f} ms) behind the source"
        if self.camera_latency_ms is not None:
            words += f", {self.camera_latency_ms.p50:.0f} ms behind the camera"
        left_out = self.late + self.unsent
        return words + (f", {left_out} frames left out" if left_out else "")


class LatencyMeter:
    """Measures at the output. Any thread may call it."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals, self._lock = arrivals, threading.Lock()
        self._ages: deque[float] = deque(maxlen=_RECENT)
        self._camera_ages: deque[float] = deque(maxlen=_RECENT)
        self._behind: deque[float] = deque(maxlen=_RECENT)
        self.frames = 0

    def sent(self, pts: int) -> None:
        """Note that the output has taken a frame, by its time in the source."""
        self.frames += 1
        arrival = self._arrivals.of(pts)
        if arrival is None:
            return
        with self._lock:
            self._ages.append(1000 * (time.monotonic() - arrival.at))
            self._behind.append(self._arrivals.count - 1 - arrival.number)
            if arrival.taken is not None:
                self._camera_ages.append(1000 * (time.time() - arrival.taken))

    def report(self, *, late: int = 0, unsent: int = 0, reconnections: int = 0) -> LiveReport:
        with self._lock:
            age, camera_age, behind = (spread(values) for values in (self._ages, self._camera_ages, self._behind))
        return LiveReport(age, camera_age, behind, late=late, unsent=unsent, reconnections=reconnections)


def spread(values: Iterable[float]) -> Spread | None:
    ordered = sorted(values)
    if not ordered:
        return None
    p50, p95 = (ordered[math.ceil(share * len(ordered)) - 1] for share in (0.5, 0.95))
    return Spread(*(round(value, 1) for value in (p50, p95, ordered[-1])))

import time

import pytest

from libranet.engine.latency import LatencyMeter, spread
from libranet.video.arrival import _MOST_KEPT, Arrivals


def test_spread():
    assert spread([]) is None
    found = spread(range(1, 101))
    assert (found.p50, found.p95, found.most) == (50, 95, 100)


def test_a_frame_is_as_old_as_its_packet(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "time", lambda: clock[0] + 1e9)
    arrivals = Arrivals()
    meter = LatencyMeter(arrivals)
    for number in range(3):
        arrivals.came(number, taken=clock[0] + 1e9 - 0.25)
        clock[0] += 0.04
    arrivals.decoded(0, 1000)  # the reader has a time of its own for it
    meter.sent(1000)
    meter.sent(5)  # nobody knows it
    report = meter.report(late=2)
    assert report.latency_ms.p50 == pytest.approx(120, abs=1)
    assert report.camera_latency_ms.p50 == pytest.approx(370, abs=1)
    assert report.frames_behind.p50 == 2
    assert report.line == "120 ms (95 %: 120 ms) behind the source, 370 ms behind the camera, 2 frames left out"


def test_without_a_packet_a_frame_comes_when_it_is_decoded():
    arrivals = Arrivals()
    arrivals.decoded(None, 7)
    assert arrivals.of(7).number == 0
    assert arrivals.of(7).taken is None


def test_frames_that_nobody_asks_for_take_no_memory():
    arrivals = Arrivals()
    for number in range(3 * _MOST_KEPT):
        arrivals.came(number)
        arrivals.decoded(-1 - number, number)
    assert len(arrivals._packets) == len(arrivals._frames) == _MOST_KEPT

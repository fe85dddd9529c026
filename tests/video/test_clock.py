"""Clocks: joined recordings, timecodes, and segments that join to the whole wherever they are cut."""

from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from libranet.video.clock import ContinuousClock
from libranet.video.packets import decode_times, reorder_delay
from libranet.video.timecode import shift_timecode

BASE = Fraction(1, 90000)


def packet(index: int, time: int, duration: int, *, kind: str = "video"):
    """As much of a packet as a clock looks at."""
    stream = SimpleNamespace(index=index, type=kind)
    return SimpleNamespace(stream=stream, pts=time, dts=time, duration=duration, time_base=BASE)


def recording(start: int, frames: int) -> list:
    """Video at 25 fps, sound at 48 kHz in blocks of 1024, interleaved."""
    video = [packet(0, start + 3600 * i, 3600) for i in range(frames)]
    sound = [packet(1, start + 1920 * i, 1920, kind="audio") for i in range(frames * 3600 // 1920)]
    return sorted(video + sound, key=lambda p: (p.pts, p.stream.index))


@settings(max_examples=80, deadline=None)
@given(parts=st.lists(st.tuples(st.integers(0, 2**33 // 2), st.integers(8, 40)), min_size=1, max_size=5))
@example(parts=[(0, 22), (75600, 8), (0, 8)])
@example(parts=[(0, 32), (113111, 33), (0, 27), (0, 22)])
def test_joined_recordings_have_one_clock(parts):
    clock = ContinuousClock(active=True)
    packets = [p for start, frames in parts for p in recording(start, frames)]
    for p in packets:
        clock.fix(p)
    for index, step in ((0, 3600), (1, 1920)):
        times = [p.pts for p in packets if p.stream.index == index]
        gaps = [b - a for a, b in pairwise(times)]
        assert all(0 <= gap <= 10 * 90000 + step for gap in gaps)  # a pause up to 10 s is no jump
        assert gaps.count(step) >= len(gaps) - len(parts) + 1
    ends = [max(p.pts for p in packets if p.stream.index == index) for index in (0, 1)]
    assert abs(ends[0] - ends[1]) <= 3600 * (1 + len(parts))  # sound and frames stay together


def test_a_steady_clock_is_left_alone():
    for active in (True, False):
        clock = ContinuousClock(active=active)
        packets = recording(900_000, 30)
        before = [p.pts for p in packets]
        for p in packets:
            clock.fix(p)
        assert [p.pts for p in packets] == before
        assert clock.jumps == 0


def test_a_damaged_decoding_time_is_no_jump():
    clock = ContinuousClock(active=True)
    packets = recording(900_000, 30)
    packets[20].dts = 704_693_472  # behind the time when it is shown
    before = [p.pts for p in packets]
    for p in packets:
        clock.fix(p)
    assert [p.pts for p in packets] == before
    assert clock.jumps == 0


@settings(max_examples=200, deadline=None)
@given(data=st.data(), frames=st.integers(1, 40), depth=st.integers(0, 3))
def test_any_cut_into_segments_joins_to_increasing_decoding_times(data, frames, depth):
    """Decoding times increase across all borders, never exceed presentation, and depend on no cut."""
    times = [100 * index for index in range(frames)]
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, frames - 1)), max_size=5)))
    edges = [0, *[cut for cut in cuts if cut < frames], frames]
    segments = []
    for a, b in pairwise(edges):
        part = times[a:b]
        step = depth + 1
        order = [part[0]] if part else []
        for k in range(1, len(part), step):  # an anchor, then the frames before it
            group = part[k : k + step]
            order += [group[-1], *group[:-1]]
        segments.append(order)
    delay = max(reorder_delay(segment) for segment in segments)
    before: list[int] = []
    joined = []
    for segment in segments:
        joined += list(zip(segment, decode_times(segment, delay, before, 100), strict=True))
        before = (before + sorted(segment))[-max(delay, 1) :]
    decoded = [dts for _, dts in joined]
    assert decoded == sorted(set(decoded))
    assert all(dts <= pts for pts, dts in joined)
    assert sorted(pts for pts, _ in joined) == times
    assert decoded == [100 * (index - delay) for index in range(frames)]


@pytest.mark.parametrize(
    ("timecode", "frames", "rate", "expected"),
    [
        ("01:00:00:00", 25, Fraction(25), "01:00:01:00"),
        ("23:59:59:24", 1, Fraction(25), "00:00:00:00"),
        ("00:00:59;29", 1, Fraction(30000, 1001), "00:01:00;02"),
        ("00:09:59;29", 1, Fraction(30000, 1001), "00:10:00;00"),
        ("00:00:00;00", 17982, Fraction(30000, 1001), "00:10:00;00"),
        ("no timecode", 5, Fraction(25), "no timecode"),
    ],
)
def test_timecodes(timecode, frames, rate, expected):
    assert shift_timecode(timecode, frames, rate) == expected


@settings(max_examples=200, deadline=None)
@given(a=st.integers(0, 2_000_000), b=st.integers(0, 2_000_000), drop=st.booleans())
def test_timecodes_add_up(a, b, drop):
    rate, start = (Fraction(30000, 1001), "00:00:00;00") if drop else (Fraction(25), "00:00:00:00")
    assert shift_timecode(shift_timecode(start, a, rate), b, rate) == shift_timecode(start, a + b, rate)

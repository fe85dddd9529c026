"""Which slots a step touches. Plain arithmetic, no kernels."""

import pytest

from libranet.runtime.gpu.ring import RingSchedule

SCHEDULES = [
    RingSchedule(batch=1, lookahead=2, radius=2, overlap=False),
    RingSchedule(batch=1, lookahead=0, radius=2, overlap=False),
    RingSchedule(batch=1, lookahead=2, radius=2, overlap=True),
    RingSchedule(batch=4, lookahead=2, radius=2, overlap=True),
    RingSchedule(batch=8, lookahead=1, radius=3, overlap=True),
    RingSchedule(batch=3, lookahead=0, radius=0, overlap=False),
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_what_a_step_reads_is_still_in_the_ring(schedule: RingSchedule) -> None:
    """Between writing a slot and reading it last, no other frame is written there, the next batch's copy included."""
    for step in range(40):
        newest = (step + 1) * schedule.batch - 1
        next_batch = range(newest + 1, newest + 1 + schedule.batch)
        restored = range(schedule.first_out(step), schedule.first_out(step) + schedule.batch)
        touched = {
            index for frame in restored for index in range(frame - schedule.radius, frame + schedule.lookahead + 1)
        }
        for index in touched - set(range(-100, 0)):
            assert index <= newest
            assert all((index - other) % schedule.ring for other in range(index + 1, newest + 1))
        needed = range(schedule.first_out(step), newest + 1)  # restored now or later
        slots, overwritten = ({frame % schedule.frame_ring for frame in frames} for frames in (needed, next_batch))
        assert not slots & overwritten


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_windows_follow_the_edge_rule(schedule: RingSchedule) -> None:
    count = 11
    for step in range(20):
        for frame, slots in zip(range(schedule.first_out(step), 10**6), schedule.windows(step, count), strict=False):
            if 0 <= frame < count:
                newest = min(frame + schedule.lookahead, count - 1)
                reach = range(frame - schedule.radius, frame + schedule.radius + 1)
                assert slots == [min(max(index, 0), newest) % schedule.ring for index in reach]


def test_batches_fill_contiguous_slots() -> None:
    for schedule in SCHEDULES:
        assert schedule.ring % schedule.frame_ring == 0
        assert schedule.frame_ring % (2 * schedule.batch) == 0
        for step in range(20):
            assert schedule.first_in(step) + schedule.batch <= schedule.ring

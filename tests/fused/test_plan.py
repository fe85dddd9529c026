"""Which slots a step touches. Plain arithmetic, no kernels."""

import pytest

from libranet.fused.plan import StepPlan

PLANS = [
    StepPlan(batch=1, lookahead=2, radius=2, overlap=False),
    StepPlan(batch=1, lookahead=0, radius=2, overlap=False),
    StepPlan(batch=1, lookahead=2, radius=2, overlap=True),
    StepPlan(batch=4, lookahead=2, radius=2, overlap=True),
    StepPlan(batch=8, lookahead=1, radius=3, overlap=True),
    StepPlan(batch=3, lookahead=0, radius=0, overlap=False),
]


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_what_a_step_reads_is_still_in_the_ring(plan: StepPlan) -> None:
    """Between writing a slot and reading it last, no other frame is written there, the next batch's copy included."""
    for step in range(40):
        newest = (step + 1) * plan.batch - 1
        next_batch = range(newest + 1, newest + 1 + plan.batch)
        restored = range(plan.first_out(step), plan.first_out(step) + plan.batch)
        touched = {index for frame in restored for index in range(frame - plan.radius, frame + plan.lookahead + 1)}
        for index in touched - set(range(-100, 0)):
            assert index <= newest
            assert all((index - other) % plan.ring for other in range(index + 1, newest + 1))
        held = range(plan.first_out(step), newest + 1)  # restored now or later
        assert not {frame % plan.frame_ring for frame in held} & {frame % plan.frame_ring for frame in next_batch}


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_windows_follow_the_edge_rule(plan: StepPlan) -> None:
    count = 11
    for step in range(20):
        for frame, slots in zip(range(plan.first_out(step), 10**6), plan.windows(step, count), strict=False):
            if 0 <= frame < count:
                newest = min(frame + plan.lookahead, count - 1)
                reach = range(frame - plan.radius, frame + plan.radius + 1)
                assert slots == [min(max(index, 0), newest) % plan.ring for index in reach]


def test_batches_fill_contiguous_slots() -> None:
    for plan in PLANS:
        assert plan.ring % plan.frame_ring == 0
        assert plan.frame_ring % (2 * plan.batch) == 0
        for step in range(20):
            assert plan.first_in(step) + plan.batch <= plan.ring

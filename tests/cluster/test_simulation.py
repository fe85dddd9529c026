"""The simulation of many workers: what it must give where the answer is known."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def model() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        return importlib.import_module("cluster_simulation")


def test_one_worker_takes_the_sum_of_all_times(model):
    costs = model.Costs(wall=0.1, cpu=0.1, start=2.0, driver=0.5)
    pool = model.simulate([100, 50, 10], costs, model.Machines(1))
    assert pool.now == pytest.approx(160 * 0.1 + 3 * (2.0 + 0.5))
    assert pool.core_seconds == pytest.approx(160 * 0.1 + 3 * 2.0)


def test_full_cores_are_shared_and_idle_ones_are_not_needed(model):
    costs = model.Costs(wall=0.1, cpu=0.15)  # a worker keeps one core and a half busy
    alone, two, eight = (
        model.simulate([100] * 8, costs, model.Machines(n, per_machine=n, cores=2), divide=False) for n in (1, 2, 8)
    )
    assert alone.now == pytest.approx(80.0)
    assert two.now == pytest.approx(800 * 0.15 / 2)  # not half of it: the cores are full
    assert eight.now == pytest.approx(two.now)
    apart = model.simulate([100] * 8, costs, model.Machines(8, cores=2), divide=False)
    assert apart.now == pytest.approx(10.0)


def test_a_full_store_bounds_all_machines_together(model):
    costs = model.Costs(wall=0.1, cpu=0.1, storage=1e6)
    pool = model.simulate([100] * 8, costs, model.Machines(8, store=4e7), divide=False)
    assert pool.now == pytest.approx(800 * 1e6 / 4e7)


def test_a_slow_driver_bounds_short_tasks(model):
    costs = model.Costs(wall=0.01, cpu=0.01, driver=1.0)
    assert model.simulate([1] * 50, costs, model.Machines(50)).now == pytest.approx(50.01)


def test_division_keeps_the_longest_video_from_setting_the_time(model):
    costs, frames = model.Costs(wall=0.1, cpu=0.1), [24_000, *[600] * 20]
    whole = model.simulate(frames, costs, model.Machines(16), divide=False)
    parts = model.simulate(frames, costs, model.Machines(16))
    assert whole.now == pytest.approx(2400.0)
    assert whole.redone == 0
    assert parts.redone > 0
    assert sum(frames) * 0.1 / 16 < parts.now < 0.15 * whole.now
    assert parts.core_seconds == pytest.approx(0.1 * (sum(frames) + parts.redone))


@settings(max_examples=25, deadline=None)
@given(
    frames=st.lists(st.integers(1, 5000), min_size=1, max_size=20),
    workers=st.integers(1, 12),
    cores=st.floats(1.0, 16.0),
    cpu=st.floats(0.02, 0.5),
)
def test_no_worker_is_faster_than_alone_and_none_waits_while_there_is_work(model, frames, workers, cores, cpu):
    costs = model.Costs(wall=0.1, cpu=cpu, start=0.3)
    machines = model.Machines(workers, per_machine=workers, cores=cores)
    pool = model.simulate(frames, costs, machines, divide=False)
    work, alone = pool.core_seconds, max(max(frames) * 0.1, max(frames) * cpu / cores)
    assert work == pytest.approx(sum(frames) * cpu + 0.3 * len(frames))
    assert pool.now >= max(work / cores, alone) - 1e-6
    one = model.simulate(frames, costs, model.Machines(1, cores=cores), divide=False)
    assert pool.now <= one.now + 1e-6

"""What the benchmark of one worker against two counts as its own, and when a repeat is left out."""

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
BURN = "import time; print(flush=True)\nwhile time.process_time() < 60: pass"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        return importlib.import_module("cluster_efficiency")


def test_processes_below_this_one_are_told_apart_from_all_others(benchmark):
    """A grandchild is a worker or one of Ray's; the rest of the machine's time is somebody else's or nobody's."""
    shell = f"{sys.executable} -c '{BURN}'; true"  # a shell in between
    with subprocess.Popen(["sh", "-c", shell], stdout=subprocess.PIPE, start_new_session=True) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        pid = int(Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text())
        try:
            before = benchmark.Usage.now([]), benchmark.Usage.now([pid])
            while (used := benchmark.Usage.now([]).since(before[0])).ray < 0.2:
                pass
            as_worker = benchmark.Usage.now([pid]).since(before[1])
        finally:
            subprocess.run(["kill", str(pid)], check=True)
    assert as_worker.workers >= used.ray - 0.02
    assert as_worker.ray <= 0.02
    assert used.driver > 0
    assert used.busy + used.idle + used.stolen > 0


def test_time_of_others_and_of_the_hypervisor_is_foreign(benchmark):
    usage = benchmark.Usage(workers=10.0, driver=0.5, ray=0.5, busy=11.5, stolen=0.5, idle=8.0)
    assert usage.foreign == pytest.approx(1 / 20)
    assert benchmark.Usage(workers=10.0, driver=0, ray=0, busy=9.9, stolen=0, idle=10.1).foreign == 0


class FakeWorkers:
    """Workers that take a given time."""

    pids = ()

    def __init__(self, clock: "FakeClock", alone: float, both: float) -> None:
        self.clock, self.times = clock, {1: alone, 2: both}

    def run(self, tasks: list, cores: tuple[int, ...]) -> None:
        self.clock.now += self.times[len(cores)]


class FakeClock:
    now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.mark.parametrize(("foreign_core_seconds", "disturbed"), [(0.0, False), (0.9, False), (1.2, True)])
def test_a_repeat_in_which_others_took_over_a_twentieth_is_left_out(
    benchmark, monkeypatch, foreign_core_seconds, disturbed
):
    clock = FakeClock()
    both = 10.0  # seconds of two cores, of which a twentieth is one core-second

    def now(pids):
        used = clock.now * 1.5
        foreign = foreign_core_seconds * clock.now / both
        return benchmark.Usage(used, 0.0, 0.0, used + foreign, 0.0, 2 * clock.now - used - foreign)

    monkeypatch.setattr(benchmark.time, "perf_counter", clock.perf_counter)
    monkeypatch.setattr(benchmark.Usage, "now", now)
    found = benchmark.repeat(FakeWorkers(clock, alone=18.0, both=both), lambda name: [], "ray-0")
    assert (found["efficiency"], found["disturbed"]) == (0.9, disturbed)
    median = benchmark.median_of([found, {**found, "efficiency": 0.1, "disturbed": True}], "ray")
    assert median == {"undisturbed": int(not disturbed), "efficiency": None if disturbed else 0.9}

"""The same videos with 1, 2, 4 and 8 local workers, beside what the simulation says about them.

Other jobs on the machine spoil seconds, so every run also says what it got: core-seconds of its workers, of the driver
and of Ray, and the cores that nobody else had (`cores`). The prediction uses costs that were measured in one process
before, and those cores.
"""

import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from cluster_simulation import Costs, Machines, simulate
from libranet.cluster.dehazing import DehazeSetup, DehazeWorkload
from libranet.cluster.ray_pool import Placement, RayPool
from libranet.cluster.runner import Runner
from libranet.cluster.tasks import Done, Task
from libranet.engine import dehaze_video, load_network

TICKS = os.sysconf("SC_CLK_TCK")


def measure_costs(clips: tuple[Path, Path], frames: tuple[int, int], folder: Path, weights: str, options) -> Costs:
    """Costs of a frame and of a video in one process with one thread, from a short and a long clip, in CPU time.

    The network's stage runs on this thread and is the slowest one, so its CPU time is the time of a frame on a machine
    with cores to spare.
    """
    import torch

    torch.set_num_threads(1)
    network = load_network(weights, device="cpu")
    best: dict[int, tuple[float, float]] = {}
    for round_ in range(3):  # the first one warms up
        for clip, count in zip(clips, frames, strict=True):
            begin = time.process_time(), time.thread_time()
            dehaze_video(clip, folder / f"{count}-{round_}.mp4", model=network, options=options, cores=_cores())
            spent = time.process_time() - begin[0], time.thread_time() - begin[1]
            if round_:
                best[count] = min(best.get(count, spent), spent)
    short, long = frames
    cpu, wall = ((best[long][i] - best[short][i]) / (long - short) for i in (0, 1))
    return Costs(wall=wall, cpu=cpu, start=max(0.0, best[short][0] - cpu * short))


@dataclass(frozen=True)
class Run:
    """What a run took and got."""

    workers: int
    seconds: float
    worker_seconds: float
    """Core-seconds of the workers."""
    driver_seconds: float
    ray_seconds: float
    """Core-seconds of Ray's own processes."""
    cores: float
    """Cores that the workers had or could have had: used by them, or idle."""


def measure_run(tasks: list[Task], warm_up: list[Task], weights: str, workers: int, *, pin: bool = False) -> Run:
    """Run tasks on so many workers of one thread, after each had a first one.

    Args:
        tasks: What is measured.
        warm_up: One task for each worker.
        weights: Of the network.
        workers: How many.
        pin: Give each worker a core of its own.
    """
    make = partial(DehazeWorkload, DehazeSetup(model=weights, threads=1, cores=_cores()))
    with RayPool(make, Placement(gpus=False, most=workers)) as pool:
        while len(pool.workers()) < workers:
            pool.wait(0.2)
        pids = [worker.pid for worker in pool.workers()]
        if pin:
            for number, pid in enumerate(pids):
                _pin(pid, number % _cores())
        Runner(pool).run(warm_up)
        before = _spent(pids)
        begin = time.perf_counter()
        results = Runner(pool).run(tasks)
        seconds = time.perf_counter() - begin
        used, driver, ray, idle = (b - a for a, b in zip(before, _spent(pids), strict=True))
    assert all(result.status == "done" for result in results), results
    return Run(workers, seconds, used, driver, ray, (used + idle) / seconds)


def predict(run: Run, frames: list[int], costs: Costs, *, pin: bool = False) -> float:
    """Seconds of the same run in the simulation."""
    if pin:  # every worker is a machine with one core, or the part of it that nobody else had
        machines = Machines(run.workers, cores=min(1.0, run.cores / run.workers))
    else:
        machines = Machines(run.workers, per_machine=run.workers, cores=run.cores)
    return simulate(frames, costs, machines, divide=False).now


def as_row(run: Run, frames: list[int], costs: Costs, first: Run, *, pin: bool = False) -> dict:
    """A line of the table."""
    predicted = predict(run, frames, costs, pin=pin)
    return {
        **{name: round(value, 3) for name, value in asdict(run).items()},
        "predicted_seconds": round(predicted, 3),
        "measured_by_predicted": round(run.seconds / predicted, 3),
        "frames_per_second": round(sum(frames) / run.seconds, 3),
        "frames_per_core_second": round(sum(frames) / run.worker_seconds, 3),
        "work_efficiency": round(first.worker_seconds / run.worker_seconds, 3),
        "busy_share_of_cores": round(run.worker_seconds / run.seconds / run.cores, 3),
        "speedup": round(first.seconds / run.seconds, 3),
    }


class NothingWorkload:
    """Tasks that take no time: what is left is the driver and Ray."""

    def run(self, task: Task, report) -> Done:
        return Done({})


def measure_driver(workers: int, tasks: int) -> dict:
    """How long handing out a task takes."""
    with RayPool(NothingWorkload, Placement(gpus=False, most=workers)) as pool:
        while len(pool.workers()) < workers:
            pool.wait(0.2)
        Runner(pool).run([Task(f"w{i}", None) for i in range(10)])
        begin, used = time.perf_counter(), time.process_time()
        Runner(pool).run([Task(str(i), None) for i in range(tasks)])
        seconds, cpu = time.perf_counter() - begin, time.process_time() - used
    return {"tasks_per_second": round(tasks / seconds, 1), "driver_core_ms_per_task": round(1000 * cpu / tasks, 2)}


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _pin(pid: int, core: int) -> None:
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), {core})


def _spent(pids: list[int]) -> tuple[float, float, float, float]:
    """Core-seconds so far: of the workers, of this process, of all others it started, and idle ones."""
    parents, used = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(fields[1])
            used[int(path.parent.name)] = (int(fields[11]) + int(fields[12])) / TICKS
    me = os.getpid()
    below = [pid for pid in used if _is_below(pid, me, parents) and pid not in pids]
    idle = int(Path("/proc/stat").read_text().splitlines()[0].split()[4]) / TICKS
    return sum(used[pid] for pid in pids), used[me], sum(used[pid] for pid in below), idle


def _is_below(pid: int, root: int, parents: dict[int, int]) -> bool:
    while (pid := parents.get(pid, 0)) > 1:
        if pid == root:
            return True
    return False

"""The same videos with 1, 2, 4 and 8 local workers, beside what the simulation says about them.

Other jobs on the machine spoil seconds, so every run also says what it got: core-seconds of its workers, of the driver
and of Ray, and the cores that nobody else had (`cores`). The prediction uses costs that were measured in one process
before, and those cores.
"""

import os
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from cluster_efficiency import Usage
from cluster_simulation import Costs, Machines, simulate
from libranet.cluster.dehazing import DehazeSetup, DehazeWorkload
from libranet.cluster.ray_pool import Placement, RayPool
from libranet.cluster.runner import Runner
from libranet.cluster.tasks import Done, Task
from libranet.engine import dehaze_video, load_network


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


def measure_run(tasks: list[Task], warm_up: list[Task], weights: str, workers: int) -> Run:
    """Run tasks on so many workers of one thread, after each had a first one.

    Args:
        tasks: What is measured.
        warm_up: One task for each worker.
        weights: Of the network.
        workers: How many.
    """
    make = partial(DehazeWorkload, DehazeSetup(model=weights, threads=1, cores=_cores()))
    with RayPool(make, Placement(gpus=False, most=workers)) as pool:
        while len(pool.workers()) < workers:
            pool.wait(0.2)
        pids = [worker.pid for worker in pool.workers()]
        Runner(pool).run(warm_up)
        before = Usage.now(pids)
        begin = time.perf_counter()
        results = Runner(pool).run(tasks)
        seconds = time.perf_counter() - begin
        usage = Usage.now(pids).since(before)
    assert all(result.status == "done" for result in results), results
    cores = (usage.workers + usage.idle) / seconds
    return Run(workers, seconds, usage.workers, usage.driver, usage.ray, cores)


def predict(run: Run, frames: list[int], costs: Costs) -> float:
    """Seconds of the same run in the simulation."""
    machines = Machines(run.workers, per_machine=run.workers, cores=run.cores)
    return simulate(frames, costs, machines, divide=False).now


def as_row(run: Run, frames: list[int], costs: Costs, first: Run) -> dict:
    """A line of the table."""
    predicted = predict(run, frames, costs)
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

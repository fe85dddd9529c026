"""One worker against two with a core each, in turn, and what else the machine did meanwhile.

A worker uses threads for decoding, the network and encoding, so a single one would spread over both cores. Here all
threads of a worker share one core, and a second worker brings a second core. The driver and Ray's own processes are
not pinned: beside one worker they have a core to themselves, beside two they have to share, which counts against two.

A repeat is: worker 0 alone, both, worker 1 alone, with the same clips. It counts if other processes and the hypervisor
took at most `MOST_FOREIGN` of the machine's time in each of the three. The same repeat with plain processes in place
of Ray's workers says what the machine itself gives to a second core.
"""

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from libranet.cluster.dehazing import DehazeSetup, DehazeWorkload
from libranet.cluster.ray_pool import Placement, RayPool
from libranet.cluster.runner import Runner
from libranet.cluster.tasks import Died, Done, Finished, Outcome, Step, Task, WorkerInfo, Workload
from libranet.engine.plan import encoder_settings
from libranet.video.encoder import open_encoder
from libranet.video.reader import open_video

TICKS = os.sysconf("SC_CLK_TCK")
MOST_FOREIGN = 0.05
"""Share of the machine's time that others may take in a run that counts."""
TasksFor = Callable[[str], list[Task]]
"""Makes the tasks of a run, with outputs in a folder of this name."""


@dataclass(frozen=True)
class Usage:
    """Core-seconds, since the start of the processes and of the machine, or of a run."""

    workers: float
    driver: float
    ray: float
    """Everything else that this process started."""
    busy: float
    """Of the whole machine."""
    stolen: float
    """Taken by the hypervisor."""
    idle: float

    @classmethod
    def now(cls, pids: list[int]) -> "Usage":
        """Read what these workers, this process, all others below it and the machine have used."""
        parents, used = {}, {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                fields = path.read_text().rpartition(")")[2].split()
                parents[int(path.parent.name)] = int(fields[1])
                used[int(path.parent.name)] = (int(fields[11]) + int(fields[12])) / TICKS
        me = os.getpid()
        below = [pid for pid in used if pid not in pids and _is_below(pid, me, parents)]
        first = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
        user, nice, system, idle, wait, irq, softirq, stolen = (int(value) / TICKS for value in first[:8])
        busy = user + nice + system + irq + softirq
        rest = sum(used[pid] for pid in below)
        return cls(sum(used[pid] for pid in pids), used[me], rest, busy, stolen, idle + wait)

    def since(self, before: "Usage") -> "Usage":
        """What was used between the two."""
        return Usage(*(b - a for a, b in zip(asdict(before).values(), asdict(self).values(), strict=True)))

    @property
    def foreign(self) -> float:
        """Share of the machine's time that was used neither by the run nor by nobody."""
        others = max(0.0, self.busy - self.workers - self.driver - self.ray) + self.stolen
        return others / (self.busy + self.stolen + self.idle)


@dataclass(frozen=True)
class TimedRun:
    """One run."""

    cores: tuple[int, ...]
    """That its workers had."""
    seconds: float
    usage: Usage

    def as_json(self) -> dict:
        """A line of the result."""
        names = ("workers", "driver", "ray")
        spent = {f"{name}_core_seconds": round(getattr(self.usage, name), 2) for name in names}
        return {
            "cores": self.cores,
            "seconds": round(self.seconds, 3),
            **spent,
            "foreign": round(self.usage.foreign, 4),
        }


class RayWorkers:
    """Workers of a Ray pool, one on each core, some of which are used."""

    def __init__(self, setup: DehazeSetup, cores: int) -> None:
        self._pool = RayPool(partial(DehazeWorkload, setup), Placement(gpus=False, most=cores))
        while len(self._pool.workers()) < cores:
            self._pool.wait(0.2)
        self.pids = [worker.pid for worker in self._pool.workers()]
        for core, pid in enumerate(self.pids):
            pin(pid, core)

    def __enter__(self) -> "RayWorkers":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.__exit__()

    def run(self, tasks: list[Task], cores: tuple[int, ...]) -> None:
        """Run tasks on the workers of these cores."""
        results = Runner(_Some(self._pool, {self.pids[core] for core in cores})).run(tasks)
        assert all(result.status == "done" for result in results), results


class _Some:
    """A pool of which only some workers get tasks."""

    def __init__(self, pool: RayPool, pids: set[int]) -> None:
        self._pool, self._pids = pool, pids
        self.nodes, self.clock, self.start, self.steps = pool.nodes, pool.clock, pool.start, pool.steps

    def idle(self) -> list[WorkerInfo]:
        return [worker for worker in self._pool.idle() if worker.pid in self._pids]

    def wait(self, seconds: float) -> list[Finished | Died]:
        return self._pool.wait(seconds)


class PlainWorkers:
    """The same work in plain processes, one on each core, which share the tasks evenly."""

    def __init__(self, make: Callable[[], Workload], cores: int) -> None:
        context = multiprocessing.get_context("spawn")
        pipes = [context.Pipe() for _ in range(cores)]
        self._pipes = [pipe for pipe, _ in pipes]
        self._processes = [context.Process(target=_serve, args=(make, end), daemon=True) for _, end in pipes]
        for process in self._processes:
            process.start()
        for pipe in self._pipes:
            pipe.recv()
        self.pids = [process.pid or 0 for process in self._processes]
        for core, pid in enumerate(self.pids):
            pin(pid, core)

    def __enter__(self) -> "PlainWorkers":
        return self

    def __exit__(self, *_: object) -> None:
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            pipe.send([])
            process.join()

    def run(self, tasks: list[Task], cores: tuple[int, ...]) -> None:
        """Run tasks on the processes of these cores."""
        for place, core in enumerate(cores):
            self._pipes[core].send(tasks[place :: len(cores)])
        for core in cores:
            assert self._pipes[core].recv()


def _serve(make: Callable[[], Workload], pipe: Connection) -> None:
    workload = make()
    pipe.send(True)
    while tasks := pipe.recv():
        pipe.send(all(isinstance(workload.run(task, _ignore), Done) for task in tasks))


def _ignore(step: Step) -> None:
    pass


def repeat(workers: RayWorkers | PlainWorkers, tasks_for: TasksFor, name: str) -> dict:
    """Worker 0 alone, both, worker 1 alone: how much of two workers' speed is left."""
    runs = []
    for cores in ((0,), (0, 1), (1,)):
        tasks = tasks_for(f"{name}-{len(runs)}")
        before, begin = Usage.now(workers.pids), time.perf_counter()
        workers.run(tasks, cores)
        seconds = time.perf_counter() - begin
        runs.append(TimedRun(cores, seconds, Usage.now(workers.pids).since(before)))
    first, both, second = runs
    alone = (first.seconds + second.seconds) / 2
    work = (first.usage.workers + second.usage.workers) / 2
    return {
        "kind": name.partition("-")[0],
        "efficiency": round(alone / (2 * both.seconds), 4),
        "work_of_one_by_work_of_two": round(work / both.usage.workers, 4),
        "disturbed": any(run.usage.foreign > MOST_FOREIGN for run in runs),
        "runs": [run.as_json() for run in runs],
    }


def measure_efficiency(tasks_for: TasksFor, weights: str, repeats: int, show: Callable[[dict], None]) -> dict:
    """Repeat on Ray's workers and on plain processes in turn.

    Args:
        tasks_for: Makes the tasks of a run.
        weights: Of the network.
        repeats: Of each kind.
        show: Gets every repeat.
    """
    setup = DehazeSetup(model=weights, threads=1, cores=2)
    found = []
    with RayWorkers(setup, 2) as ray_workers, PlainWorkers(partial(DehazeWorkload, setup), 2) as plain_workers:
        kinds = {"ray": ray_workers, "plain": plain_workers}
        for kind, workers in kinds.items():
            workers.run(tasks_for(f"{kind}-first"), (0, 1))
        for number in range(repeats):
            for kind, workers in kinds.items():
                found.append(repeat(workers, tasks_for, f"{kind}-{number}"))
                show(found[-1])
    return {"most_foreign": MOST_FOREIGN, "median": {kind: median_of(found, kind) for kind in kinds}, "repeats": found}


class TranscodeWorkload:
    """Decoding and encoding as a worker does them, with one thread each and no network between."""

    def run(self, task: Task, report: Callable[[Step], None]) -> Outcome:
        """Transcode the video of a whole job."""
        job, count = task.work.job, 0
        Path(job.output).parent.mkdir(exist_ok=True)
        with open_video(job.source) as reader, Path(job.output).open("wb") as file:
            settings = encoder_settings(reader, Path(job.output), task.work.options)
            encoder = open_encoder(replace(settings, threads=1))
            for frame in reader.frames():
                count += 1
                file.writelines(bytes(packet) for packet in encoder.encode(frame.image))
            file.writelines(bytes(packet) for packet in encoder.encode(None))
        return Done({"frames": count})


def measure_processes(tasks_for: TasksFor, make: Callable[[], Workload], counts: list[int]) -> list[dict]:
    """So many plain processes, with a core and the same number of tasks each: the time should not depend on them.

    Args:
        tasks_for: Makes two tasks for each process of the largest number.
        make: Makes the workload.
        counts: Numbers of processes, the smallest first.
    """
    rows: list[dict] = []
    with PlainWorkers(make, max(counts)) as workers:
        workers.run(tasks_for("first"), tuple(range(max(counts))))
        for count in counts:
            tasks = tasks_for(f"with{count}")[: 2 * count]
            before, begin = Usage.now(workers.pids), time.perf_counter()
            workers.run(tasks, tuple(range(count)))
            seconds = time.perf_counter() - begin
            run = TimedRun(tuple(range(count)), seconds, Usage.now(workers.pids).since(before))
            efficiency = (rows[0]["seconds"] if rows else seconds) / seconds
            row = {"processes": count, "efficiency": round(efficiency, 4), **run.as_json()}
            rows.append({**row, "core_seconds_per_task": round(run.usage.workers / len(tasks), 4)})
    return rows


def median_of(found: list[dict], kind: str) -> dict:
    """The middle of the repeats that count."""
    good = [one["efficiency"] for one in found if one["kind"] == kind and not one["disturbed"]]
    return {"undisturbed": len(good), "efficiency": round(statistics.median(good), 4) if good else None}


def pin(pid: int, core: int) -> None:
    """Keep all threads of a process on one core, and those that they will start."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), {core})


def _is_below(pid: int, root: int, parents: dict[int, int]) -> bool:
    while (pid := parents.get(pid, 0)) > 1:
        if pid == root:
            return True
    return False

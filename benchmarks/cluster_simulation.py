"""Many workers in simulated time: the real runner, the real division of long videos, measured stage times.

A worker restores a frame in `wall` seconds where its machine has cores for it, and uses `cpu` core-seconds of them.
Workers of one machine share its cores, and all workers share the store; where one of the two is full, everybody who
needs it gets slower by the same factor. The driver hands out one task after another.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from libranet.cluster.dehazing import part_counts
from libranet.cluster.runner import Runner
from libranet.cluster.tasks import Done, Failed, Finished, Split, Step, Task, WorkerInfo
from libranet.engine.parts import part_starts

COUNTS = (1, 2, 4, 8, 16, 64, 256, 1000)
_WAITING, _STARTING, _FRAMES = range(3)
_NOTHING = 1e-9


@dataclass(frozen=True)
class Costs:
    """What a job needs, measured with one worker that has its machine for itself."""

    wall: float
    """Seconds per frame: those of the slowest stage."""
    cpu: float
    """Core-seconds per frame of all stages."""
    start: float = 0.0
    """Core-seconds of a task, on one core, before its first and after its last frame."""
    storage: float = 0.0
    """Bytes read and written per frame."""
    driver: float = 0.0
    """Seconds of the driver for handing out a task and taking its answer."""
    lead: int = 50
    """Frames that a part restores twice: `--steady 1` at 25 fps."""
    segment: int = 120
    """Frames of a segment."""
    life: float = 0.0
    """Hours that a spot machine runs on average before it gets notice; 0: for ever."""
    restart: float = 180.0
    """Seconds until another one takes its place."""


@dataclass(frozen=True)
class Machines:
    """Where the workers run."""

    workers: int
    per_machine: int = 1
    cores: float = float("inf")
    """Of each machine."""
    store: float = float("inf")
    """Bytes per second that the store serves to all of them."""


@dataclass(frozen=True)
class Video:
    """The work of a simulated task."""

    frames: int
    parts: int = 0
    """Into how many parts it is divided; 0 for none."""


@dataclass
class SimulatedPool:
    """Workers in simulated time, under the real runner."""

    machines: Machines
    costs: Costs
    now: float = 0.0
    core_seconds: float = 0.0
    """Spent so far."""
    redone: int = 0
    """Frames that were restored twice, because parts overlap or a machine had notice."""
    notices: int = 0
    """Machines that went in the middle of a job."""
    _rng: random.Random = field(default_factory=lambda: random.Random(0))
    _rest: dict[str, int] = field(default_factory=dict)
    """Frames that are left of the tasks of machines with notice."""
    _late: dict[int, float] = field(default_factory=dict)
    """Seconds until the machine in a worker's place is there."""
    _going: dict[int, int] = field(default_factory=dict)
    """Frames that a worker does before its machine goes."""
    _driver_free: float = 0.0
    _tasks: dict[int, Task] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count, per = self.machines.workers, self.machines.per_machine
        self._all = [WorkerInfo(f"w{i}", f"n{i // per}", i) for i in range(count)]
        self._machine = np.arange(count) // per
        self._idle = dict.fromkeys(range(count))
        self._phase = np.full(count, -1)
        self._left = np.zeros((count, 3))  # seconds until the driver is free, core-seconds, frames

    def idle(self) -> list[WorkerInfo]:
        return [self._all[i] for i in self._idle]

    def nodes(self) -> set[str]:
        return {"n0"}

    def want(self, count: int) -> None: ...

    def stop(self, worker: WorkerInfo) -> None: ...

    def steps(self) -> dict[str, Step]:
        return {}

    def clock(self) -> float:
        return self.now

    def start(self, worker: WorkerInfo, task: Task) -> None:
        number = worker.pid
        del self._idle[number]
        self._tasks[number] = task
        self._driver_free = max(self.now, self._driver_free) + self.costs.driver
        divided = bool(self._starts(task.work))  # the first worker only plans
        frames = 0 if divided else self._rest.get(task.key, task.work.frames)
        if self.costs.life and frames:
            lives = int(self._rng.expovariate(1 / (3600 * self.costs.life)) / self.costs.wall)
            if lives < frames:
                self._going[number] = frames = lives
        waits = self._driver_free - self.now + self._late.pop(number, 0.0)
        self._left[number] = (waits, self.costs.start, frames)
        self._phase[number] = _WAITING

    def wait(self, seconds: float) -> list[Finished]:
        """Go on to the next answer."""
        while True:
            busy = np.flatnonzero(self._phase >= 0)
            phase = self._phase[busy]
            left = self._left[busy, phase]
            speed, cores = self._speeds(busy, phase)
            step = float(np.min(left / speed))
            self.now += step
            self.core_seconds += step * cores
            self._left[busy, phase] = np.maximum(left - step * speed, 0.0)
            through = busy[left - step * speed <= _NOTHING]
            self._phase[through] += 1
            if len(done := through[self._phase[through] > _FRAMES]):
                return [self._answer(int(number)) for number in done]

    def _speeds(self, busy: np.ndarray, phase: np.ndarray) -> tuple[np.ndarray, float]:
        """How fast each busy worker gets on in its phase, and the cores that all of them use."""
        costs, machines = self.costs, self.machines
        demand = np.choose(phase, [0.0, 1.0, costs.cpu / costs.wall])  # cores
        on_machine = np.bincount(self._machine[busy], weights=demand)
        share = np.minimum(1.0, machines.cores / np.maximum(on_machine, _NOTHING))[self._machine[busy]]
        wanted = float(np.sum(share[phase == _FRAMES])) / costs.wall * costs.storage
        served = min(1.0, machines.store / wanted) if wanted > 0 else 1.0
        share = np.where(phase == _FRAMES, share * served, share)
        return np.choose(phase, [np.ones_like(share), share, share / costs.wall]), float(np.sum(demand * share))

    def _answer(self, number: int) -> Finished:
        task = self._tasks.pop(number)
        self._phase[number] = -1
        self._idle[number] = None
        if (done := self._going.pop(number, None)) is not None:
            again = min(done, self.costs.segment // 2)  # the segment under way, half done on average
            self._rest[task.key] = self._rest.get(task.key, task.work.frames) - done + again
            self.redone += again
            self.notices += 1
            self._late[number] = self.costs.restart
            return Finished(self._all[number], Failed("drained", "the machine goes"))
        starts = self._starts(task.work)
        if not starts:
            return Finished(self._all[number], Done({"new_frames": task.work.frames}))
        ends, lead = [*starts[1:], task.work.frames], self.costs.lead
        parts = []
        for place, (begin, end) in enumerate(zip(starts, ends, strict=True)):
            before = min(begin, lead)
            self.redone += before
            parts.append(Task(f"{task.key}#{place}", Video(end - begin + before), float(end - begin)))
        join = Task(f"{task.key}#join", Video(0), 0.0)
        return Finished(self._all[number], Split(tuple(parts), join, task))

    def _starts(self, video: Video) -> list[int]:
        if video.parts < 2:
            return []
        return part_starts(video.frames, lead=self.costs.lead, length=self.costs.segment, wanted=video.parts)


def simulate(frames: list[int], costs: Costs, machines: Machines, *, divide: bool = True) -> SimulatedPool:
    """Run videos of so many frames, and return the pool at the end."""
    counts = part_counts(frames, machines.workers) if divide else [0] * len(frames)
    pool = SimulatedPool(machines, costs)
    Runner(pool).run([Task(str(i), Video(n, c), float(n)) for i, (n, c) in enumerate(zip(frames, counts, strict=True))])
    return pool


def archive(videos: int, frames: int) -> list[int]:
    """Lengths of the videos of an archive: log-normal, with sigma 0.8, and so many frames in the middle."""
    rng = random.Random(0)
    return [max(1, round(frames * rng.lognormvariate(0, 0.8))) for _ in range(videos)]


def table(
    frames: list[int], costs: Costs, *, cores: float, store: float, divide: bool = True, counts: Sequence[int] = COUNTS
) -> dict[int, dict]:
    """Time and efficiency of so many machines with one worker each, and what is full."""
    rows = {}
    alone = sum(frames) * costs.wall + len(frames) * (costs.start + costs.driver)  # one machine that never goes
    for workers in counts:
        machines = Machines(workers, cores=cores, store=store)
        pool = simulate(frames, costs, machines, divide=divide)
        rows[workers] = {
            "hours": round(pool.now / 3600, 3),
            "efficiency": round(alone / workers / pool.now, 3),
            "redone": round(pool.redone / sum(frames), 6),
            "notices": pool.notices,
            "store_used": round(sum(frames) * costs.storage / pool.now / store, 3) if store < float("inf") else 0.0,
            "driver_used": round(_tasks_of(frames, costs, workers, divide=divide) * costs.driver / pool.now, 3),
        }
    return rows


def _tasks_of(frames: list[int], costs: Costs, workers: int, *, divide: bool) -> int:
    counts = part_counts(frames, workers) if divide else [0] * len(frames)
    parts = [
        len(part_starts(n, lead=costs.lead, length=costs.segment, wanted=c)) if c > 1 else 0
        for n, c in zip(frames, counts, strict=True)
    ]
    return len(frames) + sum(count + 1 for count in parts if count)

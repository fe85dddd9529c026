"""Tasks to workers: who is idle takes the longest task that waits. What a dead worker had goes to another one.

Workers pull, so a fast one does more than a slow one, and nobody has to know the speeds before. Where a task runs
changes nothing about its result.
"""

import heapq
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from libranet.cluster.tasks import Died, Done, Failed, Finished, Pool, Split, Step, Task, WorkerInfo

MOST_DEATHS = 6
"""Workers that may die over one task before it is given up: it may be the task that kills them."""
MOST_BUGS = 2
MOST_WAITS = 60
"""Times that a task finds its output in the hands of another process. They are `BUSY_SECONDS` apart."""
BUSY_SECONDS = 2.0
POLL_SECONDS = 0.5

Status = Literal["done", "failed"]


@dataclass(frozen=True)
class TaskResult:
    """How a task ended."""

    key: str
    status: Status
    result: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    trouble: str = ""
    attempts: int = 1
    worker: str = ""
    node: str = ""


@dataclass
class JobState:
    """A whole run at a moment, for progress and metrics."""

    tasks: int = 0
    done: int = 0
    failed: int = 0
    frames: int = 0
    """Frames of finished tasks and of those under way, in this run."""
    seconds: float = 0.0
    work_done: float = 0.0
    work_total: float = 0.0
    deaths: int = 0
    workers: dict[str, tuple[str, Step]] = field(default_factory=dict)
    """By the workers' names: the task and how far it is."""

    @property
    def fps(self) -> float:
        """Frames per second since the beginning, over all workers."""
        return self.frames / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at this pace; None before anything is known."""
        if self.work_done <= 0 or self.seconds <= 0:
            return None
        return self.seconds * (self.work_total - self.work_done) / self.work_done


@dataclass(frozen=True)
class _Group:
    """The parts of one video."""

    last: Task
    whole: Task
    waiting: set[str]


@dataclass
class _Given:
    """A task as the user gave it."""

    task: Task
    group: _Group | None = None
    """Its parts, if it is a video that was divided."""
    deaths: int = 0
    done: float = 0.0
    """Cost of the parts that are done."""
    result: TaskResult | None = None


@dataclass
class _Entry:
    """A task that waits or runs, and what happened to it so far."""

    task: Task
    given: _Given
    """What the user gave: the task itself, or the video it is a part of."""
    cost: float
    """Its share in the work of the run."""
    group: _Group | None = None
    """The parts that it is one of."""
    deaths: int = 0
    bugs: int = 0
    waits: int = 0
    not_before: float = 0.0
    avoid: set[str] = field(default_factory=set)
    """Nodes that could not write its output."""
    farthest: int = 0
    """Frames it had reached when its workers died."""
    starts: int = 0
    """How often a worker began it."""

    @property
    def stale(self) -> bool:
        """Whether it is a part of a video that has failed or is done whole now."""
        return self.given.result is not None or (self.group is not None and self.given.group is not self.group)


class Runner:
    """Runs tasks on a pool of workers until all are done or have failed."""

    def __init__(
        self,
        pool: Pool,
        *,
        on_result: Callable[[TaskResult], None] | None = None,
        watch: Callable[[JobState], None] | None = None,
    ) -> None:
        """Make a runner.

        Args:
            pool: The workers.
            on_result: Called once for every task, in the order in which they end.
            watch: Called with the state of the run, about twice a second.
        """
        self._pool, self._on_result, self._watch = pool, on_result, watch
        self._queue: list[tuple[float, int, _Entry]] = []
        self._order = itertools.count()
        self._given: list[_Given] = []
        self._running: dict[str, _Entry] = {}
        self._frames = 0
        self.state = JobState()

    def run(self, tasks: Iterable[Task]) -> list[TaskResult]:
        """Run all tasks, and return one result for each of them, in their order."""
        self._given = [_Given(task) for task in tasks]
        self.state = JobState(tasks=len(self._given), work_total=sum(given.task.cost for given in self._given))
        begin = looked = self._pool.clock()
        for given in self._given:
            self._put(_Entry(given.task, given, given.task.cost))
        while self._queue or self._running:
            self._hand_out()
            events = self._pool.wait(POLL_SECONDS)
            for event in events:
                entry = self._running.pop(event.worker.name)
                if isinstance(event, Finished):
                    self._finished(entry, event)
                else:
                    self._died(entry, event)
            if not events or self._pool.clock() - looked >= POLL_SECONDS:
                self._hand_out()  # asking every worker how far it is takes a moment, in which nobody should wait
                self._update(self._pool.clock() - begin)
                looked = self._pool.clock()
        self._update(self._pool.clock() - begin)
        return [given.result for given in self._given if given.result is not None]

    def _put(self, entry: _Entry) -> None:
        heapq.heappush(self._queue, (-entry.task.cost, next(self._order), entry))

    def _hand_out(self) -> None:
        now, nodes = self._pool.clock(), self._pool.nodes()
        for worker in self._pool.idle():
            held: list[tuple[float, int, _Entry]] = []
            while self._queue:
                item = heapq.heappop(self._queue)
                entry = item[2]
                if entry.stale:
                    continue
                if entry.not_before <= now and worker.node not in entry.avoid:
                    self._running[worker.name] = entry
                    entry.starts += 1
                    self._pool.start(worker, entry.task)
                    break
                if entry.avoid and nodes and nodes <= entry.avoid:
                    self._end(entry, worker, error="no other node can write it", trouble="output")
                    continue
                held.append(item)
            for item in held:
                heapq.heappush(self._queue, item)

    def _finished(self, entry: _Entry, event: Finished) -> None:
        outcome, given = event.outcome, entry.given
        if entry.stale:
            return
        if isinstance(outcome, Done):
            self._done(entry, event.worker, outcome)
        elif isinstance(outcome, Split):
            group = _Group(outcome.last, outcome.whole, {part.key for part in outcome.parts})
            given.group = group
            total = sum(part.cost for part in outcome.parts) or 1.0
            for part in outcome.parts:
                share = given.task.cost * part.cost / total
                self._put(_Entry(Task(part.key, part.work, share), given, share, group))
        else:
            self._failed(entry, event.worker, outcome)

    def _done(self, entry: _Entry, worker: WorkerInfo, outcome: Done) -> None:
        self._frames += int(outcome.result.get("new_frames", 0))
        if entry.group is None:
            self._end(entry, worker, result=outcome.result)
            return
        entry.group.waiting.discard(entry.task.key)
        entry.given.done += entry.cost
        if not entry.group.waiting:
            self._put(_Entry(entry.group.last, entry.given, 0.0))

    def _failed(self, entry: _Entry, worker: WorkerInfo, failure: Failed) -> None:
        retry, given = False, entry.given
        if failure.trouble == "whole" and given.group is not None:
            whole, given.group = given.group.whole, None
            self._drop_parts(given)
            self._put(_Entry(whole, given, given.task.cost))
            return
        if failure.trouble == "bug":
            entry.bugs += 1
            retry = entry.bugs < MOST_BUGS
        elif failure.trouble == "busy":
            entry.waits += 1
            entry.not_before = self._pool.clock() + BUSY_SECONDS
            retry = entry.waits < MOST_WAITS
        elif failure.trouble == "output":
            entry.avoid.add(worker.node)
            retry = bool(self._pool.nodes() - entry.avoid)
        if retry:
            self._put(entry)
        else:
            self._end(entry, worker, error=failure.sentence, trouble=failure.trouble)

    def _died(self, entry: _Entry, event: Died) -> None:
        self.state.deaths += 1
        if entry.stale:
            return
        step = self.state.workers.get(event.worker.name, ("", Step()))[1]
        # A task that gets further each time is not what kills its workers.
        entry.deaths = 1 if step.frames > entry.farthest else entry.deaths + 1
        entry.farthest = max(entry.farthest, step.frames)
        entry.given.deaths += 1
        if entry.deaths < MOST_DEATHS:
            self._put(entry)
            return
        sentence = f"{entry.deaths} workers died over it ({event.reason}): look for lack of memory on their nodes"
        self._end(entry, event.worker, error=sentence, trouble="bug")

    def _end(
        self,
        entry: _Entry,
        worker: WorkerInfo,
        *,
        result: dict[str, Any] | None = None,
        error: str = "",
        trouble: str = "",
    ) -> None:
        given = entry.given
        if error:
            self._drop_parts(given)
        given.result = TaskResult(
            given.task.key,
            "failed" if error else "done",
            result or {},
            error,
            trouble,
            attempts=entry.starts if given.group is None else 1 + given.deaths,
            worker=worker.name,
            node=worker.node,
        )
        self.state.done += not error
        self.state.failed += bool(error)
        if self._on_result is not None:
            self._on_result(given.result)

    def _drop_parts(self, given: _Given) -> None:
        self._queue = [item for item in self._queue if item[2].given is not given]
        heapq.heapify(self._queue)
        given.done = 0.0

    def _update(self, seconds: float) -> None:
        state, steps = self.state, self._pool.steps()
        state.seconds = seconds
        state.workers = {name: (entry.task.key, steps.get(name, Step())) for name, entry in self._running.items()}
        ended = sum(given.done if given.result is None else given.task.cost for given in self._given)
        under_way = sum(
            entry.cost * min(1.0, step.frames / step.total)
            for name, entry in self._running.items()
            if (step := steps.get(name)) is not None and step.total
        )
        state.frames = self._frames + sum(step.new for step in steps.values())
        state.work_done = ended + under_way
        if self._watch is not None:
            self._watch(state)

"""Tasks to workers: who is idle takes the longest task that waits. What a dead worker had goes to another one.

Workers pull, so a fast one does more than a slow one, and nobody has to know the speeds before. Where a task runs
changes nothing about its result.
"""

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from libranet.cluster.tasks import Died, Done, Failed, Finished, Pool, Span, Split, Step, Task, Trouble, WorkerInfo
from libranet.errors import LibraNetError

MOST_DEATHS = 6
"""Workers that may die over one task before it is given up: it may be the task that kills them."""
POLL_SECONDS = 0.5
AGE_SECONDS = 5.0
"""How often the oldest waiting task is looked for: there may be a million of them."""


@dataclass(frozen=True)
class Retry:
    """What happens to a task after one kind of trouble."""

    tries: int
    """Attempts that may end in it."""
    wait: float = 0.0
    """Seconds before the second one."""
    longest: float = 0.0
    """Each wait is twice the one before it, up to this."""

    def seconds(self, failures: int) -> float:
        """How long to wait after so many failures; never the same for two tasks that failed together."""
        return random.uniform(0.5, 1.0) * min(self.longest, self.wait * 2.0 ** (failures - 1))


RETRIES: dict[Trouble, Retry] = {
    "bug": Retry(2),
    "deadline": Retry(2),  # its node may have been slow
    "busy": Retry(60, wait=4.0, longest=4.0),
    "store": Retry(10, wait=4.0, longest=240.0),  # each is already several tries, seconds apart: a quarter of an hour
    "crowded": Retry(60, wait=5.0, longest=20.0),  # only those are counted while nothing else runs on the node
    "drained": Retry(1000),  # the node goes, which is not the task's fault
}
"""Other trouble is final: the same attempt would end in the same way."""

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


@dataclass(frozen=True)
class Attempt:
    """A task on a worker, from its start to its answer or its end. Seconds by the pool's clock."""

    key: str
    given: str
    """The task of the user that it belongs to: the same, or the video that it is a part of."""
    worker: WorkerInfo
    waited: float
    """Seconds before it in the queue, since the task could have begun."""
    begin: float
    end: float
    outcome: str
    """`done`, `split`, or the trouble."""
    error: str = ""
    last: bool = True
    """Whether the task has ended with it."""
    spans: tuple[Span, ...] = ()
    store_errors: dict[tuple[str, str], int] = field(default_factory=dict)


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
    waiting: int = 0
    """Tasks and parts that no worker has."""
    oldest: float = 0.0
    """Seconds for which the longest waiting of them could have begun."""
    workers: dict[str, tuple[str, Step]] = field(default_factory=dict)
    """By the workers' names: the task and how far it is."""

    @property
    def fps(self) -> float:
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
    failures: Counter[str] = field(default_factory=Counter)
    """By the kind of trouble."""
    not_before: float = 0.0
    """When it may begin; since then it waits."""
    waited: float = 0.0
    began: float = 0.0
    overdue: bool = False
    """Whether its worker was stopped at the deadline."""
    avoid: set[str] = field(default_factory=set)
    """Nodes that could not write its output."""
    farthest: int = 0
    """Frames it had reached when its workers died."""
    starts: int = 0
    worker: WorkerInfo = field(default_factory=lambda: WorkerInfo("", ""))
    """Who has it, or had it last."""

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
        on_attempt: Callable[[Attempt], None] | None = None,
        watch: Callable[[JobState], None] | None = None,
        deadline: float | None = None,
    ) -> None:
        """Make a runner.

        Args:
            on_result: Called once for every task, in the order in which they end.
            on_attempt: Called for everything that a worker did, also what failed.
            watch: Called with the state of the run, about twice a second.
            deadline: Seconds that an attempt at a task or at a part of a long video may take.
        """
        self._pool, self._on_result, self._on_attempt, self._watch = pool, on_result, on_attempt, watch
        self._deadline = deadline
        self._queue: list[tuple[float, int, _Entry]] = []
        self._order = itertools.count()
        self._given: list[_Given] = []
        self._running: dict[str, _Entry] = {}
        self._frames = 0
        self._ended = 0.0  # cost of what is done or failed, also of parts
        self._full: dict[str, float] = {}  # nodes whose disk had no room, and until when they get nothing
        self._aged = float("-inf")
        self.state = JobState()

    def run(self, tasks: Iterable[Task]) -> list[TaskResult]:
        """Run all tasks, and return one result for each of them, in their order.

        Raises:
            LibraNetError: The cluster was lost before any task was done.
        """
        self._given = [_Given(task) for task in tasks]
        self.state = JobState(tasks=len(self._given), work_total=sum(given.task.cost for given in self._given))
        begin = looked = self._pool.clock()
        self._ended = 0.0
        for given in self._given:
            self._put(_Entry(given.task, given, given.task.cost))
        while self._queue or self._running:
            self._pool.want(len(self._queue) + len(self._running))
            self._stop_overdue()
            self._hand_out()
            try:
                events = self._pool.wait(POLL_SECONDS)
            except LibraNetError as error:
                if not self.state.done:
                    raise
                self._give_up(error.sentence)
                break
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

    def _give_up(self, sentence: str) -> None:
        """End all that has no result: what was done before the cluster was lost is reported beside it."""
        waiting = [item[2] for item in self._queue]
        for entry in (*self._running.values(), *waiting):
            if not entry.stale:
                self._end(entry, entry.worker, error=sentence, trouble="cluster")
        self._queue, self._running = [], {}

    def _stop_overdue(self) -> None:
        """Stop workers over tasks that take too long. Their deaths are events as others are."""
        if self._deadline is None:
            return
        for entry in self._running.values():
            if not entry.overdue and self._pool.clock() - entry.began > self._deadline:
                entry.overdue = True
                self._pool.stop(entry.worker)

    def _put(self, entry: _Entry) -> None:
        entry.not_before = max(entry.not_before, self._pool.clock())
        heapq.heappush(self._queue, (-entry.task.cost, next(self._order), entry))

    def _hand_out(self) -> None:
        now, nodes = self._pool.clock(), self._pool.nodes()
        for worker in self._pool.idle():
            if self._full.get(worker.node, 0.0) > now:
                continue
            held: list[tuple[float, int, _Entry]] = []
            while self._queue:
                item = heapq.heappop(self._queue)
                entry = item[2]
                if entry.stale:
                    continue
                if entry.not_before <= now and worker.node not in entry.avoid:
                    self._running[worker.name] = entry
                    entry.waited, entry.worker, entry.began, entry.overdue = now - entry.not_before, worker, now, False
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
        self._full.pop(event.worker.node, None)  # it may have made room
        if not entry.stale:
            if isinstance(outcome, Done):
                self._done(entry, event.worker, outcome)
            elif isinstance(outcome, Split):
                given.group = group = _Group(outcome.last, outcome.whole, {part.key for part in outcome.parts})
                total = sum(part.cost for part in outcome.parts) or 1.0
                for part in outcome.parts:
                    share = given.task.cost * part.cost / total
                    self._put(_Entry(Task(part.key, part.work, share), given, share, group))
            else:
                self._failed(entry, event.worker, outcome)
        if isinstance(outcome, Failed):
            self._tell(entry, outcome.trouble, outcome.sentence, event)
        else:
            self._tell(entry, "done" if isinstance(outcome, Done) else "split", "", event)

    def _tell(self, entry: _Entry, outcome: str, error: str, answer: Finished | None = None) -> None:
        if self._on_attempt is not None:
            self._on_attempt(
                Attempt(
                    entry.task.key,
                    entry.given.task.key,
                    entry.worker,
                    entry.waited,
                    entry.began,
                    self._pool.clock(),
                    outcome,
                    error,
                    entry.given.result is not None,
                    answer.spans if answer else (),
                    answer.store_errors if answer else {},
                )
            )

    def _done(self, entry: _Entry, worker: WorkerInfo, outcome: Done) -> None:
        self._frames += int(outcome.result.get("new_frames", 0))
        if entry.group is None:
            self._end(entry, worker, result=outcome.result)
            return
        entry.group.waiting.discard(entry.task.key)
        entry.given.done += entry.cost
        self._ended += entry.cost
        if not entry.group.waiting:
            self._put(_Entry(entry.group.last, entry.given, 0.0))

    def _failed(self, entry: _Entry, worker: WorkerInfo, failure: Failed) -> None:
        retry, given = False, entry.given
        if failure.trouble == "whole" and given.group is not None:
            whole, given.group = given.group.whole, None
            self._drop_parts(given)
            self._put(_Entry(whole, given, given.task.cost))
            return
        if failure.trouble == "output":
            entry.avoid.add(worker.node)
            retry = bool(self._pool.nodes() - entry.avoid)
        elif (policy := RETRIES.get(failure.trouble)) is not None:
            if failure.trouble == "crowded":
                self._full[worker.node] = self._pool.clock() + policy.wait
            if failure.trouble != "crowded" or not self._others_on(worker.node):
                entry.failures[failure.trouble] += 1
            count = entry.failures[failure.trouble]
            retry = count < policy.tries
            entry.not_before = self._pool.clock() + policy.seconds(max(1, count))
        if retry:
            self._put(entry)
        else:
            self._end(entry, worker, error=failure.sentence, trouble=failure.trouble)

    def _others_on(self, node: str) -> bool:
        return any(entry.worker.node == node for entry in self._running.values())

    def _died(self, entry: _Entry, event: Died) -> None:
        if entry.overdue:
            sentence = f"it took longer than {self._deadline:g} s: raise --deadline, or look at its node"
            if not entry.stale:
                self._failed(entry, event.worker, Failed("deadline", sentence))
            self._tell(entry, "deadline", sentence)
            return
        self.state.deaths += 1
        if not entry.stale:
            step = self.state.workers.get(event.worker.name, ("", Step()))[1]
            # A task that gets further each time is not what kills its workers.
            entry.deaths = 1 if step.frames > entry.farthest else entry.deaths + 1
            entry.farthest = max(entry.farthest, step.frames)
            entry.given.deaths += 1
            if entry.deaths < MOST_DEATHS:
                self._put(entry)
            else:
                reason = f"{entry.deaths} workers died over it ({event.reason})"
                self._end(
                    entry, event.worker, error=f"{reason}: look for lack of memory on their nodes", trouble="deaths"
                )
        self._tell(entry, "deaths", event.reason)

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
        self._ended += given.task.cost - given.done
        self.state.done += not error
        self.state.failed += bool(error)
        if self._on_result is not None:
            self._on_result(given.result)

    def _drop_parts(self, given: _Given) -> None:
        self._queue = [item for item in self._queue if item[2].given is not given]
        heapq.heapify(self._queue)
        self._ended -= given.done
        given.done = 0.0

    def _update(self, seconds: float) -> None:
        state, steps = self.state, self._pool.steps()
        state.seconds = seconds
        state.workers = {name: (entry.task.key, steps.get(name, Step())) for name, entry in self._running.items()}
        under_way = sum(
            entry.cost * min(1.0, step.frames / step.total)
            for name, entry in self._running.items()
            if (step := steps.get(name)) is not None and step.total
        )
        state.frames = self._frames + sum(step.new for step in steps.values())
        state.work_done = self._ended + under_way
        state.waiting = len(self._queue)
        now = self._pool.clock()
        if self._watch is not None:
            if now - self._aged >= AGE_SECONDS or not self._queue:
                self._aged = now
                state.oldest = max((now - item[2].not_before for item in self._queue), default=0.0)
            self._watch(state)

"""What goes to a worker and what comes back. None of it knows Ray."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Trouble = Literal["input", "output", "busy", "bug", "whole", "store", "crowded", "drained", "deadline", "deaths"]
"""Why an attempt failed: its input, the place it writes to, another process at the same output, a bug; a part that
cannot be made exactly, so that its video must be done whole; an object store that answers with errors for now, a disk
without room for now, a node that is about to go; a deadline that passed; workers that died over it.
"""


@dataclass(frozen=True)
class Task:
    """A piece of work for one worker."""

    key: str
    """Its name, which no other task of the run has."""
    work: Any
    cost: float = 1.0
    """How long it takes in comparison with others, such as its frames or bytes. The longest begin first."""


@dataclass(frozen=True)
class Done:
    """The task is done, or was done before."""

    result: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Split:
    """The task is too long for one worker: these parts, in any order, and then `last`."""

    parts: tuple[Task, ...]
    last: Task
    whole: Task
    """Instead of them, if a part turns out to be impossible."""


@dataclass(frozen=True)
class Failed:
    """The task failed on this worker."""

    trouble: Trouble
    sentence: str


Outcome = Done | Split | Failed


class DrainedError(Exception):
    """The node of this worker is about to go: the task stops here and goes on elsewhere."""


@dataclass(frozen=True)
class Step:
    """How far a worker is with its task."""

    frames: int = 0
    total: int | None = None
    new: int = 0
    """Frames of this attempt: without those that an earlier one had finished."""
    fps: float = 0.0
    """Frames per second of this attempt."""


class Workload(Protocol):
    """What a worker does. It is made once in each worker process and holds what is expensive, such as a network."""

    def run(self, task: Task, report: Callable[[Step], None]) -> Outcome:
        """Do a task. It may be called again for a task whose worker was killed: what is there must be used."""


@dataclass(frozen=True)
class WorkerInfo:
    """A worker process."""

    name: str
    node: str
    pid: int = 0


@dataclass(frozen=True)
class Span:
    """A stage of an attempt, in seconds since 1970 by the clock of its machine."""

    name: str
    begin: float
    end: float
    facts: dict[str, Any] = field(default_factory=dict)
    inside: str = ""
    """The span of the same attempt that holds it; nothing for the attempt itself."""


@dataclass(frozen=True)
class Finished:
    """A worker gave an answer."""

    worker: WorkerInfo
    outcome: Outcome
    spans: tuple[Span, ...] = ()
    store_errors: dict[tuple[str, str], int] = field(default_factory=dict)
    """Requests to object stores that failed, also those that succeeded later, by operation and kind of error."""


@dataclass(frozen=True)
class Died:
    """A worker was killed, or its node was lost, in the middle of a task."""

    worker: WorkerInfo
    reason: str


class Pool(Protocol):
    """Workers. `libranet.cluster.ray_pool` has real ones, and says what each method does; benchmarks simulate them."""

    def idle(self) -> list[WorkerInfo]: ...
    def nodes(self) -> set[str]: ...
    def want(self, count: int) -> None: ...
    def start(self, worker: WorkerInfo, task: Task) -> None: ...
    def stop(self, worker: WorkerInfo) -> None: ...
    def wait(self, seconds: float) -> list[Finished | Died]: ...
    def steps(self) -> dict[str, Step]: ...
    def clock(self) -> float: ...

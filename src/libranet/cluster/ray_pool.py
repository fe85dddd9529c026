"""Workers as Ray actors: so many on each node, new ones for those that die, more when nodes join."""

import logging
import math
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from libranet.cluster.joining import ClusterError
from libranet.cluster.scratch import CrowdedError
from libranet.cluster.spans import collected
from libranet.cluster.storage import RefusedError, StoreError, take_failures
from libranet.cluster.tasks import (
    Died,
    DrainedError,
    Failed,
    Finished,
    Outcome,
    Step,
    Task,
    Trouble,
    WorkerInfo,
    Workload,
)
from libranet.engine.options import OutputError
from libranet.engine.parts import CannotSplitError
from libranet.engine.segments import BusyError
from libranet.errors import LibraNetError

logger = logging.getLogger(__name__)

START_SECONDS = 300.0
ASK_SECONDS = 1800.0
"""The same where a machine has to be found and started for it."""
MOST_STARTS = 3
"""Starts in a row that may fail, for each node, before no more are tried."""
IDLE_SECONDS = 30.0
"""A worker for whom there is no task keeps its place so long; then an autoscaler may take its machine away."""
REFRESH_SECONDS = 2.0


@dataclass(frozen=True)
class Placement:
    """How workers share a node."""

    gpus: bool
    """One worker for each GPU; nodes without a GPU have none. Otherwise workers share the cores."""
    cores: int = 1
    most: int | None = None
    """The largest number of workers in all, or None for as many as the nodes have room for."""
    asks: bool = False
    """Workers without a place stay requests to Ray, for which an autoscaler starts nodes. Otherwise `most` workers
    share the nodes that are there, even where they are more than the cores carry."""

    def on(self, node: dict[str, Any]) -> int:
        """How many workers a node has room for."""
        resources = node["Resources"]
        if self.gpus:
            return int(resources.get("GPU", 0))
        return int(resources.get("CPU", 0)) // self.cores


_TROUBLES: tuple[tuple[type[LibraNetError], Trouble], ...] = (
    (StoreError, "store"),
    (CrowdedError, "crowded"),
    (RefusedError, "input"),  # before `OutputError`, which it is: no other node may write there either
    (CannotSplitError, "whole"),
    (BusyError, "busy"),
    (OutputError, "output"),
    (LibraNetError, "input"),
)
"""What an error says about its task: the first that fits."""


class Worker:
    """The process that does tasks: it turns every error into an answer.

    It holds a workload. `run` does one task at a time; the other methods answer meanwhile, on another thread.
    """

    def __init__(self, make: Callable[[], Workload]) -> None:
        self._workload = make()
        self._step = Step()
        self._draining = False

    def place(self) -> tuple[str, int]:
        """The node and the process, once the workload is ready."""
        import ray

        return ray.get_runtime_context().get_node_id(), os.getpid()

    def drain(self) -> None:
        """Stop after the next frame, and let others go on from the last finished segment: this node is about to go."""
        self._draining = True

    def run(self, task: Task) -> Finished:
        """Do a task. Only the death of this process is an error for the caller."""
        take_failures()
        self._step = Step()
        with collected() as spans:
            outcome = self._run(task)
        self._step = Step()
        return Finished(WorkerInfo("", ""), outcome, tuple(spans), take_failures())

    def _run(self, task: Task) -> Outcome:
        try:
            return self._workload.run(task, self._report)
        except DrainedError:
            return Failed("drained", "its node is about to go")
        except LibraNetError as error:
            return Failed(next(trouble for kind, trouble in _TROUBLES if isinstance(error, kind)), error.sentence)
        except Exception as error:  # the one boundary: a bug in one task must not take the worker with it
            logger.exception("task %s", task.key)
            return Failed("bug", f"unexpected {type(error).__name__} ({error}): this is a bug in libranet")

    def step(self) -> Step:
        return self._step

    def _report(self, step: Step) -> None:
        self._step = step
        if self._draining:
            raise DrainedError


@dataclass
class _Actor:
    info: WorkerInfo
    handle: Any
    ref: Any
    """What the driver waits for: that it is ready, or its answer."""
    ready: bool = False
    task: Task | None = None
    idle_since: float = 0.0
    step_ref: Any = None
    step: Step = field(default_factory=Step)


def smallest_node(placement: Placement) -> int:
    """Cores of the smallest node of the connected cluster that has room for a worker; 0 where none has.

    Encoders have as many threads as on that node, wherever they run: their number decides the bits of an output. The
    machine that starts a job may be smaller than all of them, such as the head of a cluster.
    """
    import ray

    nodes = [node for node in ray.nodes() if node["Alive"] and placement.on(node)]
    return min((int(node["Resources"].get("CPU", 0)) for node in nodes), default=0)


class RayPool:
    """Actors that Ray places on the nodes of the connected cluster."""

    def __init__(self, make: Callable[[], Workload], placement: Placement) -> None:
        """Begin to start workers. `make` makes the workload in each of them; it travels there by pickle."""
        import ray

        self._ray, self._placement = ray, placement
        self._make = ray.put(make)
        self._class = ray.remote(Worker)
        self._actors: dict[str, _Actor] = {}
        self._failed_starts = 0
        self._reason = ""
        self._count = 0
        self._wanted = 0 if placement.asks else sys.maxsize  # nobody asks for machines before there are tasks
        self._draining: set[str] = set()
        self._counted = -REFRESH_SECONDS
        self._begin = time.monotonic()
        self._refresh()

    def __enter__(self) -> "RayPool":
        return self

    def __exit__(self, *_: object) -> None:
        for actor in self._actors.values():
            self._ray.kill(actor.handle, no_restart=True)

    def idle(self) -> list[WorkerInfo]:
        return [
            actor.info
            for actor in self._actors.values()
            if actor.ready and actor.task is None and actor.info.node not in self._draining
        ]

    def workers(self) -> list[WorkerInfo]:
        return [actor.info for actor in self._actors.values() if actor.ready]

    def nodes(self) -> set[str]:
        return {actor.info.node for actor in self._actors.values() if actor.ready}

    def clock(self) -> float:
        return time.monotonic()

    def want(self, count: int) -> None:
        """Say how many workers could have a task. Idle ones beyond that give up their place after a while."""
        self._wanted = count

    def start(self, worker: WorkerInfo, task: Task) -> None:
        actor = self._actors[worker.name]
        # The name is what Ray's dashboard shows.
        actor.task, actor.ref, actor.step = task, actor.handle.run.options(name=task.key).remote(task), Step()
        actor.step_ref = None

    def stop(self, worker: WorkerInfo) -> None:
        """Kill a worker, whatever it does. Its death is an event."""
        self._ray.kill(self._actors[worker.name].handle, no_restart=True)

    def wait(self, seconds: float) -> list[Finished | Died]:
        """Wait for an answer or a death, no longer than this."""
        self._refresh()
        waiting = {actor.ref: actor for actor in self._actors.values() if not actor.ready or actor.task is not None}
        if not waiting:
            time.sleep(seconds)
            self._check_hope()
            return []
        ready, _ = self._ray.wait(list(waiting), num_returns=1, timeout=seconds)
        if ready:  # take all that are there
            ready, _ = self._ray.wait(list(waiting), num_returns=len(waiting), timeout=0)
        events = [event for ref in ready if (event := self._answer(waiting[ref])) is not None]
        self._check_hope()
        return events

    def steps(self) -> dict[str, Step]:
        """How far busy workers are. One that does not answer at once is asked again the next time."""
        busy = [actor for actor in self._actors.values() if actor.ready and actor.task is not None]
        for actor in busy:
            if actor.step_ref is None:
                actor.step_ref = actor.handle.step.remote()
        refs = [actor.step_ref for actor in busy]
        ready = set(self._ray.wait(refs, num_returns=len(refs), timeout=0.05)[0]) if refs else set()
        for actor in busy:
            if actor.step_ref in ready:
                with suppress(self._ray.exceptions.RayError):  # its death is an event of its own
                    actor.step = self._ray.get(actor.step_ref)
                actor.step_ref = None
        return {actor.info.name: actor.step for actor in busy}

    def _answer(self, actor: _Actor) -> Finished | Died | None:
        try:
            value = self._ray.get(actor.ref)
        except self._ray.exceptions.RayError as error:
            del self._actors[actor.info.name]
            self._counted = -REFRESH_SECONDS  # a new one at once
            reason = _reason(error)
            if not actor.ready:
                self._failed_starts += 1
                self._reason = reason
            return Died(actor.info, reason) if actor.task is not None else None
        actor.idle_since = time.monotonic()
        if not actor.ready:
            actor.ready, actor.info = True, WorkerInfo(actor.info.name, *value)
            self._failed_starts = 0
            return None
        actor.task = None
        return replace(value, worker=actor.info)

    def _refresh(self) -> None:
        """Start workers for whom there is room, or for whom room is asked for; stop those without a task."""
        now = time.monotonic()
        if now - self._counted < REFRESH_SECONDS:
            return
        self._counted = now
        alive = self._alive()
        self._drain({node["NodeID"] for node in alive})
        staying = [actor for actor in self._actors.values() if actor.info.node not in self._draining]
        places = self._limit(alive)
        if self._failed_starts < MOST_STARTS * max(1, len(alive)):
            for _ in range(min(places, self._wanted) - len(staying)):
                self._launch(alive)
        surplus = len(staying) - self._wanted if self._placement.asks else 0
        for actor in [actor for actor in self._actors.values() if actor.task is None]:
            leaving = actor.info.node in self._draining
            unused = not leaving and (not actor.ready or now - actor.idle_since > IDLE_SECONDS)
            if leaving or (surplus > 0 and unused):
                surplus -= unused
                self._ray.kill(actor.handle, no_restart=True)
                del self._actors[actor.info.name]

    def _drain(self, alive: set[str]) -> None:
        """Tell the workers of nodes that have notice of their end; Ray places nothing new there."""
        if self._ray.util.client.ray.is_connected():  # by ray://: only processes of the cluster can ask
            going = self._ray.get(self._ray.remote(num_cpus=0)(_draining_nodes).remote()) & alive
        else:
            going = _draining_nodes() & alive
        for actor in self._actors.values():
            if actor.ready and actor.info.node in going - self._draining:
                actor.handle.drain.remote()
        self._draining = going

    def _launch(self, alive: list[dict[str, Any]]) -> None:
        placement = self._placement
        cores: float = placement.cores
        if not placement.asks and not placement.gpus:  # more workers than the cores carry share them
            smallest = min((node["Resources"].get("CPU", 1.0) for node in alive), default=1.0)
            cores = min(cores, int(10 * smallest / math.ceil(self._limit(alive) / max(1, len(alive)))) / 10)
        name = f"worker-{self._count}"
        self._count += 1
        handle: Any = self._class.options(
            num_cpus=1 if placement.gpus else cores,
            num_gpus=1 if placement.gpus else 0,
            max_concurrency=2,
            max_restarts=0,
            scheduling_strategy="SPREAD",
        ).remote(self._make)
        self._actors[name] = _Actor(WorkerInfo(name, ""), handle, handle.place.remote())

    def _check_hope(self) -> None:
        if any(actor.ready for actor in self._actors.values()):
            self._begin = time.monotonic()
            return
        reason = self._reason or "no node has a free place for one; --workers asks an autoscaler for places"
        if not self._actors and (self._reason or not self.places()):
            raise ClusterError(f"no worker can start ({reason}): check the nodes of the cluster")
        patience = ASK_SECONDS if self._placement.asks else START_SECONDS
        if time.monotonic() - self._begin > patience:
            raise ClusterError(f"no worker was ready after {patience:.0f} s ({reason}): check the cluster")

    def places(self) -> int:
        """How many workers the cluster has room for now, or is asked for."""
        return self._limit(self._alive())

    def _alive(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"]]

    def _limit(self, alive: list[dict[str, Any]]) -> int:
        """The largest number of workers now."""
        placement = self._placement
        room = sum(placement.on(node) for node in alive if node["NodeID"] not in self._draining)
        if placement.most is None:
            return room
        return placement.most if placement.asks or room or not placement.gpus else 0


def _draining_nodes() -> Any:
    """Nodes that have notice of their end. Ray has no public name for it; its own libraries ask in the same way."""
    import ray

    return set(ray._private.state.state.get_draining_nodes())


def _reason(error: Exception) -> str:
    """One line out of Ray's long ones."""
    cause = getattr(error, "cause", None) or error
    lines = [line.strip() for line in str(cause).split("\n") if line.strip()]
    known = [line for line in lines if line.startswith("libranet.")]
    return (known or lines or [type(error).__name__])[-1 if known else 0][:300]

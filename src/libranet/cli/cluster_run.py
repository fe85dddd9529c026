"""Tasks of any command over a cluster: connect, start workers, show progress, publish metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn

from libranet.cli import EXIT_INTERRUPTED, EXIT_TERMINATED
from libranet.cli.dehaze_run import LINE_SECONDS
from libranet.cli.signals import Terminated
from libranet.engine.jobs import is_remote, local_name
from libranet.engine.plan import format_duration
from libranet.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from libranet.cluster.ray_pool import Placement
    from libranet.cluster.runner import JobState, TaskResult
    from libranet.cluster.tasks import Task, Workload


@dataclass(frozen=True)
class ClusterChoices:
    """Where and how to run."""

    address: str
    workers: int | None = None  # workers in all; None for as many as the nodes have room for
    threads: int | None = None
    """Threads of each worker's network on a CPU; None for as many as a run on this machine has."""
    report: str | None = None  # a file for the results, also in an object store
    dashboard: bool = False  # start Ray's dashboard with a cluster on this machine
    deadline: float | None = None
    """Seconds that a worker may spend on a job, or on a part of a long video, in one go."""
    poison: str | None = None  # a file for the list of jobs that were given up, also in an object store
    traces: str | None = None  # an OTLP collector's address, or a file for spans as JSON lines

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise InputError(f"expected at least one worker, got --workers {self.workers}")
        if self.threads is not None and self.threads < 1:
            raise InputError(f"expected at least one thread, got --threads {self.threads}")
        if self.deadline is not None and self.deadline <= 0:
            raise InputError(f"expected --deadline above zero, got {self.deadline:g}")
        for option, name in (("--report", self.report), ("--poison", self.poison)):
            if name is not None and not is_remote(name) and not (folder := Path(local_name(name)).parent).is_dir():
                raise InputError(f"there is no folder {folder} for {option}: create it")


def run_tasks(
    make: Callable[[], Workload],
    tasks: Callable[[int], list[Task]],
    choices: ClusterChoices,
    console: Console,
    *,
    gpus: bool,
    cores: int = 1,
    shown: bool = True,
    what: str = "videos",
) -> tuple[list[TaskResult], JobState]:
    """Run tasks on the connected cluster."""
    from libranet.cluster.metrics import JobMetrics
    from libranet.cluster.ray_pool import RayPool
    from libranet.cluster.runner import Attempt, Runner
    from libranet.cluster.traces import Traces

    placement = placement_for(choices, gpus=gpus, cores=cores)
    with ExitStack() as opened:
        traces = opened.enter_context(Traces(choices.traces)) if choices.traces is not None else None
        pool = opened.enter_context(RayPool(make, placement))
        given = tasks(pool.places())
        with _Progress(console, shown=shown, count=len(given), what=what) as progress:
            metrics = JobMetrics()

            def note(attempt: Attempt) -> None:
                metrics.observe(attempt)
                if traces is not None:
                    traces.attempt(attempt)

            def watch(state: JobState) -> None:
                progress.update(state)
                metrics.update(state)

            runner = Runner(
                pool, on_result=progress.print_result, on_attempt=note, watch=watch, deadline=choices.deadline
            )
            try:
                results = runner.run(given)
            except KeyboardInterrupt as stop:
                console.print("stopped: run the same command again to continue", markup=False)
                raise typer.Exit(EXIT_TERMINATED if isinstance(stop, Terminated) else EXIT_INTERRUPTED) from None
            if shown:
                progress.print_summary(results, runner.state)
    return results, runner.state


def placement_for(choices: ClusterChoices, *, gpus: bool, cores: int) -> Placement:
    """How workers share the nodes: what is asked for beyond them is asked of Ray, unless they are this machine."""
    from libranet.cluster.joining import LOCAL
    from libranet.cluster.ray_pool import Placement

    asks = choices.workers is not None and choices.address != LOCAL
    return Placement(gpus=gpus, cores=cores, most=choices.workers, asks=asks)


class _Progress:
    """Lines on stderr that change; where stderr is no terminal, a new line every `LINE_SECONDS`."""

    def __init__(self, console: Console, *, shown: bool, count: int, what: str = "videos") -> None:
        self._console, self._shown, self._what = console, shown, what
        self._lines = shown and not console.is_terminal
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=28),
            TextColumn("{task.fields[text]}"),
            console=console,
            disable=not shown or not console.is_terminal,
            transient=True,
        )
        self._whole = self._bar.add_task(what, total=1.0, text=f"0/{count}")
        self._workers: dict[str, TaskID] = {}
        self._last_line = time.monotonic()

    def __enter__(self) -> _Progress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def update(self, state: JobState) -> None:
        left = state.seconds_left
        unfinished = left is not None and state.work_done < state.work_total
        rest = f", about {format_duration(left or 0.0)} left" if unfinished else ""
        failed = f", {state.failed} failed" if state.failed else ""
        text = f"{state.done}/{state.tasks}{failed}, {state.frames} frames, {state.fps:.1f} fps{rest}"
        now = time.monotonic()
        if self._lines and now - self._last_line >= LINE_SECONDS:
            self._last_line = now
            self._console.print(f"{self._what}: {text}, {len(state.workers)} workers busy", markup=False)
        self._bar.update(self._whole, completed=state.work_done, total=max(state.work_total, 1e-9), text=text)
        for name in [name for name in self._workers if name not in state.workers]:
            self._bar.remove_task(self._workers.pop(name))
        for name, (key, step) in state.workers.items():
            if name not in self._workers:
                self._workers[name] = self._bar.add_task(name, total=None, text="")
            speed = f", {step.fps:.1f} fps" if step.fps else ""
            count = f"{step.frames}/{step.total} frames{speed}" if step.total else ""
            short = key if len(key) <= 40 else f"...{key[-37:]}"
            self._bar.update(
                self._workers[name],
                description=f"  {name}",
                completed=step.frames,
                total=step.total,
                text=f"{short} {count}".strip(),
            )

    def print_result(self, result: TaskResult) -> None:
        if result.error:
            self._console.print(f"[bold red]error:[/] {escape(result.key)}: {escape(result.error)}")
        elif self._shown:
            values = result.result
            if values.get("partial"):
                self._console.print(f"[bold yellow]partial:[/] {escape(result.key)}: {escape(str(values['partial']))}")
            done = f"{values['frames']} frames" if "frames" in values else "done"
            text = "finished before, left as it is" if values.get("skipped") else f"{done} ({result.worker})"
            self._console.print(f"{result.key}: {text}", markup=False)

    def print_summary(self, results: list[TaskResult], state: JobState) -> None:
        skipped = sum(bool(result.result.get("skipped")) for result in results)
        before = f", {skipped} finished before" if skipped else ""
        deaths = f"; {state.deaths} workers died and were replaced" if state.deaths else ""
        frames = f", {state.frames} frames" if state.frames else ""
        self._console.print(
            f"{state.done - skipped} {self._what} done{before}, {state.failed} failed{frames} in {state.seconds:.1f} s"
            f"{f' ({state.fps:.1f} fps)' if frames else ''}{deaths}",
            markup=False,
        )

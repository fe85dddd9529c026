"""Tasks of any command over a cluster: connect, start workers, show progress, publish metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from libranet.cli import EXIT_INTERRUPTED, EXIT_TERMINATED
from libranet.cli.signals import Terminated
from libranet.cluster.storage import is_remote, local_name
from libranet.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from libranet.cluster.ray_pool import Placement
    from libranet.cluster.runner import JobState, TaskResult
    from libranet.cluster.tasks import Task, Workload


@dataclass(frozen=True)
class ClusterChoices:
    """Where and how to run."""

    address: str
    workers: int | None = None
    """Workers in all; None for as many as the nodes have room for."""
    threads: int | None = None
    """Threads of each worker's network on a CPU; None for as many as a run on this machine has."""
    report: str | None = None
    """A file for the results, also in an object store."""
    dashboard: bool = False
    """Start Ray's dashboard with a cluster on this machine."""

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise InputError(f"expected at least one worker, got --workers {self.workers}")
        if self.threads is not None and self.threads < 1:
            raise InputError(f"expected at least one thread, got --threads {self.threads}")
        if self.report is not None and not is_remote(self.report):
            folder = Path(local_name(self.report)).parent
            if not folder.is_dir():
                raise InputError(f"there is no folder {folder} for --report: create it")


def run_tasks(
    make: Callable[[], Workload],
    tasks: Callable[[int], list[Task]],
    placement: Placement,
    console: Console,
    *,
    shown: bool = True,
    what: str = "videos",
    on_result: Callable[[TaskResult], None] | None = None,
) -> tuple[list[TaskResult], JobState]:
    """Run tasks on the connected cluster.

    Args:
        make: Makes the workload in each worker.
        tasks: Returns the tasks for a number of workers.
        placement: How workers share the nodes.
        console: For people.
        shown: Whether progress is shown.
        what: The tasks, for people.
        on_result: Called with each task that has ended.

    Returns:
        The results in the order of the tasks, and the state at the end.
    """
    from libranet.cli.cluster_progress import ClusterProgress
    from libranet.cluster.metrics import JobMetrics
    from libranet.cluster.ray_pool import RayPool
    from libranet.cluster.runner import Runner

    with RayPool(make, placement) as pool:
        given = tasks(pool.places())
        with ClusterProgress(console, shown=shown, count=len(given), what=what) as progress:
            metrics = JobMetrics()

            def watch(state: JobState) -> None:
                progress.update(state)
                metrics.update(state)

            def ended(result: TaskResult) -> None:
                progress.print_result(result)
                if on_result is not None:
                    on_result(result)

            runner = Runner(pool, on_result=ended, watch=watch)
            try:
                results = runner.run(given)
            except KeyboardInterrupt as stop:
                console.print("stopped: run the same command again to continue", markup=False)
                raise typer.Exit(EXIT_TERMINATED if isinstance(stop, Terminated) else EXIT_INTERRUPTED) from None
            if shown:
                progress.print_summary(results, runner.state)
    return results, runner.state

"""Progress of a run on a cluster: one line for all of it, one for each worker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from libranet.cli.dehaze_progress import LINE_SECONDS
from libranet.engine.estimate import format_duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from libranet.cluster.runner import JobState, TaskResult


class ClusterProgress:
    """Lines on stderr that change; where stderr is no terminal, a new line every `LINE_SECONDS`."""

    def __init__(self, console: Console, *, shown: bool, count: int, what: str = "videos") -> None:
        from rich.progress import BarColumn, Progress, TextColumn

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

    def __enter__(self) -> ClusterProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def update(self, state: JobState) -> None:
        """Show the state of the run."""
        left = state.seconds_left
        rest = (
            f", about {format_duration(left)} left" if left is not None and state.work_done < state.work_total else ""
        )
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
        """Say that a task has ended."""
        from rich.markup import escape

        if result.error:
            self._console.print(f"[bold red]error:[/] {escape(result.key)}: {escape(result.error)}")
        elif self._shown:
            values = result.result
            if values.get("partial"):
                self._console.print(f"[bold yellow]partial:[/] {escape(result.key)}: {escape(str(values['partial']))}")
            if values.get("skipped"):
                self._console.print(f"{result.key}: finished before, left as it is", markup=False)
            elif "frames" in values:
                self._console.print(f"{result.key}: {values['frames']} frames ({result.worker})", markup=False)
            else:
                self._console.print(f"{result.key}: done ({result.worker})", markup=False)

    def print_summary(self, results: list[TaskResult], state: JobState) -> None:
        """Say what the whole run did."""
        skipped = sum(bool(result.result.get("skipped")) for result in results)
        before = f", {skipped} finished before" if skipped else ""
        deaths = f"; {state.deaths} workers died and were replaced" if state.deaths else ""
        frames = f", {state.frames} frames" if state.frames else ""
        self._console.print(
            f"{state.done - skipped} {self._what} done{before}, {state.failed} failed{frames} in {state.seconds:.1f} s"
            f"{f' ({state.fps:.1f} fps)' if frames else ''}{deaths}",
            markup=False,
        )

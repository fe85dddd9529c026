"""Progress of `libranet dehaze`: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from libranet.engine.plan import format_duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from libranet.engine import Progress
    from libranet.engine.plan import RunPlan

LINE_SECONDS = 15.0
"""Seconds between two lines where there is no terminal."""
LONG_SECONDS = 3.0
"""A run that lasts longer is announced."""


class ProgressBar:
    """One line on stderr that changes; where stderr is no terminal, a new line every `LINE_SECONDS`."""

    def __init__(self, console: Console, *, shown: bool) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._console, self._shown, self._lines = console, shown, shown and not console.is_terminal
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=28),
            TextColumn("{task.fields[count]}"),
            TextColumn("[green]{task.fields[speed]}[/]"),
            TimeRemainingColumn(),
            TextColumn("[dim]{task.fields[bound]}[/]"),
            console=console,
            disable=not shown or not console.is_terminal,
            transient=True,
        )
        self._task: TaskID | None = None
        self._name, self._headline = "", ""
        self._begin = self._last_line = 0.0

    def begin(self, name: str) -> None:
        """Start the line of a new input."""
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._name, self._headline = name, ""
        self._begin = self._last_line = time.monotonic()
        self._task = self._bar.add_task(name, total=None, count="", speed="", bound="")

    def announce(self, plan: RunPlan) -> None:
        """Say what is under way and where: at once where the plan knows how long it takes, else once it is long."""
        if plan.seconds is not None and self._shown:
            self._console.print(f"{plan.headline}, about {format_duration(plan.seconds)}", markup=False)
        else:
            self._headline = plan.headline

    def update(self, step: Progress) -> None:
        """Show the state of the run. The engine calls it after each frame."""
        if self._task is None:
            return
        total = max(step.total, step.frames) if step.total else None
        count = f"{step.frames}/{total} frames" if total else f"{step.frames} frames"
        now = time.monotonic()
        rest = f", about {format_duration((total - step.frames) / step.fps)} left" if total and step.fps else ""
        speed = f"{step.fps:.1f} fps" if step.fps else ""
        if self._headline and self._shown and now - self._begin >= LONG_SECONDS:
            self._console.print(f"{self._headline}{rest}", markup=False)
            self._headline = ""
        if self._lines and now - self._last_line >= LINE_SECONDS:
            self._last_line = now
            self._console.print(f"{self._name}: {count}, {speed or _bound(step)}{rest}", markup=False)
        self._bar.update(
            self._task,
            completed=step.frames,
            total=total,
            count=count,
            speed=speed,
            bound=_bound(step),
        )

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def _bound(step: Progress) -> str:
    """The stage that the others wait for, and what would make it faster."""
    if step.phase != "frames":
        return {"joining": "writing the file"}.get(step.phase, f"encoding, {step.phase}")
    return f"bound by {step.bound_by}" + (f": {step.remedy} would help" if step.remedy else "")

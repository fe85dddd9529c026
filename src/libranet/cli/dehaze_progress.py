"""The progress bar of `libranet dehaze`: frames per second, time left, and the slowest stage."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from libranet.engine import Progress as Step


class ProgressBar:
    """One line on stderr; nothing where stderr is no terminal."""

    def __init__(self, console: Console, *, shown: bool) -> None:
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

    def begin(self, name: str) -> None:
        """Start the line of a new input."""
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(name, total=None, count="", speed="", bound="")

    def update(self, step: Step) -> None:
        """Show the state of the run. The engine calls it after each frame."""
        if self._task is None:
            return
        total = max(step.total, step.frames) if step.total else None
        self._bar.update(
            self._task,
            completed=step.frames,
            total=total,
            count=f"{step.frames}/{total} frames" if total else f"{step.frames} frames",
            speed=f"{step.fps:.1f} fps" if step.fps else "",
            bound="writing the file" if step.phase == "joining" else f"bound by {step.bound_by}",
        )

    def __enter__(self) -> "ProgressBar":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

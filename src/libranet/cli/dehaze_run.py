"""Running the jobs of `libranet dehaze`, one after another, with progress. One job's failure never stops the next."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from libranet.cli import EXIT_BUG, EXIT_INTERRUPTED, EXIT_PARTIAL, EXIT_TERMINATED, EXIT_USER_ERROR
from libranet.cli.signals import Terminated
from libranet.device import describe_device
from libranet.engine.jobs import Job, check_job, run_job
from libranet.engine.plan import format_duration
from libranet.engine.video import plan_video
from libranet.errors import LibraNetError
from libranet.video.reader import DEFAULT_RATE

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from libranet.engine import DehazeOptions, DehazeReport, Progress
    from libranet.engine.plan import RunPlan
    from libranet.network import Network

LINE_SECONDS = 15.0
"""Seconds between two lines where there is no terminal."""
LONG_SECONDS = 3.0
"""A run that lasts longer is announced."""


@dataclass(frozen=True)
class RunChoices:
    """How to run, besides what shapes the frames."""

    resume: bool = False
    overwrite: bool = False
    skip_finished: bool = False
    dry_run: bool = False
    fps: float = DEFAULT_RATE
    as_json: bool = False
    quiet: bool = False

    @property
    def talkative(self) -> bool:
        """Whether notes and results go to the terminal."""
        return not (self.as_json or self.quiet)


@dataclass
class Outcome:
    """What the jobs did so far."""

    results: list[dict[str, Any]] = field(default_factory=list)
    failed: int = 0
    bugs: int = 0

    @property
    def exit_code(self) -> int:
        if self.failed and self.failed == len(self.results):
            return EXIT_BUG if self.bugs else EXIT_USER_ERROR
        return EXIT_PARTIAL if self.failed or any(result.get("partial") for result in self.results) else 0


def run_jobs(jobs: list[Job], network: Network, options: DehazeOptions, choices: RunChoices, console: Console) -> int:
    """Run all jobs, print what happened, and return the exit code."""
    outcome = Outcome()
    to_stderr = bool(jobs) and jobs[0].output == "-"

    def fail(job: Job, sentence: str) -> None:
        outcome.failed += 1
        console.print(f"[bold red]error:[/] {escape(sentence)}")
        outcome.results.append({"source": job.source.name, "output": job.output, "error": sentence})

    with ProgressBar(console, shown=choices.talkative) as bar:
        for job in jobs:
            bar.begin(Path(job.source.name).name)
            try:
                outcome.results.append(_one(job, network, options, choices, bar, console))
            except LibraNetError as error:
                fail(job, error.sentence)
            except KeyboardInterrupt as stop:
                resumable = f": run the same command with --resume to continue {job.output}"
                console.print(
                    f"stopped{resumable if job.kind in ('video', 'sequence', 'frames') else ''}", markup=False
                )
                code = EXIT_TERMINATED if isinstance(stop, Terminated) else EXIT_INTERRUPTED
                outcome.results.append({"source": job.source.name, "output": job.output, "error": "stopped"})
                if choices.as_json:
                    print_json({"results": outcome.results, "exit_code": code}, to_stderr=to_stderr)
                raise typer.Exit(code) from None
            except Exception as error:  # the one boundary: a bug in one job must not take the others with it
                from libranet.cli.bugs import explain  # only bugs load it

                sentence, bug = explain(error)
                outcome.bugs += bug
                fail(job, sentence)
    code = 0 if choices.dry_run and not outcome.failed else outcome.exit_code
    if choices.as_json:
        print_json({"results": outcome.results, "exit_code": code}, to_stderr=to_stderr)
    return code


def print_json(value: dict[str, Any], *, to_stderr: bool = False) -> None:
    print(json.dumps(value, indent=2), file=sys.stderr if to_stderr else sys.stdout, flush=True)


def _one(
    job: Job, network: Network, options: DehazeOptions, choices: RunChoices, bar: ProgressBar, console: Console
) -> dict[str, Any]:
    if _finished(job, choices):
        if choices.talkative:
            console.print(f"{job.output}: finished before, left as it is", markup=False)
        return {"source": job.source.name, "output": job.output, "skipped": True, "partial": ""}
    if choices.dry_run:
        return _plan(job, network, options, choices)
    if job.is_remote:
        from libranet.cluster.dehazing import WholeJob, run_anywhere  # only addresses of object stores need it

        report = run_anywhere(WholeJob(job, options, choices.overwrite, rate=choices.fps), network)
    else:
        report = run_job(
            job,
            network,
            options,
            overwrite=choices.overwrite,
            resume=choices.resume or (choices.skip_finished and job.kind in ("sequence", "frames")),
            rate=choices.fps,
            progress=bar.update,
            on_plan=bar.announce,
        )
    _print_report(report, console, choices)
    return report.as_json()


def _finished(job: Job, choices: RunChoices) -> bool:
    if (
        not (choices.skip_finished or choices.resume)
        or job.kind in ("stream", "sequence", "frames")
        or choices.overwrite
    ):
        return False
    if not job.is_remote:
        return os.path.exists(job.output)
    from libranet.cluster.storage import fingerprint

    return fingerprint(job.output) is not None


def _plan(job: Job, network: Network, options: DehazeOptions, choices: RunChoices) -> dict[str, Any]:
    if job.kind != "video":
        check_job(job, options, overwrite=choices.overwrite or choices.resume or choices.skip_finished)
        if choices.talkative:
            print(f"{job.source.name} -> {job.output}: {job.kind}, on {describe_device(network.device)}")
        return {"source": job.source.name, "output": job.output, "kind": job.kind}
    plan = plan_video(
        job.source.name,
        job.output,
        network,
        options=job.options(options),
        rate=choices.fps,
        overwrite=choices.overwrite,
    )
    if choices.talkative:
        print("\n  ".join(plan.lines()))
    return plan.as_json()


def _print_report(report: DehazeReport, console: Console, choices: RunChoices) -> None:
    if choices.talkative:
        for warning in report.warnings:
            console.print(f"[yellow]note:[/] {escape(warning)}")
    if report.partial and not choices.as_json:
        console.print(
            f"[bold yellow]partial:[/] {escape(report.partial)} (everything that could be decoded is written)"
        )
    if choices.talkative:
        fps = report.as_json()["fps"]
        plural = "" if report.frames == 1 else "s"
        kept = f", {report.copied_streams} other streams kept" if report.copied_streams else ""
        console.print(
            f"{escape(report.output)}: {report.frames} frame{plural}, {report.width}x{report.height} {report.codec} "
            f"{report.pixel_format}, {report.seconds:.1f} s ({fps:.1f} fps){kept}"
        )


class ProgressBar:
    """One line on stderr that changes; where stderr is no terminal, a new line every `LINE_SECONDS`."""

    def __init__(self, console: Console, *, shown: bool) -> None:
        self._console, self._shown, self._lines = console, shown, shown and not console.is_terminal
        self._bar = Bar(
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
        if self._task is None:
            return
        total = max(step.total, step.frames) if step.total and not step.live else None
        count = f"{step.frames}/{total} frames" if total else f"{step.frames} frames"
        now = time.monotonic()
        rest = f", about {format_duration((total - step.frames) / step.fps)} left" if total and step.fps else ""
        speed = f"{step.fps:.1f} fps" if step.fps else ""
        speed = ", ".join(text for text in (speed, step.live) if text)
        if self._headline and self._shown and now - self._begin >= LONG_SECONDS:
            self._console.print(f"{self._headline}{rest}", markup=False)
            self._headline = ""
        if self._lines and now - self._last_line >= LINE_SECONDS:
            self._last_line = now
            self._console.print(f"{self._name}: {count}, {speed or _bound(step)}{rest}", markup=False)
        if step.live:  # nobody knows the end, and the numbers need the whole line
            self._bar.columns = (TextColumn("{task.description}"),)
            self._bar.update(self._task, description=f"{self._name}: {count}, {speed}")
            return
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
        return {"joining": "writing the file", "reading ahead": "reading ahead"}.get(
            step.phase, f"encoding, {step.phase}"
        )
    return f"bound by {step.bound_by}" + (f": {step.remedy} would help" if step.remedy else "")

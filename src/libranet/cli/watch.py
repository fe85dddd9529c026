"""`libranet watch`: what appears in a folder is dehazed into another."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from libranet.errors import InputError

if TYPE_CHECKING:
    from libranet.engine.jobs import Job

_State = tuple[int, int]  # size and time of the last change


def watch(
    folder: Annotated[Path, typer.Argument(help="The folder to watch, with all folders in it.")],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for the results.")],
    model: Annotated[str | None, typer.Option(help="libranet-base, libranet-small, or a checkpoint's path.")] = None,
    strength: Annotated[float, typer.Option(help="0 to 1.5, 1 is the network's output.")] = 1.0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")] = "auto",
    seconds: Annotated[float, typer.Option(help="Time between two looks; a file that still grows waits.")] = 2.0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Dehaze every video and image that appears in a folder, until Ctrl-C.

    Files whose result exists are left as they are, and a run that was stopped continues. A file that cannot be dehazed
    is named once, and tried again when it has changed.
    """
    from rich.console import Console
    from rich.markup import escape

    from libranet.cli.dehaze_run import RunChoices, run_jobs
    from libranet.cli.signals import stop_on_sigterm
    from libranet.engine import DehazeOptions, load_network
    from libranet.engine.jobs import make_folder

    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}: create it first")
    if not seconds > 0:
        raise InputError(f"expected --seconds above 0, got {seconds:g}")
    options = DehazeOptions(strength=strength)
    network = load_network(model, device=device)
    make_folder(output)
    inbox = Inbox(folder, output)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if not quiet:
        console.print(f"watching {folder}, results go to {output} (Ctrl-C ends it)", markup=False)

    said = ""
    with stop_on_sigterm(), suppress(KeyboardInterrupt):
        while True:
            try:
                for job, again in inbox.look():
                    choices = RunChoices(resume=not again, overwrite=again, quiet=quiet)
                    run_jobs([job], network, options, choices, console)
                said = ""
            except InputError as error:
                if error.sentence != said:
                    console.print(f"[bold red]error:[/] {escape(error.sentence)}")
                said = error.sentence
            time.sleep(seconds)


@dataclass
class Inbox:
    """The files of a folder, and which of them were tried."""

    folder: Path
    output: Path
    _seen: dict[str, _State] = field(default_factory=dict)
    _tried: dict[str, _State] = field(default_factory=dict)

    def look(self) -> list[tuple[Job, bool]]:
        """Return the files to dehaze now, and whether each replaces a result of its earlier content."""
        from libranet.cli.dehaze_jobs import NothingFoundError, plan_jobs

        before, self._seen, ready = self._seen, {}, []
        try:
            jobs = plan_jobs([str(self.folder)], str(self.output), live=False)
        except NothingFoundError:
            return []
        for job in jobs:
            name = job.source.name
            try:
                facts = os.stat(name)
            except FileNotFoundError:  # it was moved away meanwhile
                continue
            state = self._seen[name] = (facts.st_size, facts.st_mtime_ns)
            tried = self._tried.get(name)
            new = tried is None and not os.path.exists(job.output)
            changed = tried is not None and tried != state
            if state[0] > 0 and before.get(name) == state and (new or changed):
                self._tried[name] = state
                ready.append((job, changed))
        return ready

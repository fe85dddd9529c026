"""`libranet analyze`: probes of a trained network, as numbers and figures."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from libranet.errors import InputError, MissingDependencyError, install_command

if TYPE_CHECKING:
    from rich.console import Console


def analyze(
    checkpoint: Annotated[str, typer.Argument(help="libranet-base, libranet-small, or a checkpoint's path.")],
    dataset: Annotated[Path, typer.Argument(help="Any set that `libranet eval` reads.")],
    *,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of analysis.json and the figures.")],
    probes: Annotated[
        str,
        typer.Option(
            help="With commas: composition, resolution, anatomy, invertibility, liveness, heatmap, transmission."
        ),
    ] = "all",
    frames: Annotated[int, typer.Option(min=1, help="Frames of each clip, evenly spaced.")] = 4,
    clips: Annotated[int | None, typer.Option(min=1, help="Only the first N clips.")] = None,
    split: Annotated[Literal["train", "test", "all"], typer.Option(help="Part of the set.")] = "test",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")] = "cpu",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier analysis in the folder.")] = False,
) -> None:
    """Probe what a network has learned: the paper's analyses on any checkpoint and any set."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from libranet.device import pick_device
    from libranet.evaluation.clips import open_dataset
    from libranet.network import load_model

    if find_spec("matplotlib") is None:
        raise MissingDependencyError(f"figures need matplotlib: {install_command('lab')}")
    from libranet.lab.analysis.run import RESULT_FILE, choose_probes
    from libranet.lab.analysis.run import analyze as run_probes

    chosen = choose_probes(probes)
    if "anatomy" in chosen and find_spec("sklearn") is None:  # now, not after hours of probing
        raise MissingDependencyError(f"the probe anatomy needs scikit-learn: {install_command('lab')}")
    where = pick_device(device)
    if (output / RESULT_FILE).exists() and not overwrite:
        raise InputError(f"{output} has an analysis already: choose another folder, or add --overwrite")
    model = load_model(checkpoint, device=where)
    found = open_dataset(dataset, split=split)[:clips]
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"could not make the folder {output}: {error.strerror or error}") from error
    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("analyze", total=None)

        def show(step: str, done: int, total: int) -> None:
            bar.update(task, description=step, completed=done, total=total)
            if not console.is_terminal:
                console.print(f"{done}/{total} {step}", soft_wrap=True)

        content = run_probes(
            model, found, output, probes=chosen, frames=frames, dataset=dataset.resolve().name, report=show
        )
    _print_numbers(Console(highlight=False), content)
    print(f"figures and {RESULT_FILE}: {output}")


def _print_numbers(console: Console, content: dict[str, Any]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from libranet.lab.analysis.headlines import headlines

    title = f"{content['weights_name']} {content['weights_version']} on {content['dataset']}"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for heading in ("probe", "number"):
        table.add_column(heading, overflow="fold")
    for heading in ("here", "paper"):
        table.add_column(heading, justify="right")
    for probe, numbers in content["probes"].items():
        if "not_measured" in numbers:
            table.add_row(probe, f"not measured: {numbers['not_measured']}", "–", "–")
            continue
        for row in headlines(probe, numbers):
            table.add_row(probe, *row)
    console.print(table)

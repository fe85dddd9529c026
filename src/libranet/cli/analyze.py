"""`libranet analyze`: probes of a trained network, as numbers and figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from libranet.errors import InputError, MissingDependencyError

if TYPE_CHECKING:
    from rich.console import Console


def analyze(
    checkpoint: Annotated[str, typer.Argument(help="A checkpoint of LiBrA-Net, or libranet for the package's own.")],
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
    from libranet.models import load_model

    try:
        from libranet.analysis.run import RESULT_FILE, choose_probes
        from libranet.analysis.run import analyze as run_probes
    except ImportError as error:
        if error.name != "matplotlib":
            raise
        raise MissingDependencyError(
            "figures need matplotlib; install it with: pip install libranet[analysis]"
        ) from error

    chosen = choose_probes(probes)
    where = pick_device(device)
    if (output / RESULT_FILE).exists() and not overwrite:
        raise InputError(f"{output} has an analysis already: choose another folder, or add --overwrite")
    model = load_model(None if checkpoint == "libranet" else checkpoint, device=where)
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
        for row in _rows(probe, numbers):
            table.add_row(probe, *row)
    console.print(table)


def _rows(probe: str, numbers: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The headline numbers of a probe: name, value here, value in the paper."""

    def text(value: float | None, form: str = ".3g") -> str:
        return "–" if value is None else format(value, form)

    if probe == "composition":
        return [
            ("relative error, median", text(numbers["relative_error"]["median"], ".1e"), "about 1e-3"),
            ("log-log slope over |M|²", text(numbers["log_log_slope"], ".2f"), "0.98"),
        ]
    if probe == "resolution":
        return [
            (
                f"{field}, {lines} lines: distance, r",
                f"{text(row['relative_distance']['mean'])}, {text(row['pearson_r']['mean'], '.3f')}",
                f"{row['paper']['relative_distance']}, {row['paper']['pearson_r']:.3f}" if row["paper"] else "–",
            )
            for field, part in numbers.items()
            for lines, row in part["lines"].items()
        ] + [
            (f"{field}: variation between frames", text(part["variation_between_frames"]), "–")
            for field, part in numbers.items()
        ]
    if probe == "anatomy":
        chance = numbers["expected_by_chance"]
        return [
            ("weakest bin / strongest bin", text(numbers["weakest_bin_to_strongest"]), "–"),
            (f"neighbours of the same bin (chance {chance})", text(numbers["neighbours_of_the_same_bin"]), "clusters"),
        ]
    if probe == "invertibility":
        pole, zero = numbers["pole_at_plus_2"], numbers["zero_at_minus_2"]
        return [
            ("det A, lowest", text(numbers["det_a"]["lowest"]), "not zero"),
            ("largest |M|", text(numbers["largest_matrix_norm"]), "below 2"),
            ("pixels at +2, replaced by I", str(pole["pixels_replaced_by_identity"]), "–"),
            ("pixels at -2, without inverse", str(zero["pixels_without_inverse"]), "–"),
            ("nearest eigenvalue to +2", text(pole["least_eigenvalue_distance"]), "–"),
            ("nearest eigenvalue to -2", text(zero["least_eigenvalue_distance"]), "–"),
        ]
    if probe == "liveness":
        return [
            *((f"live units, {name}", text(value, ".0%"), "–") for name, value in numbers["live_units"].items()),
            ("parameters with a gradient", text(numbers["gradient_share"], ".0%"), "–"),
            ("other neighbours change (of 255)", text(numbers["neighbour_effect_in_levels_of_255"]), "–"),
            ("verdict", "; ".join(numbers["dead"]) or "alive", "–"),
        ]
    if probe == "heatmap":
        return [(f"change per frame, {name}", text(value), "–") for name, value in numbers["mean_change"].items()]
    return [
        ("r within frames", text(numbers["pearson_r_within_frames"]["mean"]), "–"),
        ("r over all pixels", text(numbers["pearson_r_over_all_pixels"]), "–"),
        ("mean absolute error", text(numbers["mean_absolute_error"]), "–"),
    ]

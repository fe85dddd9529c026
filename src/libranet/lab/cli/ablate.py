"""`libranet ablate`: train and measure the variants of an ablation study."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from libranet.cli.units import parse_size


def ablate(
    recipes: Annotated[
        Path, typer.Argument(help="Folder with full.toml and recipes that extend it by what they are about.")
    ] = Path("recipes/ablations"),
    *,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the study; a study in it goes on.")],
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each variant.")] = 3,
    steps: Annotated[int | None, typer.Option(min=2, help="Steps of each run; default: the full recipe's.")] = None,
    only: Annotated[str, typer.Option(help="Names of variants with commas; the full one is always there.")] = "",
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change the full recipe, e.g. loss.perceptual=none."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PATH", help="A paired set to measure on beside the rendered clips; repeatable."),
    ] = None,
    clips: Annotated[int, typer.Option(min=0, help="Rendered clips; 9 have every haze regime once, 0 is none.")] = 9,
    frames: Annotated[int, typer.Option(min=1, help="Frames of each clip that are measured.")] = 5,
    size: Annotated[str, typer.Option(help="WIDTHxHEIGHT of rendered clips.")] = "1920x1080",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    cache: Annotated[Path | None, typer.Option(help="Cache folder of third-party weights.")] = None,
    stop_after: Annotated[
        float | None, typer.Option(help="Begin nothing that would not end within so many seconds; run again to go on.")
    ] = None,
    keep_weights: Annotated[bool, typer.Option("--keep-weights", help="Keep the weights of every run.")] = False,
    part: Annotated[
        str,
        typer.Option(metavar="I/N", help="Only the I-th of every N variants, for N processes or GPUs with one folder."),
    ] = "1/1",
    table_format: Annotated[
        Literal["text", "md", "csv", "latex"], typer.Option("--format", help="How tables are printed.")
    ] = "text",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, say what it takes, and stop.")] = False,
) -> None:
    """Train variants of one recipe under one budget, measure them, and print the paper's ablation tables."""
    import math
    from functools import partial

    from rich.console import Console

    from libranet.lab.ablation.ablate import AblationOptions, estimate_study, parse_part, plan_study
    from libranet.lab.ablation.ablate import ablate as run_study
    from libranet.lab.ablation.ablation_tables import ablation_tables
    from libranet.lab.paper.printed import print_table

    options = AblationOptions(
        recipes=recipes,
        output=output,
        seeds=seeds,
        steps=steps,
        only=tuple(name.strip() for name in only.split(",") if name.strip()),
        overrides=tuple(overrides or ()),
        data=tuple(data or ()),
        clips=clips,
        frames=frames,
        size=parse_size(size),
        device=device,
        cache=cache,
        stop_after=math.inf if stop_after is None else stop_after,
        keep_weights=keep_weights,
        part=parse_part(part),
    )
    progress = Console(stderr=True, highlight=False, markup=False)
    say = partial(progress.print, soft_wrap=True)
    plan = plan_study(options)
    for line in plan.lines():
        say(line)
    if dry_run:
        say(estimate_study(plan))
        return
    study, complete = run_study(plan, say)
    console = Console(highlight=False) if sys.stdout.isatty() else Console(width=160, highlight=False)
    for table in ablation_tables(study):
        print_table(console, table, table_format)
    for line in study.news():
        say(f"note: {line}")
    rest = "" if complete else "; not done yet: run the same command again"
    say(f"tables and every number: {output}{rest}")

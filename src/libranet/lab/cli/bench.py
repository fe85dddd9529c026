"""`libranet bench`: speed and memory of LiBrA-Net and its peers, in one run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from libranet.cli.units import parse_size
from libranet.errors import InputError


def bench(
    models: Annotated[
        str,
        typer.Option(help="Names or checkpoints with commas, or all; libranet-plain is LiBrA-Net without kernels."),
    ] = "all",
    sizes: Annotated[str | None, typer.Option(help="WIDTHxHEIGHT with commas; without it 720p, 1080p, 4K, 8K.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")] = "auto",
    precision: Annotated[Literal["auto", "fp32", "fp16", "bf16"], typer.Option(help="auto as in `dehaze`.")] = "auto",
    seconds: Annotated[float, typer.Option(help="Time for one model at one size.")] = 4.0,
    quality: Annotated[
        Path | None, typer.Option(help="JSON with PSNR by model, for the plot of quality against speed.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder of tables and plots; with --me a card.")
    ] = None,
    me: Annotated[
        bool, typer.Option("--me", help="Measure this machine instead, beside others; -o card.png, .svg or .json.")
    ] = False,
    as_list: Annotated[bool, typer.Option("--list", help="List the models and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Measure parameters, GFLOPs, time per frame and peak memory. The models take turns in one run.

    A model that does not fit into memory is reported as such.
    """
    from libranet.device import pick_device, pick_dtype
    from libranet.lab.bench.bench import read_quality, run_bench
    from libranet.lab.bench.efficiency import SIZES
    from libranet.lab.bench.report import as_json as rows_as_json
    from libranet.lab.bench.report import as_markdown, write_bench
    from libranet.network.libranet import MIN_SIZE

    if as_list:
        _print_list()
        return
    if seconds <= 0:
        raise InputError(f"expected a positive time for each model, got {seconds}")
    if me:
        _measure_this_machine(device, seconds, output, as_json=as_json)
        return
    chosen = [parse_size(size) for size in sizes.split(",")] if sizes else list(SIZES)
    for width, height in chosen:
        if min(width, height) < MIN_SIZE:
            raise InputError(f"expected sizes of at least {MIN_SIZE}x{MIN_SIZE}, got {width}x{height}")
    pick_dtype(precision, pick_device(device))
    if quality is not None and output is None:
        raise InputError("--quality draws a plot: give its folder with --output")
    psnr = read_quality(quality) if quality else {}
    names = [name.strip() for name in models.split(",") if name.strip()]
    rows, missing = run_bench(
        names,
        sizes=chosen,
        device=device,
        precision=precision,
        seconds=seconds,
        report=lambda line: print(line, file=sys.stderr),
        keep=lambda rows, missing: output and write_bench(rows, missing, output, quality=psnr),
    )
    print(rows_as_json(rows, missing) if as_json else as_markdown(rows, missing), end="")


def _measure_this_machine(device: str, seconds: float, card: Path | None, *, as_json: bool) -> None:
    from libranet.lab.bench.this_machine import check_card, measure, write_card

    if card is not None:
        check_card(card)
    machine = measure(device=device, seconds=seconds)
    print(machine.as_json() if as_json else "\n".join([*machine.lines(), ""]), end="")
    if card is not None:
        write_card(machine, card)


def _print_list() -> None:
    from rich.console import Console
    from rich.table import Table

    from libranet.lab.peers import ABSENT, PEERS

    table = Table(title="Models by name", title_justify="left")
    table.add_column("name", no_wrap=True)
    table.add_column("published as", overflow="fold")
    table.add_column("parameters", justify="right", no_wrap=True)
    table.add_column("weights", overflow="fold")
    table.add_row("libranet", "LiBrA-Net", "", "in this package")
    for entry in PEERS:
        weights = "none needed" if not entry.parameters else "to be trained"
        if entry.published:
            weights = f"libranet weights pull {entry.name}"
        table.add_row(entry.name, entry.title, f"{entry.parameters:,}" if entry.parameters else "", weights)
    console = Console()
    console.print(table)
    for name, reason in ABSENT.items():
        console.print(f"not here: {name}: {reason}", soft_wrap=True, highlight=False)

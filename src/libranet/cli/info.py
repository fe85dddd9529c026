"""`libranet info`: how large the network is and how much it computes."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

import libranet
from libranet.cli.units import parse_size
from libranet.errors import InputError
from libranet.extension import lab

if TYPE_CHECKING:
    from libranet.network.checkpoint import CheckpointInfo
    from libranet.network.cost import Cost


def info(
    model: Annotated[
        str | None,
        typer.Option(help="libranet-base, libranet-small, a peer (libranet bench --list), or a checkpoint's path."),
    ] = None,
    size: Annotated[str, typer.Option(help="Frame size as WIDTHxHEIGHT.")] = "3840x2160",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Count parameters and GFLOPs (two per multiply-add), per part and in total, beside the paper's figures."""
    from libranet.network import LiBrANet, find_checkpoint, read_checkpoint_info
    from libranet.network.checkpoint import packaged_name, read_header
    from libranet.network.cost import measure_cost
    from libranet.network.libranet import MIN_SIZE
    from libranet.runtime import is_peer

    width, height = parse_size(size)
    if min(width, height) < MIN_SIZE:
        raise InputError(f"expected a size of at least {MIN_SIZE}x{MIN_SIZE}, got {size}")
    path = find_checkpoint(model)
    ours = packaged_name(model) is not None
    peer = model if model and not ours and not path.exists() and is_peer(model) else read_header(path).architecture
    if peer != LiBrANet.architecture:
        lab("cli.peer_info").print_peer(peer, (width, height), as_json=as_json)
        return
    checkpoint = read_checkpoint_info(path)
    cost = measure_cost(checkpoint.config, width=width, height=height)
    if as_json:
        print(json.dumps(_as_json(cost, checkpoint), indent=2))
    else:
        _print_table(cost, checkpoint)


def _as_json(cost: Cost, checkpoint: CheckpointInfo) -> dict[str, object]:
    from libranet.network.cost import PAPER_GFLOPS, PAPER_PARAMETERS

    return {
        "libranet": libranet.__version__,
        **checkpoint.weights.as_json(),
        "size": f"{cost.size[0]}x{cost.size[1]}",
        "window": checkpoint.config.window,
        "parameters": cost.parameters,
        "gflops": round(cost.gflops, 3),
        "stream_gflops": round(cost.stream_gflops, 3),
        "parts": [dataclasses.asdict(part) for part in cost.parts],
        "paper": {"size": "3840x2160", "parameters": PAPER_PARAMETERS, "gflops": PAPER_GFLOPS},
        "config": checkpoint.config.stored(),
    }


def _print_table(cost: Cost, checkpoint: CheckpointInfo) -> None:
    from libranet.network.cost import PAPER_GFLOPS, PAPER_PARAMETERS

    table = Table(
        title=f"LiBrA-Net at {cost.size[0]}x{cost.size[1]}, T = {checkpoint.config.window}", title_justify="left"
    )
    table.add_column("part")
    for heading in ("parameters", "GFLOPs, one window", "GFLOPs, one streaming step"):
        table.add_column(heading, justify="right")
    for part in cost.parts:
        table.add_row(part.name, f"{part.parameters:,}", f"{part.window_gflops:,.2f}", f"{part.stream_gflops:,.2f}")
    table.add_section()
    table.add_row("total", f"{cost.parameters:,}", f"{cost.gflops:,.2f}", f"{cost.stream_gflops:,.2f}", style="bold")
    table.add_row("paper, at 3840x2160", f"{PAPER_PARAMETERS:,.0f}", f"{PAPER_GFLOPS:,.2f}", "", style="dim")
    console = Console()
    console.print(table)
    console.print(f"weights {checkpoint.weights}, libranet {libranet.__version__}", highlight=False)

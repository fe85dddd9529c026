"""`libranet doctor`: which path restores frames on this machine, and why."""

from __future__ import annotations

import json
import platform
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from libranet.models import LiBrANetConfig


def doctor(
    model: Annotated[Path | None, typer.Option(help="A checkpoint; without it, the default network.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Say whether the fused GPU path or the plain one will be used here, and what decides it."""
    from rich.console import Console
    from rich.table import Table

    from libranet.models import LiBrANetConfig, read_checkpoint_info

    config = read_checkpoint_info(model).config if model else LiBrANetConfig()
    facts = diagnose(config)
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, value, style="bold" if name in ("path", "why") else "")
    Console(highlight=False).print(table)


def diagnose(config: LiBrANetConfig) -> dict[str, str]:
    """What this machine has, the path it leads to, and the reason."""
    import torch

    from libranet.fused.support import why_not_fused
    from libranet.models import packaged_weights

    device = "cuda" if torch.cuda.is_available() else "cpu"
    reason = why_not_fused(config, device)
    weights = packaged_weights()
    return {
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "torch": torch.__version__,
        "triton": _version("triton"),
        "device": _device_name(device),
        "weights": str(weights) if weights.is_file() else "none in the package: give a checkpoint with --model",
        "path": "plain" if reason else "fused",
        "why": reason or "NVIDIA GPU and Triton; for 8-bit video in fp16, the haze view excepted",
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _device_name(device: str) -> str:
    import torch

    if device == "cpu":
        return f"CPU, {torch.get_num_threads()} threads"
    properties = torch.cuda.get_device_properties(0)
    return f"{properties.name}, {properties.total_memory / 1e9:.0f} GB, compute {properties.major}.{properties.minor}"

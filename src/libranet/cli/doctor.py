"""`libranet doctor`: which backend restores frames on this machine, and why."""

from __future__ import annotations

import json
import platform
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import libranet

if TYPE_CHECKING:
    import torch


def doctor(
    model: Annotated[str | None, typer.Option(help="libranet-base, libranet-small, or a checkpoint's path.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Say which path restores frames here: fused on a GPU, CPU kernels, or plain; and what decides it."""
    facts = diagnose(model)
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), escape(value), style="bold" if name in ("path", "why") else "")
    Console(highlight=False).print(table)


def diagnose(model: str | None = None) -> dict[str, str]:
    """Collect what this machine has, the backend it leads to, and the reason."""
    import torch

    from libranet.device import pick_device
    from libranet.network import find_checkpoint, read_checkpoint_info
    from libranet.runtime.gpu.support import why_not_fused

    file = find_checkpoint(model)
    checkpoint = read_checkpoint_info(file)
    device = pick_device()
    reason = why_not_fused(checkpoint.config, device)
    return {
        "libranet": libranet.__version__,
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "torch": torch.__version__,
        "triton": _version("triton"),
        "device": _describe(device),
        "weights": str(file),
        **checkpoint.weights.as_json(),
        **(_cpu_path(file) if device.type == "cpu" else {"path": "plain" if reason else "fused"}),
        "why": reason or _fused_because(device, checkpoint.config.refiner.width),
        **({} if reason else _expectation(device)),
    }


def _cpu_path(file: Path) -> dict[str, str]:
    """Which of the CPU backends `auto` takes, the kernels' level of instructions, and what keeps from the others."""
    from libranet.kernels.native.library import level
    from libranet.network import load_model
    from libranet.runtime.choose import BACKENDS, choose_on_cpu, why_not_design, why_not_kernels

    network = load_model(file)
    reasons = {name: why_not_design(network) or why_not_kernels(name) for name in BACKENDS if name.startswith("cpu")}
    facts = {name: f"not here: {reason}" for name, reason in reasons.items() if reason}
    return {"cpu_kernels": level() or "none"} | facts | {"path": choose_on_cpu(network)}


def _fused_because(device: torch.device, width: int) -> str:
    import torch

    from libranet.kernels.shipped import archive_for
    from libranet.runtime.gpu.support import supports_weight_stationary

    kernels = "Hopper's kernels" if supports_weight_stationary(width, device) else "kernels for every GPU from 8.0 on"
    code = "Triton" if archive_for(torch.cuda.get_device_capability(device)) is None else "shipped machine code"
    return f"an NVIDIA GPU and {code}: {kernels}, for every pixel format, in fp16"


def _expectation(device: torch.device) -> dict[str, str]:
    """The frame rate that this GPU's bandwidth and matrix rate lead to."""
    from libranet.runtime.gpu.estimate import Gpu, expected_fps

    gpu = Gpu.read(device)
    if gpu is None:
        return {}
    rate = f"about {expected_fps(gpu, 3840, 2160):.0f} frames a second at 3840x2160 on the GPU alone"
    return {"expected": f"{rate} ({gpu.bandwidth / 1e12:.1f} TB/s, {gpu.matrix_rate / 1e12:.0f} TFLOP/s)"}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _describe(device: torch.device) -> str:
    import torch

    from libranet.device import describe_device

    if device.type != "cuda":
        return describe_device(device)
    properties = torch.cuda.get_device_properties(device)
    memory, compute = properties.total_memory / 1e9, f"{properties.major}.{properties.minor}"
    return f"{describe_device(device)}, {memory:.0f} GB, compute {compute}"

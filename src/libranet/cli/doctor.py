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
    model: Annotated[Path | None, typer.Option(help="A checkpoint; without it, the weights of the package.")] = None,
    measure: Annotated[bool, typer.Option("--measure", help="Measure this CPU's runtimes now, and remember.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Say which path restores frames here: fused on a GPU, a CPU runtime, or plain; and what decides it."""
    facts = diagnose(model, measure=measure)
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


def diagnose(model: Path | None = None, *, measure: bool = False) -> dict[str, str]:
    """Collect what this machine has, the backend it leads to, and the reason.

    Args:
        model: A checkpoint; without it, the weights of the package.
        measure: Measure the CPU's runtimes where that has not been done.
    """
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
        "path": "plain" if reason else "fused",
        "why": reason or _fused_because(device, checkpoint.config.refiner_width),
        **(_expectation(device) if not reason else _plain_on_gpu(file, device) if device.type != "cpu" else {}),
        **(_cpu_runtimes(file, measure=measure) if device.type == "cpu" else {}),
    }


def _cpu_runtimes(file: Path, *, measure: bool) -> dict[str, str]:
    """What the CPU's runtimes reached on this machine, and which of them `auto` takes."""
    from libranet.network import load_model
    from libranet.runtime.cpu.choice import TRIAL_SIZE, cpu_name, ensure_measured, fastest, recall
    from libranet.runtime.cpu.parts import CHOICES, why_not

    network = load_model(file)
    trials = ensure_measured(network) if measure else recall(network)
    facts = {"cpu": cpu_name(), "openvino": _version("openvino"), "onnxruntime": _version("onnxruntime")}
    facts |= {"numba": _version("numba")}
    facts |= {str(choice): f"not here: {reason}" for choice in CHOICES if (reason := why_not(choice))}
    if not trials:
        return facts | {"backend": "plain; run `libranet doctor --measure` once to find a faster one"}
    for trial in trials:
        verdict = "" if trial.holds else ", too far from the plain network"
        facts[trial.choice] = f"{trial.milliseconds:.0f} ms for 640x368, {trial.rms:.2f}/255 rms{verdict}"
    best = fastest(trials)
    if best is None:
        return facts | {"backend": "plain: no other is close enough to it"}
    why = "the fastest that is close enough to the plain network"
    if recall(network, thorough=True) is None:
        why = "our own kernels, tried alone; `libranet doctor --measure` compares all runtimes"
    width, height = TRIAL_SIZE
    # The encoders take the same time for every size, so a larger frame takes less than its share of pixels.
    rate = f"at least {1e3 / best.milliseconds * width * height / (1920 * 1080):.1f} frames a second at 1920x1080"
    return facts | {"backend": f"{best.choice}: {why}; {rate}"}


def _fused_because(device: torch.device, width: int) -> str:
    from libranet.runtime.gpu.support import supports_weight_stationary

    kernels = "Hopper's kernels" if supports_weight_stationary(width, device) else "kernels for every GPU from 8.0 on"
    return f"an NVIDIA GPU and Triton: {kernels}, for every pixel format, in fp16"


def _plain_on_gpu(file: Path, device: torch.device) -> dict[str, str]:
    """How the plain network runs on a GPU without our kernels."""
    from libranet.device import pick_dtype
    from libranet.network import load_model
    from libranet.runtime.gpu.choice import recall

    measured = recall(load_model(file, device=device, dtype=pick_dtype("auto", device)))
    if measured is None:
        text = (
            "not measured yet: the first video tries both memory layouts and torch.compile, and remembers the fastest"
        )
        return {"plain network": text}
    times = ", ".join(f"{way} {ms:.1f} ms" for way, ms in sorted(measured.milliseconds.items(), key=lambda x: x[1]))
    return {"plain network": f"{measured.best}, by measurement ({times})"}


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

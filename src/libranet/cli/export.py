"""`libranet export`: the network as a file for other runtimes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from libranet.cli.units import parse_size
from libranet.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from libranet.export.exporter import ExportOptions, ExportReport


def export(
    output: Annotated[Path | None, typer.Argument(help="The file; without it, a name from the options, here.")] = None,
    *,
    file_format: Annotated[
        str, typer.Option("--format", help="onnx, openvino, torchscript, coreml or tensorrt-ready.")
    ] = "onnx",
    size: Annotated[str, typer.Option(help="Frame size as WIDTHxHEIGHT, or dynamic for any.")] = "dynamic",
    precision: Annotated[str, typer.Option(help="fp32, fp16 or int8.")] = "fp32",
    streaming: Annotated[bool, typer.Option("--streaming", help="Frame and state in, frame and state out.")] = False,
    window: Annotated[bool, typer.Option("--window", help="All frames of a window in, the centre one out.")] = False,
    lookahead: Annotated[
        int | None, typer.Option(help="With --streaming: frames a result waits for; 0 for live use.")
    ] = None,
    steady: Annotated[
        float, typer.Option(help="With --streaming: seconds that grids are averaged over, 0 to 2.")
    ] = 1.0,
    rate: Annotated[float, typer.Option(help="With --streaming: frames per second of the video.")] = 25.0,
    calibration: Annotated[
        list[Path] | None, typer.Option(help="For int8: hazy images; rendered ones without it. Give it repeatedly.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="libranet-base, libranet-small, or a checkpoint's path.")] = None,
    device: Annotated[str, typer.Option(help="Where a torchscript file computes: cpu, cuda.")] = "cpu",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Write the network for another runtime, run the file there, and print how far it is from PyTorch."""
    from libranet.device import pick_device
    from libranet.export.exporter import SUFFIXES, ExportOptions, check_target, export_network
    from libranet.network import GridFilter, load_model

    if streaming and window:
        raise InputError("--streaming and --window are two forms: choose one")
    options = ExportOptions(
        format=file_format,  # type: ignore[arg-type]
        form="streaming" if streaming else "window" if window else "still",
        size=None if size == "dynamic" else parse_size(size),
        precision=precision,  # type: ignore[arg-type]
        lookahead=lookahead,
        grid_filter=GridFilter(steady, rate),
    )
    if calibration and precision != "int8":
        raise InputError(f"calibration images are for int8, got --precision {precision}: leave them out")
    named = "" if options.size is None else f"-{options.size[0]}x{options.size[1]}"
    target = output or Path(f"libranet-{options.form}{named}-{precision}{SUFFIXES[options.format]}")
    check_target(target, options, overwrite=overwrite)
    where, frames = pick_device(device), [read_frame(path) for path in calibration or []]
    network = load_model(model)
    report = export_network(network, target, options, calibration=frames or None, overwrite=overwrite, device=where)
    if as_json:
        print(json.dumps(report.as_json(), indent=2))
    else:
        _print(report, options)


def read_frame(path: Path) -> Tensor:  # [1, 3, H, W] in [0, 1]
    import numpy as np
    import torch

    from libranet.images import read_image

    image = read_image(path)
    return torch.from_numpy(image.rgb.astype(np.float32) / image.peak).permute(2, 0, 1)[None]


def _print(report: ExportReport, options: ExportOptions) -> None:
    from libranet.export.onnx_file import OPSET

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    table.add_row("file", escape(f"{', '.join(str(file) for file in report.files)}, {report.megabytes:g} MB"))
    for title, ports in (("input", report.inputs), ("output", report.outputs)):
        for name, shape in ports.items():
            table.add_row(title, escape(f"{name} [{', '.join(str(side) for side in shape)}]"))
    if report.nodes is not None:
        table.add_row("graph", f"opset {OPSET}, {report.nodes} nodes of {len(report.operators)} operators")
    checked = report.difference or "not run: this machine has no Core ML; the conversion passed"
    table.add_row("against PyTorch", str(checked))
    if options.format == "tensorrt-ready":
        half = " --fp16" if options.precision == "fp16" else ""
        engine = report.path.with_suffix(".engine")
        table.add_row("engine", escape(f"trtexec --onnx={report.path}{half} --saveEngine={engine}"))
    Console(highlight=False, soft_wrap=True).print(table)

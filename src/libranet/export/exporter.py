"""`export_network`: the network as a checked file of one format."""

import copy
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

import libranet
from libranet.errors import InputError, LibraNetError, MissingDependencyError, install_command
from libranet.export.check import Difference, compare, import_openvino, open_onnx, open_openvino, open_torchscript
from libranet.export.graphs import Form, Graph, StreamGraph, make_graph
from libranet.export.half_precision import convert_to_half
from libranet.export.onnx_file import OPSET, describe, example_inputs, write_onnx
from libranet.export.quantize import measure_ranges, quantize_refiner, rendered_frames
from libranet.network import GridFilter, LiBrANet
from libranet.network.libranet import MIN_SIZE
from libranet.typed import check_types

Format = Literal["onnx", "openvino", "torchscript", "coreml", "tensorrt-ready"]
Precision = Literal["fp32", "fp16", "int8"]

SUFFIXES: dict[Format, str] = {
    "onnx": ".onnx",
    "openvino": ".xml",
    "torchscript": ".pt",
    "coreml": ".mlpackage",
    "tensorrt-ready": ".onnx",
}
MAX_SIDE = 8192
"""The longest side of a frame: larger ones do not fit the memory of any device that the runtimes support."""
LIMITS = {"fp32": (0.1, 1.0), "fp16": (0.5, 2.0), "int8": (2.0, 20.0)}
"""The largest accepted mean and single difference from PyTorch in float32, in steps of 1/255, by precision."""
CHECK_FRAMES = 3


@dataclass(frozen=True)
class ExportOptions:
    """One file to export."""

    format: Format = "onnx"
    form: Form = "still"
    """`still`: one frame in and out. `streaming`: frame and state in and out. `window`: T frames in, one out."""
    size: tuple[int, int] | None = None
    """(width, height) of the frames; None leaves it open until the file is used."""
    precision: Precision = "fp32"
    """Of the weights and most of the arithmetic. Frames are float32 always. `int8`: the refiner alone."""
    lookahead: int | None = None
    """Frames of the future that the streaming form waits for; None is half of the window."""
    grid_filter: GridFilter = field(default_factory=GridFilter)
    """How the streaming form averages grids over time. A file has one frame rate for good."""

    def __post_init__(self) -> None:
        check_types(self)
        if self.size is not None and not all(MIN_SIZE <= side <= MAX_SIDE for side in self.size):
            width, height = self.size
            raise InputError(f"expected a size of {MIN_SIZE} to {MAX_SIDE} pixels a side, got {width}x{height}")
        if self.size is None and self.format in ("coreml", "tensorrt-ready"):
            raise InputError(f"{self.format} needs one frame size: add for example --size 1920x1080")
        if self.size is not None and self.format == "torchscript":
            raise InputError("a torchscript file takes frames of any size: leave --size out")
        if self.precision == "int8" and self.format not in ("onnx", "openvino"):
            raise InputError(f"int8 is for onnx and openvino, got {self.format}: use --precision fp16 or fp32")
        if self.lookahead is not None and self.form != "streaming":
            raise InputError("a look-ahead belongs to the streaming form: add --streaming, or leave it out")


@dataclass(frozen=True)
class ExportReport:
    """What was written, and how close it is."""

    path: Path
    files: tuple[Path, ...]
    megabytes: float
    inputs: dict[str, tuple[int | str, ...]]
    outputs: dict[str, tuple[int | str, ...]]
    nodes: int | None  # nodes of the ONNX graph
    operators: tuple[str, ...]  # the ONNX operators it uses
    difference: Difference | None  # None where this machine cannot run the file

    def as_json(self) -> dict[str, Any]:
        return json.loads(json.dumps(asdict(self), default=str))


def export_network(
    network: LiBrANet,
    output: Path,
    options: ExportOptions,
    *,
    calibration: list[Tensor] | None = None,
    overwrite: bool = False,
    device: torch.device | None = None,
) -> ExportReport:
    """Write the network for another runtime, run the file there, and compare it with PyTorch.

    The file takes its name only after it has passed.

    Args:
        network: The network in float32, on the CPU.
        calibration: Frames [1, 3, H, W] for int8; None takes rendered ones.
        device: Where a TorchScript file computes; None is the CPU.
    """
    device = device or torch.device("cpu")
    check_target(output, options, overwrite=overwrite)
    graph = make_graph(
        network, options.form, options.size, lookahead=options.lookahead, grid_filter=options.grid_filter
    )
    metadata = make_metadata(network, graph, options)
    frames = rendered_frames() if calibration is None else calibration
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}.") as folder:
        path = Path(folder) / output.name
        if options.format == "torchscript":
            _write_torchscript(graph, path, metadata, half=options.precision == "fp16", device=device)
            runtime, run = open_torchscript(path, [port.name for port in graph.inputs()], device)
        elif options.format == "coreml":
            runtime, run = "", None
            _write_coreml(graph, path, metadata, half=options.precision == "fp16")
        elif options.format == "openvino":
            _write_openvino(graph, path, metadata, options, frames)
            runtime, run = open_openvino(path)
        else:
            _write_onnx(graph, path, metadata, options, frames)
            runtime, run = open_onnx(path)
        difference = None if run is None else compare(graph, network, run, runtime, frames=CHECK_FRAMES)
        mean, largest = LIMITS[options.precision]
        if difference is not None and not (difference.mean <= mean and difference.largest <= largest):
            raise LibraNetError(
                f"the {options.format} file differs from PyTorch by more than {options.precision} may "
                f"(mean {mean}/255, largest {largest}/255): {difference}; nothing was written"
            )
        nodes, operators = describe(path) if path.suffix == ".onnx" else (None, [])
        del run  # some runtimes keep the file open
        written = sorted(Path(folder).glob(f"{output.stem}.*"))
        files = tuple(output.with_name(file.name) for file in written)
        size = sum(part.stat().st_size for file in written for part in [file, *file.rglob("*")] if part.is_file())
        for file, target in zip(written, files, strict=True):
            if target.is_dir():
                shutil.rmtree(target)
            os.replace(file, target)
    return ExportReport(
        path=output,
        files=files,
        megabytes=round(size / 1e6, 3),
        inputs={port.name: port.shape for port in graph.inputs()},
        outputs={port.name: port.shape for port in graph.outputs()},
        nodes=nodes,
        operators=tuple(operators),
        difference=difference,
    )


def check_target(output: Path, options: ExportOptions, *, overwrite: bool) -> None:
    """Refuse an output that cannot work, before any work is done."""
    suffix = SUFFIXES[options.format]
    if output.suffix != suffix:
        raise InputError(f"{options.format} files end in {suffix}, got {output.name}: rename the output")
    if not output.parent.is_dir():
        raise InputError(f"there is no folder {output.parent}: create it, or choose another place for the output")
    if not os.access(output.parent, os.W_OK):
        raise InputError(f"the folder {output.parent} may not be written to: choose another place for the output")
    taken = [file for file in (output, output.with_suffix(".bin")) if file.exists()]
    if taken and not overwrite and (options.format == "openvino" or taken[0] == output):
        raise InputError(f"{taken[0]} exists: add --overwrite to replace it, or choose another name")


def make_metadata(network: LiBrANet, graph: Graph, options: ExportOptions) -> dict[str, str]:
    """What every exported file says about itself."""
    size = "any" if options.size is None else f"{options.size[0]}x{options.size[1]}"
    details = {
        "libranet": libranet.__version__,
        **network.weights.as_json(),
        "form": options.form,
        "size": size,
        "precision": options.precision,
        "window": str(network.config.window),
        "frames": "RGB, float32 in [0, 1], planar (1, 3, height, width)",
        "config": json.dumps(network.config.stored()),
    }
    if options.format in ("onnx", "tensorrt-ready"):
        details["opset"] = str(OPSET)
    if isinstance(graph, StreamGraph):
        details["lookahead"] = str(graph.lookahead)
        details["steady"] = f"{options.grid_filter.seconds:g} seconds at {options.grid_filter.rate:g} frames per second"
        details["state"] = (
            "zeros before the first frame; reset = 1 at the first frame of a shot, else 0; at the end the last frame "
            "again, with end = 1, once for each frame still due"
        )
    return details


def _write_onnx(
    graph: Graph, path: Path, metadata: dict[str, str], options: ExportOptions, frames: Iterable[Tensor]
) -> None:
    write_onnx(graph, path, metadata=metadata)
    if options.precision == "fp16":
        convert_to_half(path)
    if options.precision == "int8":
        quantize_refiner(path, measure_ranges(graph.network, frames), quantize_outputs=options.format == "onnx")


def _write_openvino(
    graph: Graph, path: Path, metadata: dict[str, str], options: ExportOptions, frames: Iterable[Tensor]
) -> None:
    openvino = import_openvino()
    source = path.with_name("source.onnx")
    _write_onnx(graph, source, metadata, options, frames)
    model = openvino.convert_model(source)
    for key, value in metadata.items():
        model.set_rt_info(value, ["libranet", key])
    openvino.save_model(model, path, compress_to_fp16=False)
    source.unlink()


def _write_torchscript(graph: Graph, path: Path, metadata: dict[str, str], *, half: bool, device: torch.device) -> None:
    moved = copy.deepcopy(graph).to(device)
    moved.network.to(torch.float16 if half else torch.float32)
    examples = tuple(tensor.to(device) for tensor in example_inputs(graph))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(moved, examples, check_trace=False)
    torch.jit.save(traced, str(path), _extra_files={"metadata.json": json.dumps(metadata)})


def _write_coreml(graph: Graph, path: Path, metadata: dict[str, str], *, half: bool) -> None:
    try:
        import coremltools
    except ImportError:
        raise MissingDependencyError(f"coremltools is not installed: {install_command('coreml')}") from None
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(graph, tuple(example_inputs(graph))).run_decompositions({})
        model = coremltools.convert(
            program,
            inputs=[coremltools.TensorType(port.name, port.shape) for port in graph.inputs()],
            outputs=[coremltools.TensorType(port.name) for port in graph.outputs()],
            compute_precision=coremltools.precision.FLOAT16 if half else coremltools.precision.FLOAT32,
            minimum_deployment_target=coremltools.target.iOS16,
        )
    for key, value in metadata.items():
        model.user_defined_metadata[key] = value
    model.save(str(path))

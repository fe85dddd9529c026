"""Run an exported file in its runtime and compare with the network in PyTorch."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.errors import MissingDependencyError, install_command
from libranet.export.graphs import Graph, StreamGraph
from libranet.network import LiBrANet, start_stream, stream_step

Run = Callable[[dict[str, np.ndarray]], Sequence[np.ndarray]]
"""One call of a runtime: inputs by name, outputs in order."""


@dataclass(frozen=True)
class Difference:
    """How far the restored frames of a file are from PyTorch's in float32, in steps of 1/255."""

    runtime: str
    frames: int
    mean: float
    largest: float

    def __str__(self) -> str:
        return f"{self.frames} frames in {self.runtime}: mean {self.mean:.4f}/255, largest {self.largest:.3f}/255"


def open_onnx(path: Path, *, threads: int = 0) -> tuple[str, Run]:
    """Open an ONNX file in onnxruntime, on the CPU."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return f"onnxruntime {onnxruntime.__version__}", lambda inputs: session.run(None, inputs)


def open_openvino(path: Path) -> tuple[str, Run]:
    """Open a file in OpenVINO, on the CPU, in float32."""
    openvino = import_openvino()
    compiled = openvino.Core().compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    version = openvino.__version__.split("-")[0]
    return f"OpenVINO {version}", lambda inputs: list(compiled(inputs).values())


def open_torchscript(path: Path, names: Sequence[str], device: torch.device) -> tuple[str, Run]:
    module = torch.jit.load(str(path), map_location=device)

    def run(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        with torch.no_grad():
            outputs = module(*(torch.from_numpy(inputs[name]).to(device) for name in names))
        return [tensor.cpu().numpy() for tensor in (outputs if isinstance(outputs, tuple) else (outputs,))]

    return f"TorchScript {torch.__version__}", run


def import_openvino():  # type: ignore[no-untyped-def]
    try:
        import openvino
    except ImportError:
        raise MissingDependencyError(f"OpenVINO is not installed: {install_command('openvino')}") from None
    return openvino


def compare(graph: Graph, network: LiBrANet, run: Run, runtime: str, *, frames: int) -> Difference:
    """Restore a short clip by a file and by the network, and measure the difference."""
    width, height = graph.size or (101, 75)
    clip = moving_clip(frames, width, height)
    found = restore_by_file(graph, run, clip)
    expected = restore_by_network(graph, network, clip)
    errors = [(a - b).abs() * 255 for a, b in zip(found, expected, strict=True)]
    mean, largest = (sum(float(e.mean()) for e in errors) / frames, max(float(e.max()) for e in errors))
    return Difference(runtime, frames, mean, largest)


def moving_clip(frames: int, width: int, height: int) -> list[Tensor]:  # each [1, 3, H, W] in [0, 1]
    """A hazy-looking clip that moves: soft shapes, fine texture, bright haze towards the top."""
    generator = torch.Generator().manual_seed(0)
    soft = torch.rand(1, 3, 9, 12, generator=generator)
    fine = torch.rand(1, 3, height, width, generator=generator)
    shapes = F.interpolate(soft, size=(height, width), mode="bicubic", align_corners=False) * 0.7 + fine * 0.2
    haze = torch.linspace(0.85, 0.2, height)[:, None]
    hazy = (shapes * (1 - haze) + 0.8 * haze).clamp(0.0, 1.0)
    return [(hazy.roll(3 * index, dims=-1) * (1.0 - 0.02 * index)).contiguous() for index in range(frames)]


def restore_by_file(graph: Graph, run: Run, clip: Sequence[Tensor]) -> Iterator[Tensor]:
    """Restore a clip by an exported file of any form, one result per frame."""
    last = len(clip) - 1
    if isinstance(graph, StreamGraph):
        height, width = clip[0].shape[-2:]
        free = {"height": height, "width": width}
        ports = [port for port in graph.inputs() if port.name.startswith("state_")]
        state = [np.zeros([free[s] if isinstance(s, str) else s for s in p.shape], np.float32) for p in ports]
        for index in range(len(clip) + graph.lookahead):
            inputs = {"frame": clip[min(index, last)].numpy(), "reset": np.array([float(index == 0)], np.float32)}
            if graph.counts_end:
                inputs["end"] = np.array([float(index > last)], np.float32)
            image, *state = run(inputs | {port.name: held for port, held in zip(ports, state, strict=True)})
            if index >= graph.lookahead:
                yield torch.from_numpy(np.array(image))
    else:
        for index, frame in enumerate(clip):
            given = frame if graph.form == "still" else torch.cat(_window(graph, clip, index), dim=1)
            yield torch.from_numpy(np.array(run({graph.inputs()[0].name: given.numpy()})[0]))


@torch.no_grad()
def restore_by_network(graph: Graph, network: LiBrANet, clip: Sequence[Tensor]) -> Iterator[Tensor]:
    """Restore a clip by the network itself, in the way of the graph's form."""
    if isinstance(graph, StreamGraph):
        state = start_stream(network, lookahead=graph.lookahead, grid_filter=graph.grid_filter)
        for frame in [*clip, *[None] * graph.lookahead]:
            image, state = stream_step(network, frame, state)
            if image is not None:
                yield image
    else:
        for index, frame in enumerate(clip):
            still = graph.form == "still"
            yield network(frame[:, None] if still else torch.stack(_window(graph, clip, index), dim=1), still=still)


def _window(graph: Graph, clip: Sequence[Tensor], index: int) -> list[Tensor]:
    radius = graph.network.config.window // 2
    return [clip[min(max(index + step, 0), len(clip) - 1)] for step in range(-radius, radius + 1)]

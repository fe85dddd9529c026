"""ONNX files: trace a graph in float32, fold its constants, add metadata."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from libranet.errors import MissingDependencyError
from libranet.export.graphs import Port
from libranet.export.options import OPSET

EXAMPLE_SIZE = (72, 96)
"""Height and width to trace an open size with: unequal, so that no axis can be mistaken for the other."""


def import_onnx() -> tuple[Any, Any]:
    """Import onnx and onnxruntime.

    Raises:
        MissingDependencyError: They are not installed.
    """
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise MissingDependencyError(f"this needs the package {error.name}: pip install 'libranet[export]'") from None
    return onnx, onnxruntime


def example_inputs(ports: Sequence[Port]) -> list[torch.Tensor]:
    """Zeros of the shapes of a graph's inputs."""
    free = dict(zip(("height", "width"), EXAMPLE_SIZE, strict=True))
    return [torch.zeros([free[side] if isinstance(side, str) else side for side in port.shape]) for port in ports]


def write_onnx(
    graph: nn.Module,
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    path: Path,
    *,
    metadata: dict[str, str],
) -> None:
    """Write a graph as one ONNX file.

    Args:
        graph: The graph. It and all of its parts are in evaluation mode from then on.
        inputs: Its inputs, in order.
        outputs: Its outputs, in order.
        path: The file.
        metadata: Goes into the file's properties.
    """
    onnx, onnxruntime = import_onnx()
    graph.eval()  # the exporter leaves all parts in the graph's own mode, which is training in a new module
    free = {
        port.name: {axis: side for axis, side in enumerate(port.shape) if isinstance(side, str)}
        for port in (*inputs, *outputs)
    }
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tracer's: sizes that are constants of this graph on purpose
        torch.onnx.export(
            graph,
            tuple(example_inputs(inputs)),
            str(path),
            dynamo=False,
            opset_version=OPSET,
            input_names=[port.name for port in inputs],
            output_names=[port.name for port in outputs],
            dynamic_axes={name: axes for name, axes in free.items() if axes},
        )
    # Let onnxruntime compute constants and shapes once and for all.
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
    model = onnx.load(path)
    kept = [entry for entry in model.opset_import if not entry.domain]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    model.producer_name, model.producer_version = "libranet", metadata.get("libranet", "")
    onnx.helper.set_model_props(model, metadata)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def describe(path: Path) -> tuple[int, list[str]]:
    """The number of nodes of an ONNX file, and the names of its operators."""
    onnx, _ = import_onnx()
    nodes = onnx.load(path, load_external_data=False).graph.node
    return len(nodes), sorted({node.op_type for node in nodes})


def replace_entries(field: Any, entries: Sequence[Any]) -> None:
    """Put other entries into a repeated field of an ONNX file; some of them may be in it already."""
    copies = [type(entry).FromString(entry.SerializeToString()) for entry in entries]
    del field[:]
    field.extend(copies)

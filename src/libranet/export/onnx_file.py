"""ONNX files: trace a graph in float32, fold its constants, add metadata, replace its nodes."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import torch

from libranet.export.graphs import Graph

OPSET = 17
"""ONNX operators up to here: LayerNormalization is the newest one used. onnxruntime 1.12, OpenVINO 2022.3, TensorRT 8.6
and their successors read it."""
EXAMPLE_SIZE = (72, 96)
"""Height and width to trace an open size with: unequal, so that no axis can be mistaken for the other."""


def example_inputs(graph: Graph) -> list[torch.Tensor]:
    free = dict(zip(("height", "width"), EXAMPLE_SIZE, strict=True))
    return [
        torch.zeros([free[side] if isinstance(side, str) else side for side in port.shape]) for port in graph.inputs()
    ]


def write_onnx(graph: Graph, path: Path, *, metadata: dict[str, str]) -> None:
    """Write a graph as one ONNX file. It and all of its parts are in evaluation mode from then on."""
    graph.eval()  # the exporter leaves all parts in the graph's own mode, which is training in a new module
    inputs, outputs = graph.inputs(), graph.outputs()
    free = {
        port.name: {axis: side for axis, side in enumerate(port.shape) if isinstance(side, str)}
        for port in (*inputs, *outputs)
    }
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tracer's: sizes that are constants of this graph on purpose
        torch.onnx.export(
            graph,
            tuple(example_inputs(graph)),
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
    nodes = onnx.load(path, load_external_data=False).graph.node
    return len(nodes), sorted({node.op_type for node in nodes})


def save_changed(model: Any, path: Path, nodes: Sequence[Any], constants: Sequence[Any] | None = None) -> None:
    """Write a model with other nodes, which may be among its own, and constants: those of its own that they use."""
    if constants is None:
        used = {name for node in nodes for name in node.input}
        constants = [constant for constant in model.graph.initializer if constant.name in used]
    for field, entries in ((model.graph.node, nodes), (model.graph.initializer, constants)):
        copies = [type(entry).FromString(entry.SerializeToString()) for entry in entries]
        del field[:]
        field.extend(copies)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)

"""Half precision for the layers of an ONNX file. Resampling, the colour field and the frames stay in float32."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx

from libranet.export.onnx_file import save_changed

HALF_PARTS = ("encoder/", "refiner/", "attention/", "head/expand/")
"""What the names of nodes contain that compute in half precision: where the network itself does."""


def convert_to_half(path: Path) -> None:
    """Rewrite an ONNX file: nodes of `HALF_PARTS` compute in float16, with casts where they meet the others."""
    model = onnx.shape_inference.infer_shapes(onnx.load(path))
    graph, float32, float16 = model.graph, onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16
    known = (*graph.input, *graph.output, *graph.value_info)
    floats = {value.name for value in known if value.type.tensor_type.elem_type == float32}
    constants = {constant.name: constant for constant in graph.initializer if constant.data_type == float32}
    in_half = {name for node in graph.node if _is_half(node) for name in node.output if name in floats}
    nodes: list[Any] = []
    made: set[str] = set()

    def convert(name: str, half: bool) -> str:
        """The name of a tensor in the precision that a node wants, which is made where it is missing."""
        if name in constants:
            if not half:
                return name
            converted = f"{name}_half"
            if converted not in made:
                values = onnx.numpy_helper.to_array(constants[name]).astype(np.float16)
                graph.initializer.append(onnx.numpy_helper.from_array(values, converted))
        elif name not in floats or (name in in_half) == half:
            return name
        else:
            converted = f"{name}_{'half' if half else 'float'}"
            if converted not in made:
                cast = onnx.helper.make_node(
                    "Cast", [name], [converted], name=f"cast_{converted}", to=float16 if half else float32
                )
                nodes.append(cast)
        made.add(converted)
        return converted

    for node in graph.node:
        inputs = [convert(name, _is_half(node)) for name in node.input]
        del node.input[:]
        node.input.extend(inputs)
        nodes.append(node)
    del graph.value_info[:]  # says float32 everywhere
    save_changed(model, path, nodes)


def _is_half(node: Any) -> bool:
    return any(part in node.name for part in HALF_PARTS)

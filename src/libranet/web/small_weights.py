"""Weights of an ONNX file stored small. What is stored is unpacked to float32 when a runtime loads the file.

The refiner acts on every pixel and keeps 16 bits; everything else has 8 bits, with one scale per output channel.
"""

from pathlib import Path

import numpy as np
import onnx

from libranet.export.onnx_file import save_changed

_SMALLEST = 4096
"""Tensors with fewer values are not worth it."""
_IN_HALF = "refiner"


def store_weights_small(path: Path) -> None:
    """Rewrite an ONNX file in float32: the same graph, with weights of 8 and 16 bits and what unpacks them."""
    model = onnx.load(path)
    graph, helper = model.graph, onnx.helper
    users = {name: node for node in graph.node for name in node.input}
    constants, unpack = [], []

    def store(name: str, values: np.ndarray) -> str:
        constants.append(onnx.numpy_helper.from_array(values, name))
        return name

    for constant in graph.initializer:
        user, values = users.get(constant.name), onnx.numpy_helper.to_array(constant)
        if user is None or values.dtype != np.float32 or values.ndim < 2 or values.size < _SMALLEST:
            constants.append(constant)
            continue
        name, as_float = constant.name, onnx.TensorProto.FLOAT
        if _IN_HALF in name or _IN_HALF in user.name:
            stored = store(f"{name}_half", values.astype(np.float16))
            unpack.append(helper.make_node("Cast", [stored], [name], name=f"{name}_unpack", to=as_float))
            continue
        channels = 0 if user.op_type in ("Conv", "Gemm") else values.ndim - 1
        others = tuple(axis for axis in range(values.ndim) if axis != channels)
        scale = np.maximum(np.abs(values).max(axis=others, keepdims=True), 1e-9).astype(np.float32) / 127.0
        stored = store(f"{name}_rounded", np.round(values / scale).astype(np.int8))
        unpack += [
            helper.make_node("Cast", [stored], [f"{name}_steps"], name=f"{name}_unpack", to=as_float),
            helper.make_node("Mul", [f"{name}_steps", store(f"{name}_scale", scale)], [name], name=f"{name}_scaled"),
        ]
    save_changed(model, path, [*unpack, *graph.node], constants)

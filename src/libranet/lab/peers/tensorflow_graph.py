"""Runs a TensorFlow graph in torch, node by node, exactly as its operations are defined.

Much of such a graph computes shapes. What depends on the shape of the input alone is computed on the CPU. Intermediate
results are freed after their last use.
"""

import base64
import json
import math
import tarfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.engine.allocator import glibc
from libranet.errors import CheckpointError

Operation = Callable[[list[Tensor], dict[str, Any]], Tensor]


class TensorflowGraph(nn.Module):
    """A graph with one input and one output, both [B, H, W, C]."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        super().__init__()
        graph = json.loads(bytes(tensors["graph"].numpy()))
        self.nodes: list[tuple[str, list[int], dict[str, Any]]] = [tuple(node) for node in graph["nodes"]]  # type: ignore[misc]
        self.output = int(graph["output"])
        unknown = {op for op, _, _ in self.nodes} - OPERATIONS.keys() - {"Const", "Placeholder", "Shape"}
        if unknown:
            raise CheckpointError(f"the graph has operations that are not known here: {', '.join(sorted(unknown))}")
        self.order = _order(self.nodes, self.output)
        self.placeholder = next(number for number in self.order if self.nodes[number][0] == "Placeholder")
        self.constants = nn.ParameterDict(
            {key.partition(".")[2]: nn.Parameter(value) for key, value in tensors.items() if key != "graph"}
        )
        self._dynamic = self._depending_on_values()
        self._last_uses = self._find_last_uses()

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        if x.device.type == "cpu":
            _return_freed_arrays()
        results: dict[int, Tensor] = {self.placeholder: x}
        for number in self.order:
            operation, inputs, attributes = self.nodes[number]
            if operation == "Const":
                results[number] = self._constant(number, attributes)
            elif operation == "Shape":
                results[number] = torch.tensor(list(results[inputs[0]].shape), dtype=torch.int32, device="cpu")
            elif number != self.placeholder:
                values = [results[i] for i in inputs]
                if number in self._dynamic:
                    values = [self._beside(x, number, index, value) for index, value in enumerate(values)]
                results[number] = OPERATIONS[operation](values, attributes)
            for used in self._last_uses.get(number, ()):
                del results[used]
        return results[self.output]

    def _beside(self, x: Tensor, number: int, index: int, value: Tensor) -> Tensor:
        """An input of an operation where the operation takes it: with the image's values, or as a size on the CPU."""
        operation, inputs, _ = self.nodes[number]
        is_size = index in SHAPE_INPUTS.get(operation, ()) or (operation == "ConcatV2" and index == len(inputs) - 1)
        if inputs[index] in self._dynamic or is_size:
            return value
        return value.to(x.device, x.dtype if value.is_floating_point() else None)

    def _depending_on_values(self) -> set[int]:
        """The nodes whose results depend on the values of the input, not on its shape alone."""
        found = {self.placeholder}
        for number in self.order:
            operation, inputs, _ = self.nodes[number]
            if operation != "Shape" and any(i in found for i in inputs):
                found.add(number)
        return found

    def _find_last_uses(self) -> dict[int, tuple[int, ...]]:
        """For every node, which results nobody needs after it."""
        found: dict[int, tuple[int, ...]] = {}
        seen = {self.output}
        for number in reversed(self.order):
            found[number] = tuple(set(self.nodes[number][1]) - seen)
            seen.update(self.nodes[number][1])
        return found

    def _constant(self, number: int, attributes: dict[str, Any]) -> Tensor:
        if str(number) in self.constants:
            return self.constants[str(number)].detach()
        kind = torch.float32 if attributes["type"] == "float" else torch.int32
        return torch.tensor(attributes["value"], dtype=kind, device="cpu")


@cache
def _return_freed_arrays() -> None:
    """Let glibc give arrays above 1 MB back when they are freed.

    Thousands of short-lived arrays of many sizes leave gaps on its heap otherwise: 1.6 GB where 32 MB are in use.
    """
    if (libc := glibc()) is not None:
        libc.mallopt(-3, 1 << 20)  # M_MMAP_THRESHOLD


def _order(nodes: list[tuple[str, list[int], dict[str, Any]]], output: int) -> list[int]:
    """The nodes that the output needs, inputs first."""
    done: set[int] = set()
    order: list[int] = []
    waiting = [output]
    while waiting:
        number = waiting[-1]
        missing = [i for i in nodes[number][1] if i not in done]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        if number not in done:
            done.add(number)
            order.append(number)
    return order


def _same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def _conv(values: list[Tensor], attributes: dict[str, Any]) -> Tensor:
    x, kernel = values[0].permute(0, 3, 1, 2), values[1].permute(3, 2, 0, 1)
    stride = attributes["strides"][1:3]
    if attributes["padding"] == "SAME":
        top, bottom = _same_padding(x.shape[2], kernel.shape[2], stride[0])
        left, right = _same_padding(x.shape[3], kernel.shape[3], stride[1])
        x = F.pad(x, (left, right, top, bottom))
    return F.conv2d(x, kernel, stride=stride).permute(0, 2, 3, 1)


def _transposed_conv(values: list[Tensor], attributes: dict[str, Any]) -> Tensor:
    """The gradient of a convolution without padding; TensorFlow writes transposed convolutions so."""
    _, kernel, x = values
    stride = attributes["strides"][1:3]
    return F.conv_transpose2d(x.permute(0, 3, 1, 2), kernel.permute(3, 2, 0, 1), stride=stride).permute(0, 2, 3, 1)


def _strided_slice(values: list[Tensor], attributes: dict[str, Any]) -> Tensor:
    x, begin, end, step = values
    parts: list[slice | int] = []
    for axis, (b, e, s) in enumerate(zip(begin.tolist(), end.tolist(), step.tolist(), strict=True)):
        shrink = attributes.get("shrink_axis_mask", 0) >> axis & 1
        parts.append(b if shrink else slice(b, e, s))
    return x[tuple(parts)]


SHAPE_INPUTS: dict[str, tuple[int, ...]] = {
    "Reshape": (1,),
    "BroadcastTo": (1,),
    "Transpose": (1,),
    "Sum": (1,),
    "ExpandDims": (1,),
    "StridedSlice": (1, 2, 3),
    "GatherV2": (2,),
    "Conv2DBackpropInput": (0,),
}
"""Inputs that are sizes or axes, which stay on the CPU; of a concatenation it is the last one."""

OPERATIONS: dict[str, Operation] = {
    "Abs": lambda v, _: v[0].abs(),
    "AddV2": lambda v, _: v[0] + v[1],
    "BroadcastTo": lambda v, _: v[0].expand(v[1].tolist()),
    "Cast": lambda v, a: v[0].to({"DT_FLOAT": torch.float32, "DT_INT32": torch.int32}[a["DstT"]]),
    "ConcatV2": lambda v, _: torch.cat(v[:-1], dim=int(v[-1])),
    "Conv2D": _conv,
    "Conv2DBackpropInput": _transposed_conv,
    "Einsum": lambda v, a: torch.einsum(a["equation"], *v),
    "Exp": lambda v, _: v[0].exp(),
    "ExpandDims": lambda v, _: v[0].unsqueeze(int(v[1])),
    "Floor": lambda v, _: v[0].floor(),
    "FloorDiv": lambda v, _: v[0].div(v[1], rounding_mode="floor"),
    "FloorMod": lambda v, _: v[0].remainder(v[1]),
    "GatherV2": lambda v, _: v[0].index_select(int(v[2]), v[1].reshape(-1)).unflatten(int(v[2]), v[1].shape),
    "Greater": lambda v, _: v[0] > v[1],
    "GreaterEqual": lambda v, _: v[0] >= v[1],
    "Identity": lambda v, _: v[0],
    "Less": lambda v, _: v[0] < v[1],
    "LessEqual": lambda v, _: v[0] <= v[1],
    "LogicalAnd": lambda v, _: v[0] & v[1],
    "Maximum": lambda v, _: torch.maximum(v[0], v[1]),
    "Minimum": lambda v, _: torch.minimum(v[0], v[1]),
    "Mul": lambda v, _: v[0] * v[1],
    "Neg": lambda v, _: -v[0],
    "NotEqual": lambda v, _: v[0] != v[1],
    "Pack": lambda v, a: torch.stack(v, dim=a["axis"]),
    "Range": lambda v, _: torch.arange(*(int(bound) for bound in v), dtype=torch.int32, device="cpu"),
    "RealDiv": lambda v, _: v[0] / v[1],
    "Reciprocal": lambda v, _: v[0].reciprocal(),
    "Reshape": lambda v, _: v[0].reshape(v[1].tolist()),
    "Rsqrt": lambda v, _: v[0].rsqrt(),
    "SelectV2": lambda v, _: torch.where(v[0], v[1], v[2]),
    "Sign": lambda v, _: v[0].sign(),
    "Square": lambda v, _: v[0].square(),
    "Squeeze": lambda v, a: v[0].squeeze(tuple(a["squeeze_dims"])),
    "StridedSlice": _strided_slice,
    "Sub": lambda v, _: v[0] - v[1],
    "Sum": lambda v, a: v[0].sum(dim=v[1].reshape(-1).tolist(), keepdim=a.get("keep_dims", False)),
    "Tanh": lambda v, _: v[0].tanh(),
    "Transpose": lambda v, _: v[0].permute(v[1].tolist()),
}


def read_archive(files: Mapping[str, Path]) -> dict[str, Tensor]:
    """Read a TensorFlow.js graph out of an npm archive: `graph` is JSON in bytes, `constant.N` its larger constants.

    The JSON has a list of nodes, each `[operation, inputs, attributes]`, inputs by number; small constants are in it.
    """
    (path,) = files.values()
    with tarfile.open(path) as archive:
        description = json.loads(_member(archive, "package/models/model.json"))
        (group,) = description["weightsManifest"]
        data = b"".join(_member(archive, f"package/models/{name}") for name in group["paths"])
    constants: dict[str, np.ndarray] = {}
    place = 0
    for entry in group["weights"]:
        kind = np.dtype({"float32": "<f4", "int32": "<i4"}[entry["dtype"]])
        count = math.prod(entry["shape"])
        constants[entry["name"]] = np.frombuffer(data, kind, count, place).reshape(entry["shape"])
        place += count * kind.itemsize
    nodes = description["modelTopology"]["node"]
    numbers = {node["name"]: number for number, node in enumerate(nodes)}
    table: list[list[Any]] = []
    tensors: dict[str, Tensor] = {}
    for number, node in enumerate(nodes):
        inputs = [numbers[name] for name in node.get("input", []) if not name.startswith("^")]
        attributes: dict[str, Any] = {}
        if node["op"] == "Const":
            value = constants[node["name"]]
            if value.dtype.kind == "f" and value.size > 1:
                tensors[f"constant.{number}"] = torch.from_numpy(value.copy())
            else:
                attributes = {"value": value.tolist(), "type": "float" if value.dtype.kind == "f" else "int"}
        else:
            attributes = {key: _attribute(value) for key, value in node.get("attr", {}).items() if key in _ATTRIBUTES}
        table.append([node["op"], inputs, attributes])
    (output,) = description["signature"]["outputs"].values()
    graph = {"nodes": table, "output": numbers[output["name"].partition(":")[0]]}
    tensors["graph"] = torch.frombuffer(bytearray(json.dumps(graph).encode()), dtype=torch.uint8).clone()
    return tensors


_ATTRIBUTES = {"padding", "strides", "equation", "DstT", "keep_dims", "squeeze_dims", "axis", "shrink_axis_mask"}
"""What the nodes of the graphs in the table need; other attributes have their default values there."""


def _attribute(value: dict[str, Any]) -> Any:
    if "s" in value:
        return base64.b64decode(value["s"]).decode()
    if "list" in value:
        return [int(item) for item in value["list"].get("i", [])]
    (found,) = value.values()
    return int(found) if "i" in value else found


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    try:
        stream = archive.extractfile(name)
    except KeyError:
        stream = None
    if stream is None:
        raise CheckpointError(f"the archive has no {name}: fetch it again")
    return stream.read()

"""Converts what others publish into plain safetensors, once, when a file enters the cache.

A pickle is a program. The readers here let it build only the plain things that weights consist of; every other name it
asks for is an error or an inert object. The caller has checked the file's SHA-256 against the table before.
"""

import base64
import importlib
import io
import json
import math
import pickle
import tarfile
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from libranet.errors import CheckpointError, MissingDependencyError

Converter = Callable[[Mapping[str, Path]], dict[str, Tensor]]
"""Takes the published files by their names in the table, returns the tensors to keep."""

ALEXNET_LAYERS = (0, 3, 6, 8, 10)
"""Positions of the convolutions in torchvision's `alexnet().features`, whose names are the common ones."""
VGG16_LAYERS = (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)
"""The same for `vgg16().features`."""
_YOLO_EPSILON = 1e-3
"""What YOLOv8's batch norms add to the variance."""
_ARRAY_NAMES = {("numpy", "ndarray"): np.ndarray, ("numpy", "dtype"): np.dtype}
_TORCH_NAMES = {
    ("torch._utils", "_rebuild_tensor_v2"),
    ("torch._utils", "_rebuild_parameter"),
    ("collections", "OrderedDict"),
    ("torch", "Size"),
}


def alexnet_lpips(files: Mapping[str, Path]) -> dict[str, Tensor]:
    """Read AlexNet's convolutions as `features.N.*` and the LPIPS heads as `heads.N`."""
    return _flax_lpips(files["alexnet.ckpt"], "AlexNet_0", ALEXNET_LAYERS)


def vgg16_lpips(files: Mapping[str, Path]) -> dict[str, Tensor]:
    """Read VGG-16's convolutions as `features.N.*` and the LPIPS heads as `heads.N`."""
    return _flax_lpips(files["vgg16.ckpt"], "VGG16_0", VGG16_LAYERS)


def niqe_parameters(files: Mapping[str, Path]) -> dict[str, Tensor]:
    """Read mean [36] and covariance [36, 36] of the features of natural images."""
    try:
        from scipy.io import loadmat
    except ImportError:
        raise MissingDependencyError(
            "NIQE's parameters are a MATLAB file, which needs SciPy to read: pip install 'libranet[eval]'"
        ) from None
    content = loadmat(str(files["niqe_image_params.mat"]))
    return {
        "mean": torch.from_numpy(np.ravel(content["pop_mu"]).astype(np.float64)),
        "covariance": torch.from_numpy(np.ascontiguousarray(content["pop_cov"], dtype=np.float64)),
    }


def niqe_matlab_parameters(files: Mapping[str, Path]) -> dict[str, Tensor]:
    """Read the authors' mean [36] and covariance [36, 36], as BasicSR ships them."""
    with np.load(files["niqe_pris_params.npz"], allow_pickle=False) as content:
        return {
            "mean": torch.from_numpy(np.ravel(content["mu_pris_param"]).astype(np.float64)),
            "covariance": torch.from_numpy(np.ascontiguousarray(content["cov_pris_param"], dtype=np.float64)),
        }


def brisque_svr(files: Mapping[str, Path]) -> dict[str, Tensor]:
    """Read the support vectors [N, 36], their weights [N], the offset, gamma, and the range [36] of every feature."""
    header, _, body = files["svm.txt"].read_text().partition("SV\n")
    fields = dict(line.split(maxsplit=1) for line in header.splitlines() if line)
    if fields.get("kernel_type") != "rbf" or fields.get("svm_type") != "epsilon_svr":
        raise CheckpointError("expected the BRISQUE model to be a support-vector regression with an RBF kernel")
    rows = [line.split() for line in body.splitlines() if line.strip()]
    vectors = np.zeros((len(rows), 36))
    for row, (_, *entries) in zip(vectors, rows, strict=True):
        for entry in entries:
            index, value = entry.split(":")
            row[int(index) - 1] = float(value)
    ranges = read_pickled_arrays(files["normalize.pickle"].read_bytes())
    return {
        "vectors": torch.from_numpy(vectors),
        "weights": torch.tensor([float(row[0]) for row in rows], dtype=torch.float64),
        "rho": torch.tensor(float(fields["rho"]), dtype=torch.float64),
        "gamma": torch.tensor(float(fields["gamma"]), dtype=torch.float64),
        "low": torch.tensor(ranges["min_"], dtype=torch.float64),
        "high": torch.tensor(ranges["max_"], dtype=torch.float64),
    }


def raft_small(files: Mapping[str, Path]) -> dict[str, Tensor]:
    """Read RAFT-small without the prefix that data-parallel training left on its names."""
    state = read_torch_tensors(files["raft-small.pth"])
    return {name.removeprefix("module."): tensor.contiguous() for name, tensor in state.items()}


def yolov8(files: Mapping[str, Path]) -> dict[str, Tensor]:
    """Read YOLOv8 and fold its batch norms into the convolutions: `model.N....weight` and `.bias`."""
    (path,) = files.values()
    state = {name: tensor.float() for name, tensor in read_pickled_network(path, "model").items()}
    folded: dict[str, Tensor] = {}
    for name in [key.removesuffix(".conv.weight") for key in state if key.endswith(".conv.weight")]:
        if f"{name}.bn.weight" not in state:
            continue  # the fixed row of bin numbers in the head
        scale = state[f"{name}.bn.weight"] / (state[f"{name}.bn.running_var"] + _YOLO_EPSILON).sqrt()
        folded[f"{name}.weight"] = (state[f"{name}.conv.weight"] * scale[:, None, None, None]).contiguous()
        folded[f"{name}.bias"] = state[f"{name}.bn.bias"] - state[f"{name}.bn.running_mean"] * scale
    plain = [key for key in state if ".conv." not in key and ".bn." not in key]
    return folded | {key: state[key].contiguous() for key in plain}


def tensorflow_graph(files: Mapping[str, Path]) -> dict[str, Tensor]:
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


def _flax_lpips(path: Path, network: str, layers: tuple[int, ...]) -> dict[str, Tensor]:
    content: dict[str, Any] = read_pickled_arrays(path.read_bytes())
    state: dict[str, Tensor] = {}
    for index, layer in enumerate(layers):
        entry = content[network][f"Conv_{index}"]
        state[f"features.{layer}.weight"] = _torch_kernel(entry["kernel"])
        state[f"features.{layer}.bias"] = torch.from_numpy(np.array(entry["bias"], dtype=np.float32))
    for index in range(5):
        state[f"heads.{index}"] = _torch_kernel(content[f"NetLinLayer_{index}"]["Conv_0"]["kernel"]).flatten()
    return state


def _torch_kernel(kernel: np.ndarray) -> Tensor:
    """Height, width, in, out -> out, in, height, width."""
    return torch.from_numpy(np.array(kernel, dtype=np.float32)).permute(3, 2, 0, 1).contiguous()


def read_pickled_arrays(data: bytes) -> Any:
    """Read the nested dictionaries and arrays of a pickle that holds nothing else."""
    try:
        return _ArrayUnpickler(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, EOFError, IndexError, KeyError, AttributeError, ValueError) as error:
        raise CheckpointError(f"the pickled weights are damaged ({error}): fetch them again") from None


def read_pickled_network(path: Path, entry: str) -> dict[str, Tensor]:
    """Read the tensors of a network that was pickled as an object, under the names of its state dictionary."""
    reader = types.SimpleNamespace(Unpickler=_TensorUnpickler, load=pickle.load, __name__="inert")
    try:
        content = torch.load(path, map_location="cpu", weights_only=False, pickle_module=reader)
        network = content[entry]
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise CheckpointError(f"{path} holds no pickled network under {entry!r} or is damaged ({reason})") from None
    found: dict[str, Tensor] = {}
    _collect(network, "", found)
    return found


def read_torch_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a checkpoint written by `torch.save`, through torch's own restricted reader."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = str(error).splitlines()[0]
        raise CheckpointError(f"{path} holds more than tensors or is damaged and is refused ({reason})") from None
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise CheckpointError(f"expected a flat table of tensors in {path}, got something else")
    return state


class _ArrayUnpickler(pickle.Unpickler):
    """Builds dictionaries, lists, numbers, strings and numpy arrays, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name in ("_reconstruct", "scalar"):
            return getattr(_multiarray(), name)
        if (module, name) in _ARRAY_NAMES:
            return _ARRAY_NAMES[module, name]
        raise CheckpointError(f"the pickle asks for {module}.{name}, which weights do not need: it is refused")


def _multiarray() -> Any:
    """The module that rebuilds arrays; numpy 2 gave it another name."""
    return importlib.import_module("numpy._core.multiarray" if hasattr(np, "_core") else "numpy.core.multiarray")


class _Inert:
    """Stands in for every class of a pickled network: it keeps the state it is given and can do nothing."""

    def __init__(self, *arguments: object) -> None: ...


class _TensorUnpickler(pickle.Unpickler):
    """Builds tensors and plain containers; all else becomes an inert object."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _TORCH_NAMES or (module == "torch" and name.endswith("Storage")):
            return super().find_class(module, name)
        return type(name, (_Inert,), {})


def _collect(module: Any, prefix: str, found: dict[str, Tensor]) -> None:
    content = vars(module)
    for kind in ("_parameters", "_buffers"):
        found |= {
            f"{prefix}{name}": tensor.detach() for name, tensor in content.get(kind, {}).items() if tensor is not None
        }
    for name, child in content.get("_modules", {}).items():
        if child is not None:
            _collect(child, f"{prefix}{name}.", found)

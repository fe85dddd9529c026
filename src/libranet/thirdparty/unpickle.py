"""Reading the few pickled files that others publish, without running anything that they name.

A pickle is a program. Here it may only build the plain things that weights consist of; every other name it asks for is
an error. On top of that the caller checks the file's SHA-256 against the table before it comes here.
"""

import importlib
import io
import pickle
import types
from pathlib import Path
from typing import Any

import numpy as np
import torch

from libranet.errors import CheckpointError

_ARRAY_NAMES = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}


_TORCH_NAMES = {
    ("torch._utils", "_rebuild_tensor_v2"),
    ("torch._utils", "_rebuild_parameter"),
    ("collections", "OrderedDict"),
    ("torch", "Size"),
}


class _Inert:
    """Stands in for every class of a pickled network: it keeps the state it is given and can do nothing."""

    def __init__(self, *arguments: object) -> None: ...


class _TensorUnpickler(pickle.Unpickler):
    """Builds tensors and plain containers; all else becomes an inert object."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _TORCH_NAMES or (module == "torch" and name.endswith("Storage")):
            return super().find_class(module, name)
        return type(name, (_Inert,), {})


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


def read_pickled_arrays(data: bytes) -> Any:
    """The nested dictionaries and arrays of a pickle that holds nothing else."""
    try:
        return _ArrayUnpickler(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, EOFError, IndexError, KeyError, AttributeError, ValueError) as error:
        raise CheckpointError(f"the pickled weights are damaged ({error}): fetch them again") from None


def read_pickled_network(path: Path, entry: str) -> dict[str, torch.Tensor]:
    """The tensors of a whole network that was pickled as an object, under the names its state dictionary would have."""
    reader = types.SimpleNamespace(Unpickler=_TensorUnpickler, load=pickle.load, __name__="inert")
    try:
        content = torch.load(path, map_location="cpu", weights_only=False, pickle_module=reader)
        network = content[entry]
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise CheckpointError(f"{path} holds no pickled network under {entry!r} or is damaged ({reason})") from None
    found: dict[str, torch.Tensor] = {}
    _collect(network, "", found)
    return found


def _collect(module: Any, prefix: str, found: dict[str, torch.Tensor]) -> None:
    content = vars(module)
    for kind in ("_parameters", "_buffers"):
        found |= {
            f"{prefix}{name}": tensor.detach() for name, tensor in content.get(kind, {}).items() if tensor is not None
        }
    for name, child in content.get("_modules", {}).items():
        if child is not None:
            _collect(child, f"{prefix}{name}.", found)


def read_torch_tensors(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a checkpoint written by `torch.save`, through torch's own restricted reader."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = str(error).splitlines()[0]
        raise CheckpointError(f"{path} holds more than tensors or is damaged and is refused ({reason})") from None
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise CheckpointError(f"expected a flat table of tensors in {path}, got something else")
    return state

"""Converts what others publish into plain safetensors, once, when a file enters the cache.

A pickle is a program. The readers here let it build only the plain things that weights consist of; every other name it
asks for is an error or an inert object. The caller has checked the file's SHA-256 against the table before.
"""

import importlib
import io
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from libranet.errors import CheckpointError

Converter = Callable[[Mapping[str, Path]], dict[str, Tensor]]
"""Takes the published files by their names in the table, returns the tensors to keep."""

ALEXNET_LAYERS = (0, 3, 6, 8, 10)
"""Positions of the convolutions in torchvision's `alexnet().features`, whose names are the common ones."""
VGG16_LAYERS = (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)  # the same for `vgg16().features`
_ARRAY_NAMES = {("numpy", "ndarray"): np.ndarray, ("numpy", "dtype"): np.dtype}


def alexnet_lpips(files: Mapping[str, Path]) -> dict[str, Tensor]:
    """Read AlexNet's convolutions as `features.N.*` and the LPIPS heads as `heads.N`."""
    return _flax_lpips(files["alexnet.ckpt"], "AlexNet_0", ALEXNET_LAYERS)


def vgg16_lpips(files: Mapping[str, Path]) -> dict[str, Tensor]:
    """Read VGG-16's convolutions as `features.N.*` and the LPIPS heads as `heads.N`."""
    return _flax_lpips(files["vgg16.ckpt"], "VGG16_0", VGG16_LAYERS)


def raft_small(files: Mapping[str, Path]) -> dict[str, Tensor]:
    """Read RAFT-small without the prefix that data-parallel training left on its names."""
    state = read_tensors(files["raft-small.pth"])
    return {name.removeprefix("module."): tensor.contiguous() for name, tensor in state.items()}


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


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a .safetensors file, or of one that `torch.save` wrote. No code of the file is run."""
    if not path.is_file():
        raise CheckpointError(f"expected weights, found no file {path}: check the path")
    try:
        if path.suffix == ".safetensors":
            return safetensors.torch.load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch, pickle and safetensors raise classes that share no base
        reason = (str(error).splitlines() or [type(error).__name__])[0]
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

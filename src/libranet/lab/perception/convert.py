"""Converts what metrics of the laboratory need: parameters of NIQE and BRISQUE, and YOLOv8, a pickled network."""

import pickle
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from libranet.errors import CheckpointError, MissingDependencyError, install_command
from libranet.thirdparty.convert import read_pickled_arrays

_YOLO_EPSILON = 1e-3  # what YOLOv8's batch norms add to the variance
_TORCH_NAMES = {
    ("torch._utils", "_rebuild_tensor_v2"),
    ("torch._utils", "_rebuild_parameter"),
    ("collections", "OrderedDict"),
    ("torch", "Size"),
}


def niqe_parameters(files: Mapping[str, Path]) -> dict[str, Tensor]:
    """Read mean [36] and covariance [36, 36] of the features of natural images."""
    content = _read_matlab(files["niqe_image_params.mat"])
    return _statistics(content["pop_mu"], content["pop_cov"])


def niqe_matlab_parameters(files: Mapping[str, Path]) -> dict[str, Tensor]:
    """Read the authors' mean [36] and covariance [36, 36], as BasicSR ships them."""
    with np.load(files["niqe_pris_params.npz"], allow_pickle=False) as content:
        return _statistics(content["mu_pris_param"], content["cov_pris_param"])


def fade_parameters(files: Mapping[str, Path]) -> dict[str, Tensor]:
    """Read mean [12] and covariance [12, 12] of the features of images without fog, `clear_`, and in fog, `foggy_`."""
    state = {}
    for side, theirs in (("clear", "fogfree"), ("foggy", "foggy")):
        content = _read_matlab(files[f"natural_{theirs}_image_features_ps8.mat"])
        for name, array in (("mean", content[f"mu_{theirs}param"][0]), ("covariance", content[f"cov_{theirs}param"])):
            state[f"{side}_{name}"] = torch.from_numpy(np.ascontiguousarray(array, dtype=np.float64))
    return state


def _read_matlab(path: Path) -> dict[str, Any]:
    try:
        from scipy.io import loadmat
    except ImportError:
        raise MissingDependencyError(
            f"{path.name} is a MATLAB file, which needs SciPy: {install_command('lab')}"
        ) from None
    return loadmat(str(path))


def _statistics(mean: np.ndarray, covariance: np.ndarray) -> dict[str, Tensor]:
    """The parameters of NIQE by our names."""
    arrays = {"mean": np.ravel(mean), "covariance": covariance}
    return {name: torch.from_numpy(np.array(array, np.float64, order="C")) for name, array in arrays.items()}


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

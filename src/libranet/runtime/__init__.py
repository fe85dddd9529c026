"""Backends restore frames: one interface, one chooser (`choose.py`). `load_network` opens a network by its name."""

from dataclasses import replace
from pathlib import Path

import torch

from libranet.device import Precision, pick_device, pick_dtype
from libranet.errors import CheckpointError, InputError
from libranet.extension import is_own, lab
from libranet.network import LiBrANet, Network, load_model
from libranet.network.checkpoint import assign_weights, packaged_name, read_header
from libranet.runtime.choose import make_backend
from libranet.runtime.interface import MAX_STRENGTH, Backend, Restored, rgb_frames, rgb_of

__all__ = [
    "MAX_STRENGTH",
    "Backend",
    "Restored",
    "build_fresh",
    "is_peer",
    "load_network",
    "make_backend",
    "rgb_frames",
    "rgb_of",
]


def load_network(
    model: Network | str | Path | None = None,
    *,
    weights: str | None = None,
    device: str = "auto",
    precision: Precision = "auto",
    dense_fog: bool = True,
) -> Network:
    """Load a network onto its device, ready for inference.

    Args:
        model: `libranet-base`, `libranet-small`, the name of a peer, a network of the user's own as
            `package.module:Class`, a checkpoint's path, or None for the weights of the package. A network is returned
            as it is.
        weights: A checkpoint for the network that `model` names.
        device: As `libranet.device.pick_device` takes it.
        precision: As `libranet.device.pick_dtype` takes it.
        dense_fog: Clear what LiBrA-Net leaves of dense fog, too; False is the network alone.

    Raises:
        InputError: A named peer needs weights, or weights were given for a path.
        CheckpointError: A file is missing, damaged, or of another network.
    """
    if isinstance(model, Network):
        return model.eval()
    name = None if model is None else str(model)
    network = _load(name, weights, pick_device(device), precision)
    if isinstance(network, LiBrANet) and network.config.has_both_fields:
        network.config = replace(network.config, dense_fog=dense_fog)
    return network


def _load(model: str | None, weights: str | None, where: torch.device, precision: Precision) -> Network:
    dtype = pick_dtype(precision, where)
    if weights is None and packaged_name(model) is not None:
        return load_model(model, device=where, dtype=dtype)
    if model in (None, LiBrANet.architecture):
        return load_model(weights, device=where, dtype=dtype)
    if not Path(model).exists() and is_own(model):
        return _open_own(model, weights).to(where, dtype).eval()
    if not Path(model).exists() and is_peer(model):
        return lab("peers.table").open_peer(model, weights, device=where, dtype=dtype)
    if weights is not None:
        raise InputError(f"--weights goes with the name of a network, got the path {model} and the weights {weights}")
    found = read_header(model).architecture
    if found == LiBrANet.architecture:
        return load_model(model, device=where, dtype=dtype)
    if is_own(found):  # a file must not decide which code runs
        raise CheckpointError(f"{model} holds the weights of {found}: give --model {found} --weights {model}")
    return lab("peers.table").load_peer(model, device=where, dtype=dtype)


def build_fresh(name: str, *, seed: int = 0) -> Network:
    """Build a peer or a network of the user's own with fresh weights, which depend on the seed alone."""
    return lab("peers.table").build_peer(name, seed=seed)


def _open_own(name: str, weights: str | None) -> Network:
    from libranet.network.own import build_own  # only runs with a user's own code load it

    network = build_own(name)
    if weights is None:
        return network  # its constructor may have loaded them
    header = read_header(weights)
    if header.architecture != name:
        raise CheckpointError(f"expected the weights of {name}, {weights} holds those of {header.architecture}")
    assign_weights(network, Path(weights), dtype=torch.float32)
    network.weights = header.weights
    return network


def is_peer(name: str) -> bool:
    """Whether the laboratory knows a peer by this name, also one that it cannot build."""
    return lab("peers.table").is_peer(name)

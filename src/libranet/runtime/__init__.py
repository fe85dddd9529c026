"""Backends restore frames: one interface, one chooser (`choose.py`). `load_network` opens a network by its name."""

from dataclasses import replace
from pathlib import Path

import torch

from libranet.device import Precision, pick_device, pick_dtype
from libranet.errors import InputError
from libranet.extension import lab
from libranet.network import LiBrANet, Network, load_model
from libranet.network.checkpoint import PACKAGED, read_header
from libranet.runtime.choose import make_backend
from libranet.runtime.interface import MAX_STRENGTH, Backend, Restored, rgb_frames, rgb_of

__all__ = [
    "MAX_STRENGTH",
    "Backend",
    "Restored",
    "is_peer",
    "load_network",
    "make_backend",
    "rgb_frames",
    "rgb_of",
]


def load_network(
    model: Network | str | None = None,
    *,
    weights: str | None = None,
    device: str = "auto",
    precision: Precision = "auto",
    dense_fog: bool = True,
) -> Network:
    """Load a network onto its device, ready for inference.

    Args:
        model: `libranet`, `base`, `small`, the name of a peer, a checkpoint's path, or None for the weights of the
            package. A network is returned as it is.
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
    network = _load(model, weights, pick_device(device), precision)
    if isinstance(network, LiBrANet) and network.config.has_both_fields:
        network.config = replace(network.config, dense_fog=dense_fog)
    return network


def _load(model: str | None, weights: str | None, where: torch.device, precision: Precision) -> Network:
    dtype = pick_dtype(precision, where)
    if model in PACKAGED and weights is None:
        return load_model(model, device=where, dtype=dtype)
    if model in (None, LiBrANet.architecture):
        return load_model(weights, device=where, dtype=dtype)
    if not Path(model).exists() and is_peer(model):
        return _network(lab("peers.table").open_peer(model, weights, device=where, dtype=dtype))
    if weights is not None:
        raise InputError(f"--weights goes with the name of a network, got the path {model} and the weights {weights}")
    if read_header(model).architecture == LiBrANet.architecture:
        return load_model(model, device=where, dtype=dtype)
    return _network(lab("peers.table").load_peer(model, device=where, dtype=dtype))


def is_peer(name: str) -> bool:
    """Whether the laboratory knows a peer by this name, also one that it cannot build."""
    return bool(lab("peers.table").is_peer(name))


def _network(found: object) -> Network:
    assert isinstance(found, Network)
    return found

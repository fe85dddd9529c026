"""Backends restore frames: one interface, one module per runtime, and `make_backend` to choose."""

from pathlib import Path

import torch

from libranet.device import Precision, pick_device, pick_dtype
from libranet.errors import InputError
from libranet.extension import lab
from libranet.network import NO_FILTER, GridFilter, LiBrANet, Network, load_model
from libranet.network.checkpoint import PACKAGED, read_header
from libranet.network.peer import Peer
from libranet.runtime.cpu.choice import check_backend, make_stream, on_cpu
from libranet.runtime.gpu.support import why_not_device, why_not_fused
from libranet.runtime.interface import MAX_STRENGTH, Backend, Restored, rgb_frames, rgb_of
from libranet.runtime.other_networks import PeerBackend
from libranet.runtime.plain import PlainBackend

__all__ = [
    "MAX_STRENGTH",
    "Backend",
    "Restored",
    "has_kernels",
    "is_peer",
    "load_network",
    "make_backend",
    "rgb_frames",
    "rgb_of",
    "why_not_fused_here",
]


def load_network(
    model: Network | str | None = None,
    *,
    weights: str | None = None,
    device: str = "auto",
    precision: Precision = "auto",
) -> Network:
    """Load a network onto its device, ready for inference.

    Args:
        model: `libranet`, `base`, `small`, the name of a peer, a checkpoint's path, or None for the weights of the
            package. A network is returned as it is.
        weights: A checkpoint for the network that `model` names.
        device: As `libranet.device.pick_device` takes it.
        precision: As `libranet.device.pick_dtype` takes it.

    Raises:
        InputError: A named peer needs weights, or weights were given for a path.
        CheckpointError: A file is missing, damaged, or of another network.
    """
    if isinstance(model, Network):
        return model.eval()
    where = pick_device(device)
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


def make_backend(
    network: Network,
    *,
    strength: float = 1.0,
    live: bool = False,
    want_transmission: bool = False,
    grid_filter: GridFilter = NO_FILTER,
    batch: int = 1,
    backend: str = "auto",
) -> Backend:
    """Choose the fastest backend for this network and its device.

    Args:
        network: Its device and dtype take part in the choice.
        strength: Factor on the correction, 0 to 1.5.
        live: No look-ahead: return every frame at once.
        want_transmission: Also return the transmission in the network's matrices.
        grid_filter: How LiBrA-Net's grids are averaged over time; single images need none, and peers have no grids.
        batch: Frames that may be collected before they are restored. More is faster and later; without effect where
            the backend gains nothing from it, and with `live`.
        backend: On a CPU, one of `libranet.runtime.cpu.choice.BACKENDS`.
    """
    check_backend(backend)
    if not 0.0 <= strength <= MAX_STRENGTH:
        raise InputError(f"expected a strength from 0 to {MAX_STRENGTH}, got {strength}")
    if batch < 1:
        raise InputError(f"expected batches of at least one frame, got {batch}")
    if isinstance(network, Peer):
        if want_transmission:
            raise InputError(f"{network.architecture} predicts no transmission: use --view removed, or LiBrA-Net")
        return PeerBackend(network, live=live, strength=strength)
    assert isinstance(network, LiBrANet)
    lookahead = 0 if live else None
    if why_not_fused_here(network) is None:
        from libranet.runtime.gpu.backend import FusedBackend  # needs Triton

        return FusedBackend(
            network,
            lookahead=lookahead,
            strength=strength,
            grid_filter=grid_filter,
            want_transmission=want_transmission,
            batch=1 if live else batch,
        )
    if network.device.type == "cpu" and not want_transmission:
        network = on_cpu(network, backend)
        return make_stream(network, lookahead=lookahead, strength=strength, grid_filter=grid_filter)
    return PlainBackend(
        network,
        lookahead=lookahead,
        strength=strength,
        want_transmission=want_transmission,
        grid_filter=grid_filter,
        tune=network.device.type != "cpu" and not has_kernels(network.device) and not want_transmission,
        patient=batch > 1,
    )


def has_kernels(device: torch.device) -> bool:
    """Whether this device runs our kernels."""
    return why_not_device(device) is None


def why_not_fused_here(network: Network) -> str | None:
    """Say in one sentence why this network needs the plain backend, or None where the fused one takes it."""
    if not isinstance(network, LiBrANet):
        return f"the fused path computes LiBrA-Net, not {network.architecture}"
    if network.dtype != torch.float16:
        return f"the network is in {str(network.dtype).removeprefix('torch.')}, and the fused path computes in float16"
    return why_not_fused(network.config, network.device)

"""The table of peers: what each is, how it is built, and what its makers and our paper say about its size."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from libranet.baselines.ffa_net import FfaNet
from libranet.baselines.interface import Peer
from libranet.baselines.simple import Clahe, DarkChannelPrior, Identity
from libranet.errors import CheckpointError, InputError
from libranet.models.checkpoint import assign_weights, read_header


@dataclass(frozen=True)
class PeerEntry:
    """One row of the table."""

    name: str
    title: str
    """Name and place of publication."""
    build: Callable[[], Peer]
    """Makes the network with fresh weights; cheap calls under `torch.device("meta")`."""
    parameters: int
    """What the official network has; ours must have the same. 0: a method without weights."""
    paper_row: str = ""
    """Its row in the efficiency table of our paper."""
    note: str = ""
    """What a reader of a table must know about this build."""

    def build_on_meta(self) -> Peer:
        """Make the network without storage, for its shapes and settings."""
        with torch.device("meta"):
            return self.build()

    @property
    def trainable(self) -> bool:
        """Whether there is anything to train."""
        return self.parameters > 0


PEERS: tuple[PeerEntry, ...] = (
    PeerEntry("identity", "no dehazing", Identity, 0),
    PeerEntry("clahe", "CLAHE on lightness (OpenCV)", Clahe, 0),
    PeerEntry("dcp", "Dark channel prior, CVPR 2009", DarkChannelPrior, 0),
    PeerEntry("ffa-net", "FFA-Net, AAAI 2020", FfaNet, 4_455_913, "FFA-Net", "19 blocks per group, as released"),
)

ABSENT: dict[str, str] = {}
"""Peers of the paper that cannot be rebuilt faithfully, and why."""


def peer_names() -> str:
    """The names for a message."""
    return ", ".join(entry.name for entry in PEERS)


def find_peer(name: str) -> PeerEntry:
    """Find a row by its name.

    Raises:
        InputError: There is no such peer; if the paper has it, the message says why we do not.
    """
    for entry in PEERS:
        if entry.name == name:
            return entry
    if reason := ABSENT.get(name):
        raise InputError(f"{name} is not among the peers: {reason}")
    raise InputError(f"no peer is called {name!r}: expected one of {peer_names()}")


def is_peer(name: str) -> bool:
    """Whether the table, or the list of those that we cannot build, has this name."""
    return name in ABSENT or any(entry.name == name for entry in PEERS)


def build_peer(name: str, *, seed: int = 0) -> Peer:
    """Build a peer with fresh weights, which depend on the seed alone."""
    entry = find_peer(name)
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        return entry.build()


def load_peer(path: str | Path, *, device: str | torch.device = "cpu", dtype: torch.dtype = torch.float32) -> Peer:
    """Load a peer from a checkpoint of our trainer, ready for inference.

    Raises:
        CheckpointError: The file is missing, damaged, or of another network.
    """
    header = read_header(path)
    if not is_peer(header.architecture):
        raise CheckpointError(f"{path} holds the weights of {header.architecture}, which is not a peer")
    peer = build_peer(header.architecture)
    assign_weights(peer, Path(path), dtype=dtype)
    peer.weights = header.weights
    return peer.to(device, dtype).eval()


def open_peer(
    name: str,
    weights: str | Path | None = None,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Peer:
    """Open a peer by its name, ready for inference.

    Args:
        name: As in the table.
        weights: A checkpoint of our trainer. Methods without weights have none.
        device: Where it computes.
        dtype: The precision it computes in.

    Raises:
        InputError: There is no such peer, or it needs weights that were not given.
        CheckpointError: The file does not hold this peer's weights.
    """
    entry = find_peer(name)
    if weights is not None:
        if not entry.trainable:
            raise InputError(f"{name} has no weights: leave out {weights}")
        found = read_header(weights).architecture
        if found != name:
            raise CheckpointError(f"expected the weights of {name}, {weights} holds those of {found}")
        return load_peer(weights, device=device, dtype=dtype)
    if entry.trainable:
        raise InputError(
            f"nobody publishes weights of {name} that we may ship: train it (libranet train RECIPE --set peer={name}) "
            "and give the checkpoint"
        )
    return entry.build().to(device, dtype).eval()

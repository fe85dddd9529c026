"""The models that an evaluation runs, behind one small interface: frames in, restored frames out, in order."""

import hashlib
from pathlib import Path
from typing import Literal, Protocol

import torch
from torch import Tensor

from libranet.device import Precision
from libranet.errors import InputError
from libranet.extension import lab
from libranet.network import GridFilter, LiBrANet, Network
from libranet.network.checkpoint import PACKAGED, find_checkpoint
from libranet.runtime import is_peer, load_network, make_backend, rgb_frames, rgb_of

PACKAGED_NAME = "libranet"


class Restorer(Protocol):
    """A dehazing method that works through a clip."""

    name: str
    """What reports call it."""
    fingerprint: str
    """Changes when the method or its weights do, so that old results are not taken for new ones."""
    sees: Literal["hazy", "clear"]
    """Which frames it gets: `clear` only for the oracle."""

    def begin(self, rate: float | None) -> None:
        """Get ready for a clip of so many frames per second; None where they are not known."""
        ...

    def push(
        self,
        frame: Tensor,  # [3, H, W] in [0, 1], 8-bit values
    ) -> list[Tensor]:  # [3, H, W] in [0, 1] each
        """Take the next frame of the clip and return those that became ready."""
        ...

    def flush(self) -> list[Tensor]:
        """Return the frames still waiting. The next frame begins a new clip."""
        ...


class TruthRestorer:
    """The ground truth itself: the oracle row of metrics without reference."""

    name = "truth"
    fingerprint = "truth"
    sees: Literal["hazy", "clear"] = "clear"

    def begin(self, rate: float | None) -> None:
        """Do nothing: frames do not depend on each other."""

    def push(self, frame: Tensor) -> list[Tensor]:
        """Return the frame as it is."""
        return [frame]

    def flush(self) -> list[Tensor]:
        """Return nothing: no frame waits."""
        return []


class NetworkRestorer:
    """A network, ours or a peer, with full look-ahead: on a GPU by the product's backend, on a CPU by the plain one.

    Our network's grids are filtered over time, as `libranet dehaze` does it; `steady=0` switches that off.
    """

    sees: Literal["hazy", "clear"] = "hazy"

    def __init__(self, network: Network, name: str, fingerprint: str, *, steady: float = 1.0) -> None:
        self.network = network
        self.name = name
        self.fingerprint = fingerprint
        self._filter = GridFilter(steady)
        self._backend = make_backend(network, grid_filter=self._filter, backend="plain")

    @property
    def has_weights(self) -> bool:
        """False for methods such as the dark channel prior."""
        return next(self.network.parameters(), None) is not None

    def begin(self, rate: float | None) -> None:
        """Filter by the clip's rate. Frames pushed without this count as 25 per second."""
        grid_filter = GridFilter(self._filter.seconds) if rate is None else GridFilter(self._filter.seconds, rate)
        if grid_filter != self._filter:
            self._filter = grid_filter
            self._backend = make_backend(self.network, grid_filter=grid_filter, backend="plain")

    def push(self, frame: Tensor) -> list[Tensor]:
        """Push the frame through the backend."""
        return [rgb_of(restored) for restored in self._backend.push(rgb_frames(frame[None]))]

    def flush(self) -> list[Tensor]:
        """Drain the backend."""
        return [rgb_of(restored) for restored in self._backend.flush()]


def open_restorer(spec: str, *, device: str = "cpu", precision: Precision = "auto", steady: float = 1.0) -> Restorer:
    """Open a model by its name or by a checkpoint's path.

    Args:
        spec: `truth`, `libranet` (the package's default weights), `base`, `small`, the name of a peer, or a path;
            `NAME=` may stand before it.
        device: Where a network computes, as `libranet.device.pick_device` takes it.
        precision: What it computes in, as `libranet.device.pick_dtype` takes it.
        steady: Seconds over which our network's colours are kept steady; 0 restores every frame on its own.

    Raises:
        InputError: There is no such model, or it needs weights.
        CheckpointError: The file is no checkpoint of ours.
    """
    name, equals, rest = spec.partition("=")
    if not equals:
        name, rest = "", spec
    if rest == "truth":
        return TruthRestorer()
    ours = rest in (PACKAGED_NAME, *PACKAGED)
    peer = not ours and not Path(rest).exists() and is_peer(rest)
    if not ours and not peer and not Path(rest).exists():
        peer_names = lab("peers.table").peer_names
        names = ", ".join((PACKAGED_NAME, *PACKAGED))
        raise InputError(f"expected a model: truth, {names}, {peer_names()} or the path of a checkpoint, got {rest!r}")
    network = load_network(rest, device=device, precision=precision)
    path = Path(rest) if peer else find_checkpoint(None if rest == PACKAGED_NAME else rest)
    fingerprint = f"{rest} {network.weights.version}" if peer else _digest(path)
    if network.dtype != torch.float32:
        fingerprint += f" {network.dtype}"
    if isinstance(network, LiBrANet):
        fingerprint += f" steady {steady:g}"
    return NetworkRestorer(network, name or (rest if ours or peer else path.stem), fingerprint, steady=steady)


def open_restorers(
    specs: list[str], *, device: str = "cpu", precision: Precision = "auto", steady: float = 1.0
) -> list[Restorer]:
    """Open several models and check that their names differ and can be file names.

    Raises:
        InputError: A model does not exist, or a name is taken or unfit.
    """
    restorers = [open_restorer(spec, device=device, precision=precision, steady=steady) for spec in specs]
    names = [restorer.name for restorer in restorers]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two models are called {name!r}: give one another name as NAME=PATH")
        if not name.replace("-", "").replace("_", "").replace(".", "").isalnum() or name.startswith("."):
            raise InputError(f"expected a model name of letters, digits, '-', '_' and '.', got {name!r}")
    return restorers


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

"""The models that an evaluation runs, behind one small interface: the frames of a clip in, restored frames out."""

import hashlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from libranet.device import Precision
from libranet.engine.frame_sources import FrameSource, NetworkRun
from libranet.errors import InputError
from libranet.evaluation.clips import EvalFrame, to_rgb
from libranet.extension import is_own, lab
from libranet.frames import Frames
from libranet.network import LiBrANet, Network
from libranet.network.checkpoint import PACKAGED, find_checkpoint, packaged_name
from libranet.runtime import is_peer, load_network

PACKAGED_NAME = "libranet"
TRUTH = "truth"
"""The ground truth as a model: the reference of metrics that look at one side only. Its fidelity says nothing."""


class Restorer(Protocol):
    """A dehazing method that works through a clip."""

    name: str
    """What reports call it."""
    fingerprint: str
    """Changes when the method or its weights do, so that old results are not taken for new ones."""

    @property
    def backend(self) -> str:
        """What computed the last clip; empty where nothing was computed."""
        ...

    def restore(self, source: FrameSource, frames: Iterator[EvalFrame]) -> Iterator[Tensor]:  # [3, H, W], 8-bit values
        """Restore the frames of a clip in order, which `source` reads."""
        ...


class TruthRestorer:
    """The ground truth itself: the oracle row of metrics without reference."""

    name = TRUTH
    fingerprint = TRUTH
    backend = ""

    def restore(self, source: FrameSource, frames: Iterator[EvalFrame]) -> Iterator[Tensor]:
        for frame in frames:
            if frame.clear is None:
                raise InputError(f"the model {self.name} needs ground truth, and the set has none")
            yield frame.clear


class NetworkRestorer:
    """A network, ours or a peer, that restores a file as `libranet dehaze` does: same samples, shots and backend."""

    def __init__(
        self, network: Network, name: str, fingerprint: str, *, steady: float | None = None, backend: str = "auto"
    ) -> None:
        self.network = network
        self.name = name
        self.fingerprint = fingerprint
        self._run = NetworkRun(network, steady, backend)

    @property
    def backend(self) -> str:
        return self._run.backend_name

    @property
    def has_weights(self) -> bool:
        """False for methods such as the dark channel prior."""
        return next(self.network.parameters(), None) is not None

    def restore(self, source: FrameSource, frames: Iterator[EvalFrame]) -> Iterator[Tensor]:
        """Restore the frames in their file's own samples, then convert them."""
        for samples in self.restore_samples(source, frames):
            yield to_rgb(samples, self.network.device)

    def restore_samples(self, source: FrameSource, frames: Iterator[EvalFrame]) -> Iterator[Frames]:
        return source.restore((frame.given for frame in frames), self._run)


def open_restorer(
    spec: str,
    *,
    device: str = "cpu",
    precision: Precision = "auto",
    steady: float | None = None,
    backend: str = "auto",
    dense_fog: bool = True,
) -> Restorer:
    """Open a model by its name or by a checkpoint's path.

    Args:
        spec: `truth`, `libranet` (the package's default weights), `libranet-small`, the name of a peer, a path, or a
            user's own `package.module:Class`, with `@PATH` for its weights; `NAME=` may stand before it.
        device: Where a network computes, as `libranet.device.pick_device` takes it.
        precision: What it computes in, as `libranet.device.pick_dtype` takes it.
        steady: Seconds over which our network's colours are kept steady; None as `libranet dehaze` does without the
            option, 0 restores every frame on its own.
        backend: What computes our network on a CPU, as `libranet dehaze` takes it.
        dense_fog: Clear what our network leaves of dense fog, as `libranet dehaze` does.

    Raises:
        InputError: There is no such model, or it needs weights.
        CheckpointError: The file is no checkpoint of ours.
    """
    name, equals, rest = spec.partition("=")
    if not equals:
        name, rest = "", spec
    if rest == TRUTH:
        return TruthRestorer()
    code, _, weights = rest.partition("@")
    if is_own(code):
        network = load_network(code, weights=weights or None, device=device, precision=precision)
        name, fingerprint = name or code.partition(":")[2], f"{rest} {_own_fingerprint(code, network)}"
    else:
        network, called, fingerprint = _open_known(rest, device=device, precision=precision, dense_fog=dense_fog)
        name = name or called
    if network.dtype != torch.float32:
        fingerprint += f" {network.dtype}"
    if isinstance(network, LiBrANet):
        fingerprint += " dense fog" if network.config.dense_fog else ""
        fingerprint += f" steady {'shots' if steady is None else format(steady, 'g')} backend {backend}"
    return NetworkRestorer(network, name, fingerprint, steady=steady, backend=backend)


def _open_known(spec: str, *, device: str, precision: Precision, dense_fog: bool) -> tuple[Network, str, str]:
    """A network of the package, a peer, or one from a checkpoint, with its name and its fingerprint."""
    ours = packaged_name(spec) is not None
    peer = not ours and not Path(spec).exists() and is_peer(spec)
    if not ours and not peer and not Path(spec).exists():
        names = ", ".join((PACKAGED_NAME, *PACKAGED, lab("peers.table").peer_names()))
        raise InputError(
            f"expected a model: truth, {names}, package.module:Class or the path of a checkpoint, got {spec!r}"
        )
    network = load_network(spec, device=device, precision=precision, dense_fog=dense_fog)
    if peer:
        return network, spec, f"{spec} {network.weights.version}"
    path = find_checkpoint(spec)
    return network, spec if ours else path.stem, hashlib.sha256(path.read_bytes()).hexdigest()


def _own_fingerprint(code: str, network: Network) -> str:
    """Changes with the file of a user's code, and with the weights."""
    digest = hashlib.sha256(Path(str(sys.modules[code.partition(":")[0]].__file__)).read_bytes())
    for tensor in network.state_dict().values():
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def open_restorers(specs: list[str], *, restored: Sequence[Restorer] = (), **options: Any) -> list[Restorer]:
    """Open several models and check that their names differ and can be file names. Options are `open_restorer`'s."""
    restorers = [*restored, *(open_restorer(spec, **options) for spec in specs)]
    names = [restorer.name for restorer in restorers]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two models are called {name!r}: give one another name as NAME=PATH")
        if not name.replace("-", "").replace("_", "").replace(".", "").isalnum() or name.startswith("."):
            raise InputError(f"expected a model name of letters, digits, '-', '_' and '.', got {name!r}")
    return restorers

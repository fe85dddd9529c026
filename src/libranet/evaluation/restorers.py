"""The models an evaluation runs, behind one small interface: a frame in, perhaps a restored frame out, in order."""

import hashlib
from pathlib import Path
from typing import Literal, Protocol

import torch
from torch import Tensor

from libranet.baselines.dcp import DarkChannelConfig, dark_channel_dehaze
from libranet.baselines.identity import identity
from libranet.errors import InputError
from libranet.models import LiBrANet, StreamState, load_model, packaged_weights, start_stream, stream_step

PACKAGED_NAME = "libranet"


class Restorer(Protocol):
    """A dehazing method that works through a clip."""

    name: str
    """What reports call it."""
    fingerprint: str
    """Changes when the method or its weights do, so that old results are not taken for new ones."""
    sees: Literal["hazy", "clear"]
    """Which frames it is given: `clear` only for the oracle."""

    def begin(self) -> None:
        """Forget the clip before."""
        ...

    def step(
        self,
        frame: Tensor | None,  # [3, H, W] in [0, 1]; None asks for the frames still inside
    ) -> Tensor | None:  # [3, H, W] in [0, 1]
        """Take the next frame of the clip and give the oldest one that is ready. None after None: nothing is left."""
        ...


class IdentityRestorer:
    """No dehazing."""

    name = "identity"
    fingerprint = "identity"
    sees: Literal["hazy", "clear"] = "hazy"

    def begin(self) -> None:
        """Nothing to forget."""

    def step(self, frame: Tensor | None) -> Tensor | None:
        """Hand the frame through."""
        return None if frame is None else identity(frame)


class TruthRestorer(IdentityRestorer):
    """The ground truth itself: the oracle row of measures that need no reference."""

    name = "truth"
    fingerprint = "truth"
    sees: Literal["hazy", "clear"] = "clear"


class DarkChannelRestorer:
    """The dark channel prior, per frame."""

    sees: Literal["hazy", "clear"] = "hazy"

    def __init__(self, config: DarkChannelConfig | None = None) -> None:
        self.config = config or DarkChannelConfig()
        self.name = "dcp"
        self.fingerprint = repr(self.config)
        self._airlight: Tensor | None = None

    def begin(self) -> None:
        """Forget the airlight."""
        self._airlight = None

    def step(self, frame: Tensor | None) -> Tensor | None:
        """Dehaze one frame."""
        if frame is None:
            return None
        restored, self._airlight = dark_channel_dehaze(frame, self.config, previous_airlight=self._airlight)
        return restored


class LiBrANetRestorer:
    """Our network as a stream with full look-ahead, which gives exactly what the windowed network gives."""

    sees: Literal["hazy", "clear"] = "hazy"

    def __init__(self, model: LiBrANet, name: str, fingerprint: str) -> None:
        self.model = model
        self.name = name
        self.fingerprint = fingerprint
        self._state: StreamState = start_stream(model)

    def begin(self) -> None:
        """Start a new stream."""
        self._state = start_stream(self.model)

    def step(self, frame: Tensor | None) -> Tensor | None:
        """One step of the stream, or one step of draining it."""
        if frame is None and not self._state.waiting:
            return None
        restored, self._state = stream_step(self.model, None if frame is None else frame[None], self._state)
        return None if restored is None else restored[0]


def open_restorer(spec: str, *, device: str | torch.device = "cpu") -> Restorer:
    """`identity`, `dcp`, `truth`, `libranet` (the package's weights) or a checkpoint's path, `NAME=` before it."""
    name, equals, rest = spec.partition("=")
    if not equals:
        name, rest = "", spec
    if rest == "identity":
        return IdentityRestorer()
    if rest == "truth":
        return TruthRestorer()
    if rest == "dcp":
        return DarkChannelRestorer()
    path = packaged_weights() if rest == PACKAGED_NAME else Path(rest)
    if rest != PACKAGED_NAME and not path.exists():
        raise InputError(
            f"expected a model: identity, dcp, truth, {PACKAGED_NAME} or the path of a checkpoint, got {rest!r}"
        )
    model = load_model(None if rest == PACKAGED_NAME else path, device=device)
    return LiBrANetRestorer(model, name or (PACKAGED_NAME if rest == PACKAGED_NAME else path.stem), _digest(path))


def open_restorers(specs: list[str], *, device: str | torch.device = "cpu") -> list[Restorer]:
    """Several models with different names."""
    restorers = [open_restorer(spec, device=device) for spec in specs]
    names = [restorer.name for restorer in restorers]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two models are called {name!r}: give one another name as NAME=PATH")
        if not name.replace("-", "").replace("_", "").replace(".", "").isalnum() or name.startswith("."):
            raise InputError(f"expected a model name of letters, digits, '-', '_' and '.', got {name!r}")
    return restorers


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()

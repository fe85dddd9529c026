"""One safetensors file per model: weights, configuration, provenance and a format version."""

import dataclasses
import json
from importlib import resources
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from libranet.atomic import atomic_file
from libranet.errors import CheckpointError, InputError
from libranet.kernels.native.library import torch_threads
from libranet.network.base import Network, WeightsInfo
from libranet.network.config import LiBrANetConfig
from libranet.network.libranet import LiBrANet

FORMAT = "libranet-checkpoint"
FORMAT_VERSION = 1
PACKAGED = ("base", "small")  # the networks of the package by name; the first is the default


@dataclasses.dataclass(frozen=True)
class CheckpointHeader:
    """What a checkpoint of any network says about itself, read without its weights."""

    architecture: str  # which network: `libranet`, or the name of a peer in `libranet.lab.peers`
    settings: dict[str, Any]  # the network's configuration as it was stored
    provenance: dict[str, Any]  # how the weights came to be: recipe, data, steps, metrics, warnings
    format_version: int
    name: str  # the weights' name; a file without one is called by its own name
    version: str  # the weights' version, or `unversioned`

    @property
    def weights(self) -> WeightsInfo:
        return WeightsInfo(self.name, self.version)


@dataclasses.dataclass(frozen=True)
class CheckpointInfo(CheckpointHeader):
    """The header of a checkpoint of LiBrA-Net."""

    config: LiBrANetConfig  # the network the weights belong to


def packaged_weights(name: str = PACKAGED[0]) -> Path:
    """Return the path of weights that come with the package."""
    return Path(str(resources.files("libranet") / "weights" / f"libranet-{name}.safetensors"))


def packaged_name(model: str | Path | None) -> str | None:
    """Return which of `PACKAGED` a user means by None, `libranet`, `small` or `libranet-small`; None for all others."""
    name = PACKAGED[0] if model is None else str(model).removeprefix("libranet-")
    name = PACKAGED[0] if name == LiBrANet.architecture else name
    return name if name in PACKAGED else None


def find_checkpoint(path: str | Path | None) -> Path:
    """Return the file that a user means: a path, the name of packaged weights, or None for the default ones."""
    name = packaged_name(path)
    if name is None:
        return Path(str(path))
    # The default has no argument, so that a test may put another file in its place.
    file = packaged_weights() if name == PACKAGED[0] else packaged_weights(name)
    if not file.is_file():
        raise CheckpointError(f"the package has no weights at {file}: give the path of a checkpoint instead")
    return file


def save_checkpoint(
    model: Network,
    path: str | Path,
    *,
    provenance: dict[str, Any] | None = None,
    dtype: torch.dtype | None = None,
    name: str | None = None,
    version: str | None = None,
) -> None:
    """Write the model to one file, which appears under its name only when whole.

    Args:
        path: The file; its folder is made if need be.
        provenance: How the weights came to be; anything that JSON can hold.
        dtype: Convert the weights to this precision.
        name: What reports call these weights; without it, the file's name.
    """
    config = model.config
    metadata = {
        "format": FORMAT,
        "format_version": str(FORMAT_VERSION),
        "architecture": model.architecture,
        "config": json.dumps(config.stored() if isinstance(config, LiBrANetConfig) else dataclasses.asdict(config)),
        "provenance": json.dumps(provenance or {}),
    }
    metadata |= {key: value for key, value in (("name", name), ("version", version)) if value}
    tensors = {
        name: tensor.detach().to("cpu", _float_dtype(tensor, dtype)).contiguous()
        for name, tensor in model.state_dict().items()
    }
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as temporary:
        safetensors.torch.save_file(tensors, temporary, metadata=metadata)


def load_model(
    path: str | Path | None = None,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
) -> LiBrANet:
    """Build the network from one checkpoint, ready for inference; `model.weights` says which weights it has.

    Args:
        path: A checkpoint of ours, `libranet-base` or `libranet-small`; without it, the default weights of the package.
        device: Where the network computes.
        dtype: The precision it computes in.

    Raises:
        CheckpointError: The file is missing, damaged, of another kind, or does not fit the network.
    """
    path = find_checkpoint(path)
    info = read_checkpoint_info(path)
    _check_size(path, info.config)
    # Not on the meta device: random numbers there make torch import its compiler, which takes seconds.
    with torch.random.fork_rng(devices=[]):
        model = LiBrANet(info.config)
    assign_weights(model, path, dtype=dtype)
    model.weights = info.weights
    return model.to(device).eval()


def assign_weights(model: Network, path: Path, *, dtype: torch.dtype) -> None:
    """Put the tensors of a checkpoint in the place of the network's."""
    state = _read_tensors(path)
    _check_state(path, model, state)
    with torch_threads():
        state = {name: t.to(_float_dtype(t, dtype)) for name, t in state.items()}
    model.load_state_dict(state, assign=True)


def read_checkpoint_info(path: str | Path) -> CheckpointInfo:
    """Read what the header of a checkpoint of LiBrA-Net says, without its tensors.

    Raises:
        CheckpointError: The file is missing, damaged or of another kind or network.
    """
    header = read_header(path)
    if header.architecture != LiBrANet.architecture:
        raise CheckpointError(
            f"{path} holds the weights of {header.architecture}, not of LiBrA-Net: name the network, "
            f"for example with --model {header.architecture} --weights {path}"
        )
    return CheckpointInfo(**vars(header), config=_parse_config(Path(path), header.settings))


def read_header(path: str | Path) -> CheckpointHeader:
    """Read what the header of any network's checkpoint says, without its tensors."""
    path = Path(path)
    _refuse_other_formats(path)
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
    except safetensors.SafetensorError as error:
        raise CheckpointError(
            f"{path} is damaged or not a safetensors file ({error}): download or copy it again"
        ) from None
    if metadata.get("format") != FORMAT:
        raise CheckpointError(f"{path} is a safetensors file, but not a LiBrA-Net checkpoint: it has no configuration")
    try:
        version = int(metadata["format_version"])
        raw_config, provenance = json.loads(metadata["config"]), json.loads(metadata["provenance"])
        if not (isinstance(raw_config, dict) and isinstance(provenance, dict)):
            raise ValueError("its configuration is no table")
    except (KeyError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} has a damaged header ({error}): download or copy it again") from None
    if version > FORMAT_VERSION:
        raise CheckpointError(
            f"{path} has format version {version}, this libranet reads up to {FORMAT_VERSION}: update libranet"
        )
    return CheckpointHeader(
        architecture=metadata.get("architecture", LiBrANet.architecture),  # files of 0.2 and before do not say
        settings=raw_config,
        provenance=provenance,
        format_version=version,
        name=metadata.get("name", path.stem),
        version=metadata.get("version", WeightsInfo().version),
    )


def _parse_config(path: Path, raw: dict[str, Any]) -> LiBrANetConfig:
    if unknown := sorted(set(raw) - LiBrANetConfig().stored().keys()):
        raise CheckpointError(
            f"{path} has settings this libranet does not know ({', '.join(unknown)}): update libranet"
        )
    try:
        return LiBrANetConfig.from_stored(raw)
    except (InputError, TypeError) as error:
        raise CheckpointError(f"{path} has an unusable configuration: {error}") from None


def _refuse_other_formats(path: Path) -> None:
    if not path.exists():
        names = " or ".join(f"libranet-{name}" for name in PACKAGED)
        raise CheckpointError(f"no checkpoint at {path}: check the path, or use {names}")
    if path.is_dir():
        raise CheckpointError(f"{path} is a folder: give the .safetensors file inside it")
    with path.open("rb") as file:
        start = file.read(4)
    if not start:
        raise CheckpointError(f"{path} is empty (0 bytes): download or copy it again")
    if start[:2] in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"):
        raise CheckpointError(
            f"{path} is a pickled file, which can run code when loaded, and is refused: use a .safetensors checkpoint"
        )


def _check_size(path: Path, config: LiBrANetConfig) -> None:
    """Refuse a configuration that the file cannot fill before a network of its size is built."""
    # Every weight takes a byte at least.
    if config.least_weights > (size := path.stat().st_size):
        raise CheckpointError(
            f"{path} does not fit its own configuration: that needs more than {config.least_weights} weights, and the "
            f"file has {size} bytes"
        )


def _read_tensors(path: Path) -> dict[str, torch.Tensor]:
    try:
        return safetensors.torch.load_file(path)
    except safetensors.SafetensorError as error:
        raise CheckpointError(f"{path} is damaged ({error}): download or copy it again") from None


def _check_state(path: Path, model: Network, state: dict[str, torch.Tensor]) -> None:
    expected = model.state_dict()
    missing, extra = sorted(expected.keys() - state.keys()), sorted(state.keys() - expected.keys())
    both = expected.keys() & state.keys()
    shapes = [name for name in both if expected[name].shape != state[name].shape]
    kinds = [name for name in both if expected[name].is_floating_point() != state[name].is_floating_point()]
    for what, names in (
        ("lacks", missing),
        ("has unknown", extra),
        ("has misshapen", sorted(shapes)),
        ("has mistyped", sorted(kinds)),
    ):
        if names:
            raise CheckpointError(
                f"{path} does not fit its own configuration: it {what} {names[0]} and {len(names) - 1} more tensors"
            )


def _float_dtype(tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.dtype:
    """The precision to bring a tensor to; counters stay integers."""
    return dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype

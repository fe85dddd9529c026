"""Weights that makers published, put into our builds of their networks: by names that are known, given, or proven.

A tensor in the wrong place makes a network that runs and is wrong, so nothing is guessed: names have to be mapped, or
the converted network has to reproduce a result of the original one.
"""

import hashlib
import re
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from libranet.errors import CheckpointError, InputError
from libranet.images import read_image
from libranet.lab.peers.table import find_peer
from libranet.network import Network, save_checkpoint

SAME_SAMPLES = 0.98
"""Share of samples that a converted network must have in common with a result of the original one, to the bit."""
_CONTAINERS = ("params_ema", "ema", "state_dict", "model", "params", "net", "network", "generator")
"""Under which names files keep their tensors; the first that is there is taken."""
_PREFIXES = ("module.", "_orig_mod.", "model.", "net.", "generator.")


@dataclass(frozen=True)
class KeyMap:
    """How the names in a file become ours: patterns in order, the first that matches a whole name decides."""

    names: Mapping[str, str]
    ignored: tuple[str, ...] = (r".*\.num_batches_tracked",)
    """Names in the file that no network needs."""

    def translate(self, name: str) -> str | None:
        """Our name for one of the file's; None where it is not needed."""
        if any(re.fullmatch(pattern, name) for pattern in self.ignored):
            return None
        for pattern, ours in self.names.items():
            if match := re.fullmatch(pattern, name):
                return match.expand(ours)
        raise CheckpointError(
            f"no rule of the key map matches {name!r}: is this the network's own file? --keys MAP.toml adds rules, or "
            "names to ignore"
        )


def _numbered(rules: Mapping[str, str]) -> dict[str, str]:
    """Rules for each of many layers, where `#` stands for the number: the files count from one, ours from zero."""
    return {
        pattern.replace("#", str(n)): ours.replace("#", str(n - 1))
        for pattern, ours in rules.items()
        for n in range(1, 6)
    }


_DEHAZEFORMER = KeyMap(
    _numbered(
        {
            r"patch_embed\.proj\.(.*)": r"embed.\1",
            r"patch_unembed\.proj\.(.*)": r"out.\1",
            r"patch_merge#\.proj\.(.*)": r"merges.#.\1",
            r"patch_split#\.proj\.0\.(.*)": r"splits.#.0.\1",
            r"skip2\.(.*)": r"skips.0.\1",  # the decoder meets the coarse skip first
            r"skip1\.(.*)": r"skips.1.\1",
            r"fusion#\.mlp\.0\.(.*)": r"fusions.#.weigh.1.\1",
            r"fusion#\.mlp\.2\.(.*)": r"fusions.#.weigh.3.\1",
            r"layer#\.blocks\.(\d+)\.norm1\.weight": r"stages.#.\1.norm.gamma",
            r"layer#\.blocks\.(\d+)\.norm1\.bias": r"stages.#.\1.norm.beta",
            r"layer#\.blocks\.(\d+)\.norm1\.meta1\.(.*)": r"stages.#.\1.norm.scale.\2",
            r"layer#\.blocks\.(\d+)\.norm1\.meta2\.(.*)": r"stages.#.\1.norm.shift.\2",
            r"layer#\.blocks\.(\d+)\.attn\.conv\.(.*)": r"stages.#.\1.mix.local.\2",
            r"layer#\.blocks\.(\d+)\.attn\.V\.(.*)": r"stages.#.\1.mix.value.\2",
            r"layer#\.blocks\.(\d+)\.attn\.proj\.(.*)": r"stages.#.\1.mix.project.\2",
            r"layer#\.blocks\.(\d+)\.attn\.QK\.(.*)": r"stages.#.\1.mix.query_key.\2",
            r"layer#\.blocks\.(\d+)\.attn\.attn\.meta\.(.*)": r"stages.#.\1.mix.position.\2",
            r"layer#\.blocks\.(\d+)\.mlp\.mlp\.(.*)": r"stages.#.\1.mlp.\2",
        }
    ),
    ignored=(r".*relative_positions",),
)
_FFA_NET = KeyMap(
    _numbered(
        {
            r"pre\.0\.(.*)": r"embed.\1",
            r"g#\.gp\.(\d+)\.conv1\.(.*)": r"groups.#.\1.first.\2",
            r"g#\.gp\.(\d+)\.conv2\.(.*)": r"groups.#.\1.second.\2",
            r"g#\.gp\.(\d+)\.calayer\.ca\.0\.(.*)": r"groups.#.\1.channels.1.\2",
            r"g#\.gp\.(\d+)\.calayer\.ca\.2\.(.*)": r"groups.#.\1.channels.3.\2",
            r"g#\.gp\.(\d+)\.palayer\.pa\.(.*)": r"groups.#.\1.pixels.\2",
            r"g#\.gp\.(\d+)\.(weight|bias)": r"groups.#.\1.\2",
            r"ca\.(.*)": r"fusion.\1",
            r"palayer\.pa\.(.*)": r"pixels.\1",
            r"post\.(.*)": r"tail.\1",
        }
    ),
    ignored=(r"g\d\.(la\.gamma|last\..*)",),  # left over from an experiment of its makers
)
KEY_MAPS = {
    "ffa-net": _FFA_NET,
    "dehazeformer-t": _DEHAZEFORMER,
    "dehazeformer-s": _DEHAZEFORMER,
    "dehazeformer-b": _DEHAZEFORMER,
}
"""Networks whose published names are known."""


def convert_weights(
    source: Path,
    target: str,
    output: Path,
    *,
    keys: Path | None = None,
    check: tuple[Path, Path] | None = None,
) -> str:
    """Write a checkpoint of ours from published weights.

    Args:
        source: What the makers published: .pth, .pk, .safetensors.
        target: A peer, or a user's own network as `package.module:Class`.
        keys: A TOML file with a key map: a table [keys] of patterns and our names, and a list `ignore`.
        check: A hazy image and what the original network made of it.
    """
    if output.exists():
        raise InputError(f"{output} exists: choose another name, or delete it")
    entry = find_peer(target)
    if not entry.trainable:
        what = "comes with its makers' weights" if entry.published else "has no weights"
        raise InputError(f"{target} {what}: there is nothing to convert")
    network = entry.build()
    found, where = read_published(source)
    rules = _read_map(keys) if keys is not None else KEY_MAPS.get(target)
    if rules is None and not found.keys() ^ network.state_dict().keys():
        rules = KeyMap({r"(.*)": r"\1"}, ignored=())
    how = "by names"
    if rules is not None:
        state = _by_names(source, found, network, rules)
    elif check is not None:
        state, how = _by_order(source, found, network), "by shapes in their order"
    else:
        raise InputError(
            f"the names in {source} are unknown for {target}: give --keys MAP.toml, or --check HAZY RESULT, an "
            "image and the original network's result, to prove a match by shapes and order"
        )
    network.load_state_dict(state)
    proof = "" if check is None else _prove(network.eval(), *check)
    provenance = {
        "converted_from": source.name,
        "sha256": hashlib.sha256(source.read_bytes()).hexdigest(),
        "tensors": where,
        "matched": how,
        "proof": proof or "none",
    }
    save_checkpoint(network, output, provenance=provenance, name=f"{target.rpartition(':')[2]}, {source.stem}")
    return f"{output}: {len(state)} tensors of {target}, matched {how}{f'; {proof}' if proof else ''}"


def read_published(path: Path) -> tuple[dict[str, Tensor], str]:
    """Read the tensors of a published file by their names without the prefixes of wrappers, and say where they were."""
    if not path.is_file():
        raise CheckpointError(f"no weights at {path}: check the path")
    try:
        if path.suffix == ".safetensors":
            content: Any = safetensors.torch.load_file(path)
        else:
            # Makers store their scores beside the weights, as numbers of numpy.
            scalar = getattr(np, "_core", None) or np.core  # type: ignore[attr-defined]
            allowed: list[Any] = [scalar.multiarray.scalar, np.dtype, *{type(np.dtype(t)) for t in "fdilq"}]
            with torch.serialization.safe_globals(allowed):
                content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch, pickle and safetensors raise classes that share no base
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise CheckpointError(f"{path} is damaged or holds more than tensors, and is refused ({reason})") from None
    where = "top"
    while isinstance(content, dict) and not any(isinstance(value, Tensor) for value in content.values()):
        inner = next((key for key in _CONTAINERS if isinstance(content.get(key), dict)), None)
        if inner is None:
            break
        content, where = content[inner], inner
    tensors = {k: v for k, v in content.items() if isinstance(v, Tensor)} if isinstance(content, dict) else {}
    if not tensors:
        raise CheckpointError(f"expected a table of tensors in {path}, found none")
    while prefix := next((p for p in _PREFIXES if all(name.startswith(p) for name in tensors)), None):
        tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    return tensors, where


def _read_map(path: Path) -> KeyMap:
    try:
        content = tomllib.loads(path.read_text())
        names, ignored = content["keys"], content.get("ignore", [])
        return KeyMap({str(k): str(v) for k, v in names.items()}, tuple(map(str, ignored)))
    except FileNotFoundError:
        raise InputError(f"no key map at {path}: check the path") from None
    except (tomllib.TOMLDecodeError, KeyError, AttributeError, TypeError) as error:
        raise InputError(f"expected a TOML file with a table [keys] of patterns and names in {path}: {error}") from None


def _by_names(source: Path, found: dict[str, Tensor], network: Network, rules: KeyMap) -> dict[str, Tensor]:
    wanted = network.state_dict()
    state: dict[str, Tensor] = {}
    for name, tensor in found.items():
        ours = rules.translate(name)
        if ours is None:
            continue
        if ours not in wanted:
            raise CheckpointError(f"{source} has {name}, which would be {ours}, and {network.architecture} has no such")
        if ours in state:
            raise CheckpointError(f"two tensors of {source} would be {ours}, the second one {name}: mend the key map")
        state[ours] = _shaped(name, tensor, ours, wanted[ours])
    if missing := [name for name in wanted if name not in state]:
        raise CheckpointError(f"{source} has nothing for {missing[0]} and {len(missing) - 1} more of our tensors")
    return state


def _by_order(source: Path, found: dict[str, Tensor], network: Network) -> dict[str, Tensor]:
    """Match tensors of each shape in the order in which both networks have them."""
    theirs: dict[tuple[int, ...], list[Tensor]] = defaultdict(list)
    ours: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for tensor in found.values():
        theirs[_essential(tensor)].append(tensor)
    for name, tensor in network.state_dict().items():
        ours[_essential(tensor)].append(name)
    for shape, names in ours.items():
        if len(theirs[shape]) != len(names):
            raise CheckpointError(
                f"expected {len(names)} tensors of shape {shape} for {network.architecture}, {source} has "
                f"{len(theirs[shape])}: it is another network or another size of it"
            )
    wanted = network.state_dict()
    return {
        name: tensor.reshape(wanted[name].shape)
        for shape, names in ours.items()
        for name, tensor in zip(names, theirs[shape], strict=True)
    }


def _essential(tensor: Tensor) -> tuple[int, ...]:
    """A shape without its ones: [1, C, 1, 1] and [C] hold the same."""
    return tuple(side for side in tensor.shape if side != 1)


def _shaped(name: str, tensor: Tensor, ours: str, wanted: Tensor) -> Tensor:
    if _essential(tensor) != _essential(wanted):
        raise CheckpointError(f"{name} has the shape {tuple(tensor.shape)}, ours ({ours}) {tuple(wanted.shape)}")
    return tensor.reshape(wanted.shape).to(wanted.dtype)


@torch.no_grad()
def _prove(network: Network, hazy: Path, result: Path) -> str:
    """Compare the network's result with that of the original one."""
    given, expected = (_read_unit(path) for path in (hazy, result))
    if given.shape != expected.shape:
        sizes = f"{tuple(given.shape)} and {tuple(expected.shape)}"
        raise InputError(f"expected {hazy} and {result} of one size, got {sizes}")
    restored = network(given[None, None].repeat(1, network.config.window, 1, 1, 1))[0]
    peak = float(read_image(result).peak)
    stored = (expected * peak).round()
    # Programs round to the file's bits, or cut off.
    same = max(
        float((samples == stored).float().mean()) for samples in ((restored * peak).round(), restored * peak // 1)
    )
    changed = float(((given * peak).round() != stored).float().mean())
    if same < SAME_SAMPLES or changed < 0.5:
        raise InputError(
            f"{same:.1%} of the samples of {result} are what the converted network gives, and {changed:.1%} differ "
            f"from {hazy}; expected {SAME_SAMPLES:.0%} and half: the tensors are in the wrong places, it is another "
            "network, or the result is a JPEG"
        )
    return f"{same:.1%} of the samples are those of the original's result"


def _read_unit(path: Path) -> Tensor:  # [3, H, W] in [0, 1]
    image = read_image(path)
    return torch.from_numpy(image.rgb.astype(np.float32) / image.peak).permute(2, 0, 1)

"""The state of a run in one safetensors file: network, averaged network, optimiser, scaler, RNG, counters."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from libranet.atomic import atomic_file
from libranet.errors import CheckpointError, InputError
from libranet.network import Network
from libranet.training.config import TrainConfig

STATE_FILE = "state.safetensors"
FORMAT = "libranet-training-state"
FORMAT_VERSION = 3


@dataclass
class Progress:
    """Counters that survive a restart."""

    step: int = 0
    """Steps done."""
    bad_steps: int = 0
    """Steps skipped so far because their loss was not finite."""
    bad_in_a_row: int = 0
    best: float = float("-inf")
    """Best validation PSNR so far."""
    best_step: int = 0
    begin: int = 0
    """Step at which the current schedule of the learning rate began: the end of the run that was extended, or 0."""
    end: int = 0
    """Its last step."""


@dataclass(frozen=True)
class RunState:
    """Everything that a step changes, beside the counters and the random number generators."""

    config: TrainConfig
    model: Network
    ema: Network
    optimiser: torch.optim.Optimizer
    scaler: torch.amp.GradScaler

    def save(self, path: Path, progress: Progress) -> None:
        """Write everything the next step depends on; the file appears under its name only when complete."""
        tensors: dict[str, Tensor] = {f"model.{k}": v for k, v in self.model.state_dict().items()}
        tensors |= {f"ema.{k}": v for k, v in self.ema.state_dict().items()}
        for index, slots in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{index}.{k}": torch.as_tensor(v) for k, v in slots.items()}
        tensors["rng.cpu"] = torch.get_rng_state()
        if torch.cuda.is_available():
            tensors["rng.cuda"] = torch.cuda.get_rng_state()
        header = {
            "format": FORMAT,
            "format_version": str(FORMAT_VERSION),
            "progress": json.dumps(asdict(progress)),
            "scaler": json.dumps(self.scaler.state_dict()),
            "config": json.dumps(asdict(self.config)),
        }
        stored = {k: v.detach().cpu().contiguous() for k, v in tensors.items()}
        with atomic_file(path) as temporary:
            safetensors.torch.save_file(stored, temporary, header)

    def load(self, path: Path) -> Progress:
        """Go back to what `save` wrote, and return the counters."""
        header = _read_header(path)
        tensors = safetensors.torch.load_file(path)
        _check_same_run(path, json.loads(header["config"]), json.loads(json.dumps(asdict(self.config))))

        self.model.load_state_dict(_part(tensors, "model."))
        self.ema.load_state_dict(_part(tensors, "ema."))
        slots: dict[int, dict[str, Tensor]] = {}
        for name, tensor in _part(tensors, "optimiser.").items():
            index, _, key = name.partition(".")
            slots.setdefault(int(index), {})[key] = tensor
        groups = self.optimiser.state_dict()["param_groups"]
        self.optimiser.load_state_dict({"state": slots, "param_groups": groups})
        for parameter, values in self.optimiser.state.items():
            for key, value in values.items():
                if value.shape == parameter.shape:  # in the parameter's memory layout, which a file does not keep
                    values[key] = torch.empty_like(parameter).copy_(value)
        self.scaler.load_state_dict(json.loads(header["scaler"]))
        torch.set_rng_state(tensors["rng.cpu"])
        if torch.cuda.is_available() and "rng.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["rng.cuda"])
        return Progress(**json.loads(header["progress"]))


def check_folder(folder: Path, *, resume: bool) -> None:
    """Refuse to begin where a run is, and to resume where none is."""
    exists = (folder / STATE_FILE).is_file()
    if resume and not exists:
        raise InputError(f"nothing to resume: {folder} has no {STATE_FILE}")
    if exists and not resume:
        raise InputError(f"{folder} already holds a run: add --resume to go on, or choose another folder")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"expected a folder for the run, got the file {folder}")


def read_progress(path: Path) -> Progress:
    """How far a run has come, from its state."""
    return Progress(**json.loads(_read_header(path)["progress"]))


def _read_header(path: Path) -> dict[str, str]:
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
    except safetensors.SafetensorError as error:
        raise CheckpointError(f"{path} is damaged ({error}): delete it to begin anew") from None
    if header.get("format") != FORMAT:
        raise CheckpointError(f"{path} is not the state of a training run")
    if header.get("format_version") != str(FORMAT_VERSION):
        raise CheckpointError(
            f"{path} was written by another version of libranet, which drew other samples: "
            "begin anew in another folder, with init_from set to that run's model.safetensors"
        )
    return header


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _check_same_run(path: Path, old: dict[str, Any], new: dict[str, Any]) -> None:
    """Refuse to resume a run that would compute something else; how long it is and how often it logs may change."""
    free = {"name", "steps", "epochs", "every", "validation"}
    changed = sorted(key for key in old.keys() | new.keys() if key not in free and old.get(key) != new.get(key))
    if old["validation"]["held_out"] != new["validation"]["held_out"]:
        changed.append("validation.held_out")
    if changed:
        raise CheckpointError(
            f"{path} belongs to a run with other settings ({', '.join(changed)}): resume with the same recipe, "
            "or choose another output folder"
        )

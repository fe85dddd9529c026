"""What a study has done so far: one small JSON file per variant and seed, so that nothing is done twice."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from libranet.atomic import write_atomically
from libranet.errors import InputError

SETTINGS_FILE = "study.json"
RUNS_FOLDER = "runs"
WEIGHTS_FOLDER = "weights"


@dataclass(frozen=True)
class Run:
    """One variant with one seed: how its training went and what was measured."""

    variant: str
    seed: int
    steps: int
    samples: int
    seconds: float  # of training
    loss: float | None = None  # pixel loss, mean over the last tenth of the steps
    live_units: dict[str, float] = field(default_factory=dict)
    """Share of live hidden units in the head of each field, at the end."""
    sets: dict[str, dict[str, float]] = field(default_factory=dict)
    """Mean over the clips of each set, by metric."""
    changes: dict[str, str] = field(default_factory=dict)
    """In what the variant differed from the full recipe."""
    failure: str = ""  # why there are no results

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return bool(self.sets or self.failure)


class Records:
    """The folder of a study."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, settings: dict[str, Any]) -> None:
        """Check that an earlier part, if there is one, was done the same way."""
        path = self.folder / SETTINGS_FILE
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"expected a folder for the study, got the file {self.folder}")
        if not path.is_file():
            return
        try:
            earlier: dict[str, Any] = json.loads(path.read_text())
        except ValueError:
            raise InputError(f"{path} is damaged: use another folder for this study") from None
        for key, value in json.loads(json.dumps(settings)).items():
            if earlier.get(key) != value:
                raise InputError(f"{self.folder} has a study of other settings ({key}): choose another folder")

    def write_settings(self, settings: dict[str, Any]) -> None:
        self._write(self.folder / SETTINGS_FILE, settings)

    def find(self, variant: str, seed: int, changes: dict[str, str]) -> Run | None:
        """An earlier run of this very variant; None where there is none or its weights are gone unmeasured."""
        path = self._path(variant, seed)
        try:
            run = Run(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            return None
        if run.changes != changes:
            return None
        return run if run.done or self.weights(variant, seed).is_file() else None

    def save(self, run: Run) -> None:
        self._write(self._path(run.variant, run.seed), asdict(run))

    def weights(self, variant: str, seed: int) -> Path:
        return self.folder / WEIGHTS_FOLDER / f"{variant}-{seed}.safetensors"

    def _path(self, variant: str, seed: int) -> Path:
        return self.folder / RUNS_FOLDER / f"{variant}-{seed}.json"

    def _write(self, path: Path, content: dict[str, Any]) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"could not make the folder {path.parent}: {error.strerror or error}") from error
        write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())

"""A UHV-4K folder: dataset.json with the regime table and the split, and one folder per clip."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from libranet.data.clip import CLIP_FILE, MODALITIES, Clip, modality_file
from libranet.data.files import read_json, sha256, write_json
from libranet.errors import InputError

DATASET_FORMAT = "libranet-dataset"
DATASET_VERSION = 1
DATASET_FILE = "dataset.json"
CLIPS_FOLDER = "clips"

Split = Literal["train", "test", "all"]


@dataclass(frozen=True)
class DatasetInfo:
    """Everything dataset.json says."""

    generator: dict[str, Any]
    """The tool, its version and the options that change the result."""
    regimes: tuple[dict[str, Any], ...]
    """The haze regimes in use: name, beta, airlight."""
    split: dict[str, tuple[str, ...]]
    """Clip names by part: train and test."""
    flagged: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Clips that failed checks, with the checks' names; in neither part."""
    failures: dict[str, str] = field(default_factory=dict)
    """Sources that gave no clip, with the reason."""
    complete: bool = False
    """False while clips are still being made."""

    def save(self, folder: Path) -> None:
        """Write dataset.json."""
        content = {"format": DATASET_FORMAT, "version": DATASET_VERSION, **dataclasses.asdict(self)}
        write_json(folder / DATASET_FILE, content)

    @classmethod
    def load(cls, folder: Path) -> "DatasetInfo":
        """Read dataset.json."""
        path = folder / DATASET_FILE
        content = read_json(path)
        if content.pop("format", None) != DATASET_FORMAT or content.pop("version", None) != DATASET_VERSION:
            raise InputError(f"expected format {DATASET_FORMAT!r} version {DATASET_VERSION} in {path}")
        try:
            content["regimes"] = tuple(content["regimes"])
            content["split"] = {part: tuple(names) for part, names in content["split"].items()}
            content["flagged"] = {name: tuple(checks) for name, checks in content["flagged"].items()}
            return cls(**content)
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"expected the fields of a dataset in {path}: {error}") from error

    def names(self, split: Split, *, flagged: bool = False) -> tuple[str, ...]:
        """Clip names of a part, with the flagged ones only if asked."""
        parts = self.split.values() if split == "all" else [self.split[split]]
        names = [name for part in parts for name in part]
        return tuple(sorted(names + (list(self.flagged) if flagged else [])))


def open_clips(folder: str | Path, split: Split = "all", *, flagged: bool = False) -> list[Clip]:
    """Open the clips of one part of a UHV-4K folder."""
    folder = Path(folder)
    info = DatasetInfo.load(folder)
    return [Clip(folder / CLIPS_FOLDER / name) for name in info.names(split, flagged=flagged)]


def find_damage(folder: str | Path, name: str) -> list[str]:
    """Compare a clip's files with its clip.json: one sentence per missing, changed or unlisted file."""
    clip_folder = Path(folder) / CLIPS_FOLDER / name
    try:
        clip = Clip(clip_folder)
    except InputError as error:
        return [str(error)]
    expected = {modality_file(modality, index) for modality in MODALITIES for index in range(len(clip))}
    listed = set(clip.info.files)
    problems = [f"{clip_folder / CLIP_FILE} lists no checksum for {file}" for file in sorted(expected - listed)]
    problems += [f"{clip_folder / CLIP_FILE} lists {file}, which is no frame" for file in sorted(listed - expected)]
    for file in sorted(expected & listed):
        path = clip_folder / file
        if not path.is_file():
            problems.append(f"missing file: {path}")
        elif sha256(path) != clip.info.files[file]:
            problems.append(f"wrong checksum, the file was changed or cut: {path}")
    return problems

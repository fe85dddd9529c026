"""The UHV-4K folder: dataset.json with regimes and split, and per clip a folder of five aligned modalities."""

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from libranet.atomic import write_atomically
from libranet.data.frames import Box, FrameFiles, RgbImage
from libranet.data.maps import Map, read_map
from libranet.errors import InputError

CLIP_FORMAT, CLIP_VERSION = "libranet-clip", 1
DATASET_FORMAT, DATASET_VERSION = "libranet-dataset", 1
CLIP_FILE = "clip.json"
DATASET_FILE = "dataset.json"
CLIPS_FOLDER = "clips"
FRAME_MODALITIES = ("hazy", "clear")
MAP_MODALITIES = ("depth", "transmission", "flow")
MODALITIES = FRAME_MODALITIES + MAP_MODALITIES

Split = Literal["train", "test", "all"]


@dataclass(frozen=True)
class CheckResult:
    """The result of one of the five checks."""

    name: str
    value: float  # the measured value; NaN if the check could not be made
    threshold: float  # the largest value that passes
    passed: bool
    what: str  # a description of the value


@dataclass(frozen=True)
class ClipInfo:
    """The content of clip.json."""

    name: str
    source: dict[str, Any]
    """Kind, name, licence, and the frames or the seed."""
    width: int
    height: int
    frames: int
    fps: float
    regime: str
    beta: tuple[float, ...]
    """Scattering per unit of normalised depth: one value, or three if it depends on the wavelength."""
    airlight: tuple[float, float, float]
    noise: float
    """Standard deviation of the sensor noise on the hazy frames."""
    depth: dict[str, Any]
    """The estimator with its version, and how its values map to the range 0 near to 1 far."""
    flow: dict[str, Any]
    """The estimator with its version."""
    flow_frames: int
    """How many frames, from the first, have a flow. An estimated flow is missing for the last frame."""
    hazy_psnr: float
    """PSNR of the hazy frames against the clear ones in dB, averaged over the frames."""
    checks: tuple[CheckResult, ...]
    files: dict[str, str]
    """SHA-256 by path inside the clip's folder."""

    @property
    def accepted(self) -> bool:
        """Whether every check passed. Readers skip a clip that failed one, unless asked for it."""
        return all(check.passed for check in self.checks)

    def save(self, folder: Path) -> None:
        """Write clip.json."""
        write_json(folder / CLIP_FILE, {"format": CLIP_FORMAT, "version": CLIP_VERSION, **dataclasses.asdict(self)})

    @classmethod
    def load(cls, folder: Path) -> "ClipInfo":
        """Read clip.json."""
        with _fields_of("clip", folder / CLIP_FILE, CLIP_FORMAT, CLIP_VERSION) as content:
            checks = tuple(CheckResult(**check) for check in content["checks"])
            tuples = {name: tuple(content[name]) for name in ("beta", "airlight")}
            return cls(**content | tuples | {"checks": checks})


class Clip:
    """Reads a clip's frames and maps, whole or cropped."""

    def __init__(self, folder: str | Path, info: ClipInfo | None = None) -> None:
        """Open a clip. `info` replaces clip.json while a clip is still being made."""
        self.folder = Path(folder)
        self.info = info or ClipInfo.load(self.folder)

    def __len__(self) -> int:
        return self.info.frames

    def sequence(self, modality: str) -> FrameFiles:
        """Return the hazy or the clear frames in order."""
        if modality not in FRAME_MODALITIES:
            raise InputError(f"expected one of {FRAME_MODALITIES}, got {modality!r}")
        return FrameFiles(tuple(self.folder / modality_file(modality, i) for i in range(len(self))))

    def frame(self, modality: str, index: int, box: Box | None = None) -> RgbImage:  # [H, W, 3] RGB, 8 bit
        """Read one hazy or clear frame."""
        return self.sequence(modality).read(index, box)

    def map(self, modality: str, index: int, box: Box | None = None) -> Map:  # [C, H, W]
        """Read one depth, transmission or flow map."""
        if modality not in MAP_MODALITIES:
            raise InputError(f"expected one of {MAP_MODALITIES}, got {modality!r}")
        return read_map(self.folder / modality_file(modality, index), modality, box)

    def airlight(self) -> npt.NDArray[np.float32]:  # [3]
        """Return the colour of the haze."""
        return np.asarray(self.info.airlight, np.float32)


@dataclass(frozen=True)
class DatasetInfo:
    """The content of dataset.json."""

    generator: dict[str, Any]
    """The tool, its version and the options that change the result."""
    regimes: tuple[dict[str, Any], ...]
    """The haze regimes in use: name, beta, airlight."""
    split: dict[str, tuple[str, ...]]
    """Clip names by part: train and test."""
    flagged: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Clips that failed checks, with the names of those checks; they are in neither part."""
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
        with _fields_of("dataset", folder / DATASET_FILE, DATASET_FORMAT, DATASET_VERSION) as content:
            lists = {name: {k: tuple(v) for k, v in content[name].items()} for name in ("split", "flagged")}
            return cls(**content | lists | {"regimes": tuple(content["regimes"])})

    def names(self, split: Split, *, flagged: bool = False) -> tuple[str, ...]:
        """List the clips of a split, and the flagged ones only if asked.

        Raises:
            InputError: The set has no such split: its synthesis was stopped before the end.
        """
        if split != "all" and split not in self.split:
            raise InputError(
                f"expected a data set with the split {split!r}, got {sorted(self.split) or 'none'}: run "
                "`libranet synth` again to finish it"
            )
        parts = self.split.values() if split == "all" else [self.split[split]]
        names = [name for part in parts for name in part]
        return tuple(sorted(names + (list(self.flagged) if flagged else [])))


def open_clips(folder: str | Path, split: Split = "all", *, flagged: bool = False) -> list[Clip]:
    """Open the clips of one split of a UHV-4K folder."""
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


def modality_file(modality: str, index: int) -> str:
    return f"{modality}/{index:05d}.{'png' if modality in FRAME_MODALITIES else 'exr'}"


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write readable JSON atomically. The same content gives the same bytes."""
    write_atomically(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"expected the file {path}, which is missing") from error
    except (OSError, ValueError) as error:
        raise InputError(f"could not read {path}: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"expected a JSON object in {path}, got {type(content).__name__}")
    return content


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _fields_of(what: str, path: Path, kind: str, version: int) -> Iterator[dict[str, Any]]:
    """Read a versioned file; fields that do not fit are named."""
    content = read_json(path)
    if content.pop("format", None) != kind or content.pop("version", None) != version:
        raise InputError(f"expected format {kind!r} version {version} in {path}; made by another tool?")
    try:
        yield content
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"expected the fields of a {what} in {path}: {error}") from error

"""One clip of a UHV-4K folder: five aligned modalities per frame and a clip.json that says how they came to be."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from libranet.data.arrays import Image, Map
from libranet.data.files import read_json, write_json
from libranet.data.frames import Box, FrameFiles
from libranet.data.maps import read_map
from libranet.errors import InputError

CLIP_FORMAT = "libranet-clip"
CLIP_VERSION = 1
CLIP_FILE = "clip.json"
FRAME_MODALITIES = ("hazy", "clear")
MAP_MODALITIES = ("depth", "transmission", "flow")
MODALITIES = FRAME_MODALITIES + MAP_MODALITIES


@dataclass(frozen=True)
class CheckResult:
    """One of the five checks, with what was measured."""

    name: str
    value: float
    """The measured value; not a number where the check could not be made."""
    threshold: float
    """The largest value that passes."""
    passed: bool
    what: str
    """What the value is, in words."""


@dataclass(frozen=True)
class ClipInfo:
    """Everything clip.json says."""

    name: str
    source: dict[str, Any]
    """Kind, name, licence, and which frames or which seed."""
    width: int
    height: int
    frames: int
    fps: float
    regime: str
    beta: tuple[float, ...]
    """Scattering per unit of normalised depth: one value, or three where it depends on the colour."""
    airlight: tuple[float, float, float]
    noise: float
    """Standard deviation of the sensor noise added to the hazy frames."""
    depth: dict[str, Any]
    """The estimator with its version, and how its values became the range 0 near to 1 far."""
    flow: dict[str, Any]
    """The estimator with its version."""
    flow_frames: int
    """How many frames from the first on have a flow; the last frame has none where its successor is unknown."""
    hazy_psnr: float
    """PSNR of the hazy frames against the clear ones in dB, mean over the frames."""
    checks: tuple[CheckResult, ...]
    files: dict[str, str]
    """SHA-256 by path inside the clip's folder."""

    @property
    def accepted(self) -> bool:
        """Whether every check passed. A clip that failed one is flagged: readers leave it out unless asked."""
        return all(check.passed for check in self.checks)

    def save(self, folder: Path) -> None:
        """Write clip.json."""
        content = {"format": CLIP_FORMAT, "version": CLIP_VERSION, **dataclasses.asdict(self)}
        write_json(folder / CLIP_FILE, content)

    @classmethod
    def load(cls, folder: Path) -> "ClipInfo":
        """Read clip.json."""
        path = folder / CLIP_FILE
        content = read_json(path)
        if content.pop("format", None) != CLIP_FORMAT or content.pop("version", None) != CLIP_VERSION:
            raise InputError(f"expected format {CLIP_FORMAT!r} version {CLIP_VERSION} in {path}; made by another tool?")
        try:
            content["checks"] = tuple(CheckResult(**check) for check in content["checks"])
            content["beta"] = tuple(content["beta"])
            content["airlight"] = tuple(content["airlight"])
            return cls(**content)
        except (KeyError, TypeError) as error:
            raise InputError(f"expected the fields of a clip in {path}: {error}") from error


def modality_file(modality: str, index: int) -> str:
    """Where a frame lies inside the clip's folder."""
    return f"{modality}/{index:05d}.{'png' if modality in FRAME_MODALITIES else 'exr'}"


class Clip:
    """Reads a clip's frames and maps, whole or cropped."""

    def __init__(self, folder: str | Path, info: ClipInfo | None = None) -> None:
        """`info` stands in for clip.json while a clip is still being made."""
        self.folder = Path(folder)
        self.info = info or ClipInfo.load(self.folder)

    def __len__(self) -> int:
        return self.info.frames

    def sequence(self, modality: str) -> FrameFiles:
        """The hazy or the clear frames in order."""
        if modality not in FRAME_MODALITIES:
            raise InputError(f"expected one of {FRAME_MODALITIES}, got {modality!r}")
        return FrameFiles(tuple(self.folder / modality_file(modality, i) for i in range(len(self))))

    def frame(self, modality: str, index: int, box: Box | None = None) -> Image:  # [H, W, 3] RGB, 8 bit
        """One hazy or clear frame."""
        return self.sequence(modality).read(index, box)

    def map(self, modality: str, index: int, box: Box | None = None) -> Map:  # [C, H, W]
        """One depth, transmission or flow map."""
        if modality not in MAP_MODALITIES:
            raise InputError(f"expected one of {MAP_MODALITIES}, got {modality!r}")
        return read_map(self.folder / modality_file(modality, index), modality, box)

    def airlight(self) -> npt.NDArray[np.float32]:  # [3]
        """The colour of the haze."""
        return np.asarray(self.info.airlight, np.float32)

"""What a user may ask of a run, and what the run answers."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from libranet.backends.interface import MAX_STRENGTH
from libranet.errors import InputError, LibraNetError
from libranet.models import WeightsInfo
from libranet.video.codecs import CodecName

Compare = Literal["split", "side"]
View = Literal["result", "haze", "veil"]


class OutputError(LibraNetError):
    """The output cannot be written: a full disk, a folder that may not be written to."""


@dataclass(frozen=True)
class DehazeOptions:
    """Everything that shapes the pictures and the file."""

    strength: float = 1.0
    """0 returns the input bit for bit, 1 is the network's answer, up to 1.5 overdoes it."""
    compare: Compare | None = None
    """`split` shows the input left and the result right of a line, `side` shows both whole, next to each other."""
    view: View = "result"
    """Instead of the result, a heat map: `haze` of the transmission that the network's matrices stand for, `veil` of
    the haze that was taken away, told from input and result."""
    start: float = 0.0
    """Seconds to begin at."""
    end: float | None = None
    """Seconds to stop before."""
    codec: CodecName | None = None
    """None keeps the source's codec where the container and FFmpeg can write it."""
    crf: int | None = None
    """Quality of lossy codecs; 0 is lossless."""
    preset: str | None = None
    """Speed of the encoder, in its own words."""
    deinterlace: bool = False
    live: bool = False
    """No look-ahead: every frame leaves as soon as it came."""
    scene_cuts: bool = True
    """Forget the past at scene cuts."""
    segment_frames: int = 120
    """Frames per segment: what a killed run loses at most, and the longest distance of key frames."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.strength <= MAX_STRENGTH:
            raise InputError(f"expected a strength from 0 to {MAX_STRENGTH}, got {self.strength}")
        if self.start < 0:
            raise InputError(f"expected a start of at least 0 seconds, got {self.start}")
        if self.end is not None and self.end <= self.start:
            raise InputError(f"expected an end after the start, got --start {self.start} --end {self.end}")
        if self.segment_frames < 2:  # H.264 forbids key frame after key frame with equal numbers
            raise InputError(f"expected segments of at least 2 frames, got {self.segment_frames}")
        if self.compare not in (None, "split", "side"):
            raise InputError(f"unknown comparison {self.compare!r}: use split or side")
        if self.view not in ("result", "haze", "veil"):
            raise InputError(f"unknown view {self.view!r}: use result, haze or veil")


@dataclass(frozen=True)
class Progress:
    """Where a run stands."""

    frames: int
    """Frames written so far, those of an earlier run included."""
    total: int | None
    """Frames in all, where the file says."""
    fps: float
    """Frames per second of this run."""
    bound_by: str
    """The stage that the others wait for: decode, network or encode."""
    phase: Literal["frames", "joining"] = "frames"


@dataclass(frozen=True)
class DehazeReport:
    """What a run did."""

    source: str
    output: str
    frames: int
    resumed_frames: int
    """Frames taken over from an earlier, unfinished run."""
    width: int
    height: int
    codec: str
    pixel_format: str
    seconds: float
    stage_seconds: dict[str, float] = field(default_factory=dict)
    """Busy time of each stage."""
    scene_cuts: int = 0
    copied_streams: int = 0
    partial: str = ""
    """Why the output does not hold the whole input, or nothing."""
    warnings: tuple[str, ...] = ()
    weights: WeightsInfo = field(default_factory=WeightsInfo)
    """Name and version of the network's weights."""

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        import libranet

        values = asdict(self)
        del values["weights"]
        fps = (self.frames - self.resumed_frames) / self.seconds if self.seconds else 0.0
        return {
            **values,
            "fps": round(fps, 3),
            "libranet": libranet.__version__,
            **self.weights.as_json(),
        }

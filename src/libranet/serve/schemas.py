"""The bodies of requests and answers."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from libranet.serve.jobs import State
from libranet.serve.media import Media

LARGEST_STRENGTH = 1.5


class FrameSettings(BaseModel):
    """How to restore a frame: what previews and runs share."""

    strength: float = Field(default=1.0, ge=0.0, le=LARGEST_STRENGTH, description="0 is the input, 1 the network.")
    view: Literal["result", "split", "side", "haze", "removed", "confidence"] = Field(
        default="result", description="What the frames show."
    )
    model: Literal["best", "fast"] = Field(default="best", description="The network; not every server has a fast one.")
    protect_sky: float = Field(default=0.0, ge=0.0, le=1.0)
    protect_shadows: float = Field(default=0.0, ge=0.0, le=1.0)
    color: float = Field(default=1.0, ge=0.0, le=1.5, description="Factor on the change of colour.")


class RunSettings(FrameSettings):
    """How to restore: the options of `libranet dehaze` that the page has."""

    model_config = ConfigDict(extra="forbid")

    steady: float | None = Field(
        default=None, ge=0.0, le=2.0, description="Seconds over which colours are kept steady; null for whole shots."
    )
    exposure: Literal["network", "keep"] = Field(default="network", description="keep: the brightness of the input.")
    codec: Literal["same", "h264"] = Field(default="same", description="h264: 8 bits, which plays everywhere.")
    container: Literal["same", "mp4", "mov", "mkv", "webm"] = Field(default="same", description="Of a video.")
    playable: bool = Field(default=False, description="Also write small H.264 copies, for browsers without the codec.")


class PreviewSettings(FrameSettings):
    """Which frame of a file to restore, and how."""

    at: float = Field(default=0.0, ge=0.0, le=1e6, description="Seconds.")
    keep_exposure: bool = False
    side: int = Field(default=1280, ge=64, le=3840, description="The longest side, in pixels.")

    def as_run(self) -> dict[str, Any]:
        """The settings of a run whose frames look so."""
        shared = self.model_dump(include=set(FrameSettings.model_fields))
        return RunSettings(**shared, exposure="keep" if self.keep_exposure else "network").model_dump()


class NewJob(BaseModel):
    """A file to come."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=255, description="For display only.")
    size: int = Field(ge=1, le=1 << 50, description="Bytes.")


class JobProgress(BaseModel):
    """How far a running job is."""

    frames: int
    total: int | None
    fps: float
    bound_by: str
    phase: str
    remaining_seconds: float | None


class JobStatus(BaseModel):
    """A job."""

    id: str
    name: str
    size: int
    received: int
    state: State
    created: float
    media: Media | None
    settings: RunSettings | None
    progress: JobProgress | None
    error: str
    report: dict[str, Any]
    result_name: str
    queue_position: int | None = Field(description="Jobs before this one.")


class ServerFacts(BaseModel):
    """What this server is."""

    version: str
    weights: str
    devices: list[str]
    models: list[str] = Field(description="What `model` may be.")
    upload_bytes: int
    chunk_bytes: int
    seconds: float
    pixels: int
    keep_seconds: float


class Camera(BaseModel):
    """A camera whose frames are to come."""

    id: str


class ErrorBody(BaseModel):
    """Why not, in one sentence."""

    error: str

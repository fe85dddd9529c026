"""The bodies of requests and answers."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from libranet.serve.jobs import Job, State
from libranet.serve.media import Media
from libranet.serve.settings import Limits

LARGEST_STRENGTH = 1.5
View = Literal["result", "split", "side", "haze", "removed"]


class RunSettings(BaseModel):
    """How to restore: the options of `libranet dehaze` that the page has."""

    model_config = ConfigDict(extra="forbid")

    strength: float = Field(default=1.0, ge=0.0, le=LARGEST_STRENGTH, description="0 is the input, 1 the network.")
    steady: float = Field(default=1.0, ge=0.0, le=2.0, description="Seconds over which colours are kept steady.")
    view: View = Field(default="result", description="What the frames show.")
    exposure: Literal["network", "keep"] = Field(default="network", description="keep: the brightness of the input.")
    protect_sky: float = Field(default=0.0, ge=0.0, le=1.0)
    protect_shadows: float = Field(default=0.0, ge=0.0, le=1.0)
    color: float = Field(default=1.0, ge=0.0, le=1.5, description="Factor on the change of colour.")
    container: Literal["same", "mp4", "mov", "mkv", "webm"] = Field(default="same", description="Of a video.")


class NewJob(BaseModel):
    """A file to come."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=255, description="For display only.")
    size: int = Field(ge=1, le=1 << 50, description="Bytes.")


class MediaFacts(BaseModel):
    """What the file holds, found by decoding."""

    kind: Literal["image", "video"]
    width: int
    height: int
    format: str
    frames: int | None
    rate: float | None
    seconds: float | None
    sound: bool


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
    media: MediaFacts | None
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


def media_facts(media: Media) -> MediaFacts:
    """What visitors may know about a file."""
    return MediaFacts(**{name: getattr(media, name) for name in MediaFacts.model_fields})


def job_status(job: Job, *, received: int, progress: dict[str, Any] | None, ahead: int | None) -> JobStatus:
    """A job as visitors see it."""
    shown = None
    if progress is not None:
        fps, total = progress["fps"], progress["total"]
        left = (total - progress["frames"]) / fps if total and fps > 0 else None
        shown = JobProgress(
            **{key: progress[key] for key in ("frames", "total", "fps", "bound_by", "phase")}, remaining_seconds=left
        )
    stem, dot, _ = job.name.rpartition(".")
    suffix = job.result.removeprefix("result")
    return JobStatus(
        id=job.id,
        name=job.name,
        size=job.size,
        received=received,
        state=job.state,
        created=job.created,
        media=media_facts(job.media) if job.media else None,
        settings=RunSettings(**job.settings) if job.settings else None,
        progress=shown,
        error=job.error,
        report=job.report,
        result_name=f"{stem if dot else job.name}-clear{suffix}" if job.result else "",
        queue_position=ahead,
    )


def server_facts(version: str, weights: dict[str, str], devices: list[str], limits: Limits) -> ServerFacts:
    """What visitors may know about the server."""
    return ServerFacts(
        version=version,
        weights=" ".join(weights.values()),
        devices=devices,
        upload_bytes=limits.upload_bytes,
        chunk_bytes=limits.chunk_bytes,
        seconds=limits.seconds,
        pixels=limits.pixels,
        keep_seconds=limits.keep_seconds,
    )

"""A job is one input and its output. The command line and cluster workers run it here, so both do the same."""

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

from libranet.engine.options import DehazeOptions, DehazeReport, Progress, check_output
from libranet.engine.plan import RunPlan
from libranet.engine.video import dehaze_video
from libranet.errors import InputError
from libranet.network import Network
from libranet.video.reader import DEFAULT_RATE
from libranet.video.source import Source, is_live_output

Kind = Literal["video", "image", "sequence", "frames", "stream"]
"""A video becomes one, or numbered images (`frames`); an image one, a sequence of images as many."""
_REMOTE = re.compile(r"(s3|gs|gcs|az|abfs|abfss|hdfs|sftp)://")


@dataclass(frozen=True)
class Job:
    """One input and its output."""

    kind: Kind
    source: Source
    output: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `DehazeOptions` that this job has other values for."""
    outputs: tuple[Path, ...] = ()  # of a sequence: a file for each of its images

    @property
    def is_remote(self) -> bool:
        """Whether its source or its output is in an object store."""
        return is_remote(self.source.name) or is_remote(self.output)

    def options(self, base: DehazeOptions) -> DehazeOptions:
        """Return the options of this job. A value that cannot be used raises an `InputError`."""
        return replace(base, **self.changes) if self.changes else base


def is_remote(name: str) -> bool:
    """Return whether a name is an address of an object store, such as s3://bucket/clip.mp4."""
    return _REMOTE.match(name) is not None


def local_name(name: str) -> str:
    """Turn file:// addresses into paths; other names stay."""
    return unquote(name.removeprefix("file://")) if name.startswith("file://") else name


def run_job(
    job: Job,
    network: Network,
    options: DehazeOptions,
    *,
    overwrite: bool = False,
    resume: bool = False,
    rate: float | None = None,
    cores: int | None = None,
    encoders: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    on_plan: Callable[[RunPlan], None] | None = None,
) -> DehazeReport:
    """Run a job. The job's own changes come on top of the options; the rest is as `dehaze_video` takes it."""
    options = job.options(options)
    shared: dict[str, Any] = {"options": options, "overwrite": overwrite, "progress": progress}
    if job.kind == "stream":
        from libranet.engine.stream import dehaze_stream

        if resume:
            raise InputError("a stream cannot be resumed: leave out --resume")
        source = sys.stdin.buffer if job.source.is_standard_input else job.source
        output = sys.stdout.buffer if job.output == "-" else job.output
        return dehaze_stream(source, output, network, on_plan=on_plan, **shared)
    if job.kind == "video":
        make_folder(Path(job.output).parent)
        return dehaze_video(
            job.source if job.source.version else job.source.name,
            job.output,
            model=network,
            resume=resume,
            rate=rate,
            cores=cores,
            encoders=encoders,
            on_plan=on_plan,
            **shared,
        )
    if job.kind == "frames":
        from libranet.engine.frame_output import dehaze_to_images

        make_folder(Path(job.output).parent)
        return dehaze_to_images(job.source, job.output, network, resume=resume, rate=rate, **shared)
    from libranet.engine.image_files import dehaze_image, dehaze_sequence

    pairs = _image_pairs(job)
    for folder in {output.parent for _, output in pairs}:
        make_folder(folder)
    if job.kind == "image":
        return dehaze_image(*pairs[0], network, options=options, overwrite=overwrite)
    sources, outputs = [source for source, _ in pairs], [output for _, output in pairs]
    rate = DEFAULT_RATE if rate is None else rate
    return dehaze_sequence(sources, outputs, network, resume=resume, rate=rate, **shared)


def check_job(job: Job, options: DehazeOptions, *, overwrite: bool) -> None:
    """Refuse images, sequences and recordings whose output cannot be written, without reading a frame."""
    options = job.options(options)
    options.adjust.check_mask()
    if job.kind == "stream":
        from libranet.engine.stream import check_recording

        if job.output != "-" and not is_live_output(job.output):
            check_recording(job.source, Path(job.output), options, overwrite=overwrite)
        return
    if job.kind == "frames":
        from libranet.engine.frame_output import check_pattern

        check_pattern(job.output, overwrite=overwrite)
        return
    from libranet.images import check_image_name

    for source, output in _image_pairs(job):
        check_image_name(output)
        if output.parent.exists():
            check_output(source, output, overwrite=overwrite)


def _image_pairs(job: Job) -> list[tuple[Path, Path]]:
    if job.kind == "sequence":
        return [(path, output) for (_, path), output in zip(job.source.files, job.outputs, strict=True)]
    assert job.source.path is not None
    return [(job.source.path, Path(job.output))]


def make_folder(folder: Path) -> None:
    """Make a folder and those above it. One that the system does not let us make raises an `InputError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot create the folder {folder} ({error.strerror}): choose another output") from None

"""A job is one input and its output. The command line and cluster workers run it here, so both do the same."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from libranet.engine.image_files import dehaze_image, dehaze_sequence
from libranet.engine.options import DehazeOptions, DehazeReport, Progress, check_output
from libranet.engine.plan import RunPlan
from libranet.engine.sinks import check_recording
from libranet.engine.stream import dehaze_stream
from libranet.engine.video import dehaze_video
from libranet.errors import InputError
from libranet.images import check_image_name
from libranet.network import Network
from libranet.video.reader import DEFAULT_RATE
from libranet.video.source import Source, numbered_name

Kind = Literal["video", "image", "sequence", "stream"]


@dataclass(frozen=True)
class Job:
    """One input and its output."""

    kind: Kind
    source: Source
    output: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `DehazeOptions` that this job has other values for."""

    def options(self, base: DehazeOptions) -> DehazeOptions:
        """Return the options of this job.

        Raises:
            InputError: A value cannot be used.
        """
        return replace(base, **self.changes) if self.changes else base


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
    """Run a job.

    Args:
        job: What to do.
        network: The network, on its device.
        options: Of all jobs; the job's own changes come on top.
        overwrite: Replace an existing output.
        resume: Continue an unfinished video or sequence.
        rate: Frames per second of an image sequence.
        cores: As `dehaze_video` takes it.
        encoders: As `dehaze_video` takes it.
        progress: Called after each frame.
        on_plan: Called with a video's plan before its first frame.

    Raises:
        InputError: The source, an option or the output's name cannot be used.
        OutputError: The output cannot be written.
    """
    options = job.options(options)
    if job.kind == "stream":
        if resume:
            raise InputError("a stream cannot be resumed: leave out --resume")
        source = sys.stdin.buffer if job.source.is_standard_input else job.source
        output = sys.stdout.buffer if job.output == "-" else job.output
        return dehaze_stream(
            source, output, network, options=options, overwrite=overwrite, progress=progress, on_plan=on_plan
        )
    if job.kind == "sequence":
        sources = [path for _, path in job.source.files]
        outputs = [numbered_name(job.output, number) for number, _ in job.source.files]
        for folder in {path.parent for path in outputs}:
            make_folder(folder)
        return dehaze_sequence(
            sources,
            outputs,
            network,
            options=options,
            overwrite=overwrite,
            resume=resume,
            rate=DEFAULT_RATE if rate is None else rate,
            progress=progress,
        )
    if not Path(job.output).parent.exists():
        make_folder(Path(job.output).parent)
    if job.kind == "image":
        assert job.source.path is not None
        return dehaze_image(job.source.path, job.output, network, options=options, overwrite=overwrite)
    return dehaze_video(
        job.source.name,
        job.output,
        model=network,
        options=options,
        overwrite=overwrite,
        resume=resume,
        rate=rate,
        cores=cores,
        encoders=encoders,
        progress=progress,
        on_plan=on_plan,
    )


def check_job(job: Job, options: DehazeOptions, *, overwrite: bool) -> None:
    """Refuse images, sequences and recordings whose output cannot be written, without reading a frame.

    Args:
        job: What to do.
        options: Of all jobs.
        overwrite: Existing outputs may be replaced or stay.

    Raises:
        InputError: The output exists, or its name cannot be used.
        OutputError: Its folder may not be written to.
    """
    job.options(options).adjust.check_mask()
    if job.kind == "stream":
        if job.output != "-":
            parts = job.options(options).segment_time is not None
            check_recording(job.source, Path(job.output), parts=parts, overwrite=overwrite)
        return
    pairs = [(job.source.path, Path(job.output))]
    if job.kind == "sequence":
        pairs = [(path, numbered_name(job.output, number)) for number, path in job.source.files]
    for source, output in pairs:
        assert source is not None
        check_image_name(output)
        if output.parent.exists():
            check_output(source, output, overwrite=overwrite)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it.

    Raises:
        InputError: The system does not let us.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot create the folder {folder} ({error.strerror}): choose another output") from None

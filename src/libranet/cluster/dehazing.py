"""Dehazing as a workload: whole jobs, and parts of long videos that are joined at the end."""

import hashlib
import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from libranet.cluster.storage import fetch, fingerprint, scratch_folder, upload
from libranet.cluster.tasks import Done, Outcome, Split, Step, Task
from libranet.device import Precision
from libranet.engine.jobs import Job, is_remote, make_folder, run_job
from libranet.engine.options import DehazeOptions, DehazeReport, Progress, check_output
from libranet.engine.parts import Part, dehaze_part, forget_parts, join_parts, plan_parts
from libranet.engine.segments import BusyError, OtherSettingsError, RunFolder
from libranet.engine.video import VideoRun
from libranet.errors import InputError
from libranet.images import is_image_name
from libranet.network import Network
from libranet.runtime import load_network
from libranet.video.source import parse_source


@dataclass(frozen=True)
class DehazeSetup:
    """What every worker needs to know. It decides the bits of the outputs, with the options of the jobs."""

    model: str | None = None
    weights: str | None = None
    device: str = "cpu"
    precision: Precision = "auto"
    dense_fog: bool = True
    threads: int | None = None
    """Of the network on a CPU, where they change the last bits of floating-point sums; None leaves them alone."""
    cores: int | None = None
    """As `dehaze_video` takes it."""
    encoders: int | None = None
    """As `dehaze_video` takes it."""


@dataclass(frozen=True)
class WholeJob:
    """A job for one worker."""

    job: Job
    options: DehazeOptions
    overwrite: bool = False
    replaces: str | None = None
    """Fingerprint of the output that was there before the run and will be replaced."""
    rate: float | None = None
    parts: int = 0
    """Into how many parts a long video is divided; 0 for none."""


@dataclass(frozen=True)
class PartJob:
    """A part of a long video."""

    whole: WholeJob
    part: Part


@dataclass(frozen=True)
class JoinJob:
    """The parts of a long video, all made."""

    whole: WholeJob
    parts: tuple[Part, ...]


PARTS_PER_WORKER = 4
"""A part of a long video is at most this share of what a worker has to do, so that none is left alone at the end."""


def part_counts(costs: Sequence[float], workers: int) -> list[int]:
    """Into how many parts each video is divided, by how long it takes: those that would hold up the others; 0: none."""
    piece = sum(costs) / (workers * PARTS_PER_WORKER)
    return [math.ceil(cost / piece) if workers > 1 and cost > 2 * piece else 0 for cost in costs]


class DehazeWorkload:
    """A network and its compiled kernels, held for all jobs of a worker."""

    def __init__(self, setup: DehazeSetup) -> None:
        if setup.threads is not None:
            torch.set_num_threads(setup.threads)
        self.setup = setup
        self.network: Network = load_network(
            setup.model,
            weights=setup.weights,
            device=setup.device,
            precision=setup.precision,
            dense_fog=setup.dense_fog,
        )

    def run(self, task: Task, report: Callable[[Step], None]) -> Outcome:
        """Do a task."""
        work = task.work
        if isinstance(work, PartJob):
            return Done({"new_frames": dehaze_part(self._run(work.whole, report), work.part)})
        if isinstance(work, JoinJob):
            return self._join(work)
        assert isinstance(work, WholeJob)
        if is_finished(work):
            forget_leftovers(work.job)
            return Done({"source": work.job.source.name, "output": work.job.output, "skipped": True, "partial": ""})
        if parts := self._divide(work):
            return Split(
                tuple(Task(f"{task.key}#{part.number}", PartJob(work, part), part.frames) for part in parts),
                Task(f"{task.key}#join", JoinJob(work, parts), task.cost / 100),
                Task(task.key, replace(work, parts=0), task.cost),
            )
        done = run_anywhere(work, self.network, cores=self.setup.cores, encoders=self.setup.encoders, report=report)
        if not is_remote(work.job.output):
            forget_parts(Path(work.job.output))  # of a video that could not be divided after all
        return Done({**done.as_json(), "new_frames": done.frames - done.resumed_frames})

    def _run(self, work: WholeJob, report: Callable[[Step], None] = lambda step: None) -> VideoRun:
        job, setup = work.job, self.setup
        source, options = parse_source(job.source.name), job.options(work.options)
        return VideoRun(source, Path(job.output), self.network, options, setup.cores, setup.encoders, _Reporter(report))

    def _divide(self, work: WholeJob) -> tuple[Part, ...]:
        job = work.job
        if work.parts < 2 or job.kind != "video" or job.is_remote or is_image_name(job.source.name):
            return ()
        run = self._run(work)
        if run.source.kind != "file":
            return ()
        make_folder(run.output.parent)
        check_output(run.source, run.output, overwrite=work.overwrite)
        return plan_parts(run, wanted=work.parts)

    def _join(self, work: JoinJob) -> Outcome:
        job = work.whole.job
        if is_finished(work.whole):  # the worker was killed between the join and its answer
            forget_leftovers(job)
            return Done({"output": job.output, "frames": sum(part.frames for part in work.parts), "partial": ""})
        done = join_parts(self._run(work.whole), work.parts, overwrite=work.whole.overwrite)
        return Done({**done.as_json(), "parts": len(work.parts), "resumed_frames": 0})


def is_finished(work: WholeJob) -> bool:
    """Return whether the output of this run is there: outputs appear only when they are complete."""
    found = fingerprint(work.job.output)
    return found is not None and not (work.overwrite and found == work.replaces)


def forget_leftovers(job: Job) -> None:
    """Delete the work folder of a finished output: its worker was killed before it could."""
    if not is_remote(job.output):
        shutil.rmtree(RunFolder(Path(job.output)).path, ignore_errors=True)
        forget_parts(Path(job.output))


def run_anywhere(
    work: WholeJob,
    network: Network,
    *,
    cores: int | None = None,
    encoders: int | None = None,
    report: Callable[[Step], None] = lambda step: None,
) -> DehazeReport:
    """Run a job whose source and output may be in an object store. It goes on where a killed worker stopped."""
    job = work.job
    if is_remote(job.output) and not work.overwrite and fingerprint(job.output) is not None:
        raise InputError(f"{job.output} exists: add --overwrite to replace it, or choose another name")
    folder = scratch_folder(job.output) if job.is_remote else None
    local = _staged(job, folder)
    run = partial(
        run_job,
        local,
        network,
        work.options,
        overwrite=work.overwrite or is_remote(job.output),
        rate=work.rate,
        cores=cores,
        encoders=encoders,
        progress=_Reporter(report),
    )
    with _named_by_address(job, local, folder):
        try:
            done = run(resume=local.kind == "video")
        except OtherSettingsError:
            done = run()
    if is_remote(job.output):
        upload(Path(local.output), job.output)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    return replace(done, source=job.source.name, output=job.output)


def _staged(job: Job, folder: Path | None) -> Job:
    """Return the job with files on this machine's disk in place of remote ones."""
    name, output = job.source.name, job.output
    if folder is not None and is_remote(name):
        version = hashlib.sha256(str(fingerprint(name)).encode()).hexdigest()[:8]
        target = folder / f"source-{version}-{Path(name).name}"
        if not target.exists():
            fetch(name, target)
        name = str(target)
    if folder is not None and is_remote(output):
        output = str(folder / Path(output).name)
    return replace(job, source=parse_source(name), output=output)


@contextmanager
def _named_by_address(job: Job, local: Job, folder: Path | None) -> Iterator[None]:
    """Name a source that cannot be used by its address, and keep no copy of it: nobody will try it again."""
    try:
        yield
    except BusyError:
        raise
    except InputError as error:
        if folder is None:
            raise
        shutil.rmtree(folder, ignore_errors=True)
        raise InputError(error.sentence.replace(local.source.name, job.source.name)) from None


class _Reporter:
    """Counts the frames of this attempt."""

    def __init__(self, report: Callable[[Step], None]) -> None:
        self._report = report
        self._before: int | None = None

    def __call__(self, progress: Progress) -> None:
        if self._before is None:
            self._before = max(0, progress.frames - 1)
        self._report(Step(progress.frames, progress.total, progress.frames - self._before, progress.fps))

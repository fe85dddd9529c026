"""Dehazing as a workload: whole jobs, and parts of long videos that are joined at the end."""

import math
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from libranet.cluster.spans import note, span
from libranet.cluster.staging import PARTS, RUN, Staged, deliver, keep_in_store, kept_address, staged
from libranet.cluster.storage import fetch_folder, fingerprint, remove_folder
from libranet.cluster.tasks import Done, DrainedError, Outcome, Span, Split, Step, Task
from libranet.device import Precision
from libranet.engine.jobs import Job, is_remote, make_folder, run_job
from libranet.engine.options import DehazeOptions, DehazeReport, Progress, check_output
from libranet.engine.parts import Part, dehaze_part, forget_parts, join_parts, part_folder, parts_folder, plan_parts
from libranet.engine.segments import OtherSettingsError, RunFolder
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
    """Into how many parts a long video is divided; 0 for none, 1 where that turned out to be impossible."""


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
    if workers < 2:
        return [0] * len(costs)
    piece = sum(costs) / (workers * PARTS_PER_WORKER)
    return [math.ceil(cost / piece) if cost > 2 * piece else 0 for cost in costs]


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
        work = task.work
        if isinstance(work, PartJob):
            return self._part(work, report)
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
                Task(task.key, replace(work, parts=1), task.cost),
            )
        done = run_anywhere(work, self.network, cores=self.setup.cores, encoders=self.setup.encoders, report=report)
        if work.parts or not work.job.is_remote:
            forget_leftovers(work.job)  # of a video that could not be divided after all
        return Done({**done.as_json(), "new_frames": done.frames - done.resumed_frames})

    def _run(self, work: WholeJob, job: Job, report: Callable[[Step], None] = lambda step: None) -> VideoRun:
        setup, options = self.setup, job.options(work.options)
        source = job.source if job.source.version else parse_source(job.source.name)
        reporter = _Reporter(report, options.segment_frames)
        return VideoRun(source, Path(job.output), self.network, options, setup.cores, setup.encoders, reporter)

    def _divide(self, work: WholeJob) -> tuple[Part, ...]:
        if work.parts < 2 or work.job.kind != "video" or is_image_name(work.job.source.name):
            return ()
        with staged(work.job, keep=True) as here, span("plan"):
            run = self._run(work, here.job)
            if run.source.kind != "file":
                return ()
            make_folder(run.output.parent)
            check_output(run.source, run.output, overwrite=work.overwrite)
            parts = plan_parts(run, wanted=work.parts)
        if parts and here.folder is not None:
            shutil.rmtree(here.folder, ignore_errors=True)  # else this worker goes on with it
        return parts

    def _part(self, work: PartJob, report: Callable[[Step], None]) -> Outcome:
        job, part = work.whole.job, work.part
        with staged(job, purpose=f"#{part.number}", ranges=True) as here:
            run = self._run(work.whole, here.job, report)
            folder = part_folder(run.output, part).path
            kept = f"{kept_address(job, PARTS)}/{folder.name}" if is_remote(job.output) else ""
            if kept:
                fetch_folder(kept, folder)
            try:
                with span("restore"):
                    frames = dehaze_part(run, part)
            except DrainedError:
                _keep(folder, kept)
                raise
            if frames:
                _keep(folder, kept)
            return Done({"new_frames": frames})

    def _join(self, work: JoinJob) -> Outcome:
        job, whole = work.whole.job, work.whole
        if is_finished(whole):  # the worker was killed between the join and its answer
            forget_leftovers(job)
            return Done({"output": job.output, "frames": sum(part.frames for part in work.parts), "partial": ""})
        with staged(job) as here:
            run = self._run(whole, here.job)
            if is_remote(job.output):
                fetch_folder(kept_address(job, PARTS), parts_folder(run.output))
            with span("join"):
                done = join_parts(run, work.parts, overwrite=whole.overwrite)
            deliver(here, job)
        forget_leftovers(job)
        named = {"source": job.source.name, "output": job.output}
        return Done({**done.as_json(), **named, "parts": len(work.parts), "resumed_frames": 0})


def is_finished(work: WholeJob) -> bool:
    """Return whether the output of this run is there: outputs appear only when they are complete."""
    found = fingerprint(work.job.output)
    return found is not None and not (work.overwrite and found == work.replaces)


def forget_leftovers(job: Job) -> None:
    """Delete what was kept for a finished output: its worker was killed before it could."""
    if is_remote(job.output):
        for suffix in (RUN, PARTS):
            remove_folder(kept_address(job, suffix))
    else:
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
    """Run a job whose source and output may be in an object store. It goes on where another worker stopped."""
    job = work.job
    if is_remote(job.output) and not work.overwrite and fingerprint(job.output) is not None:
        raise InputError(f"{job.output} exists: add --overwrite to replace it, or choose another name")

    with staged(job) as here, _kept_segments(job, here) as resumed:

        def run(*, resume: bool) -> DehazeReport:
            return run_job(
                here.job,
                network,
                work.options,
                overwrite=work.overwrite or is_remote(job.output),
                resume=resume,
                rate=work.rate,
                cores=cores,
                encoders=encoders,
                progress=_Reporter(report, job.options(work.options).segment_frames),
            )

        with span("restore") as facts:
            try:
                done = run(resume=here.job.kind == "video")
            except OtherSettingsError:
                done = run(resume=False)
            facts |= {"frames": done.frames, **done.stage_seconds}
        deliver(here, job)
    if resumed:
        remove_folder(kept_address(job, RUN))
    return replace(done, source=job.source.name, output=job.output)


@contextmanager
def _kept_segments(job: Job, here: Staged) -> Iterator[bool]:
    """Go on with the segments that a drained node gave away; give away those of this node when it is drained."""
    if not is_remote(job.output) or job.kind != "video":
        yield False
        return
    folder, kept = RunFolder(Path(here.job.output)).path, kept_address(job, RUN)
    resumed = fetch_folder(kept, folder)
    try:
        yield resumed
    except DrainedError:
        _keep(folder, kept)
        raise


def _keep(folder: Path, address: str) -> None:
    if address and folder.is_dir():
        keep_in_store(folder, address)


class _Reporter:
    """Counts the frames of this attempt, and notes when each segment was done."""

    def __init__(self, report: Callable[[Step], None], segment: int) -> None:
        self._report, self._segment = report, segment
        self._before: int | None = None
        self._began = time.time()

    def __call__(self, progress: Progress) -> None:
        if self._before is None:
            self._before = max(0, progress.frames - 1)
        if progress.phase == "frames" and (progress.frames % self._segment == 0 or progress.frames == progress.total):
            now, number = time.time(), (progress.frames - 1) // self._segment
            note(Span("segment", self._began, now, {"number": number, "frames": progress.frames}, inside="restore"))
            self._began = now
        self._report(Step(progress.frames, progress.total, progress.frames - self._before, progress.fps))

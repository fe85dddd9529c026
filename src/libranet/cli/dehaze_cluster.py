"""`libranet dehaze --cluster`: the same jobs, handed out to the workers of a Ray cluster."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from libranet.cli.cluster_run import ClusterChoices, run_tasks
from libranet.cli.dehaze_run import Outcome, RunChoices, print_json
from libranet.errors import InputError
from libranet.video.source import parse_source

if TYPE_CHECKING:
    from rich.console import Console

    from libranet.cluster.dehazing import DehazeSetup
    from libranet.cluster.runner import JobState, TaskResult
    from libranet.cluster.tasks import Task
    from libranet.engine import DehazeOptions
    from libranet.engine.jobs import Job
    from libranet.network import Network


def run_on_cluster(
    jobs: list[Job],
    network: Network,
    setup: DehazeSetup,
    options: DehazeOptions,
    choices: RunChoices,
    cluster: ClusterChoices,
    console: Console,
) -> int:
    """Run all jobs on a cluster, print what happened, and return the exit code.

    Args:
        jobs: What to do.
        network: The network, loaded here to be sure that it can be.
        setup: How workers load it.
        options: Of all jobs.
        choices: How to run.
        cluster: Where to run.
        console: For people.
    """
    import torch

    from libranet.cluster.dehazing import DehazeWorkload
    from libranet.cluster.ray_pool import LOCAL, Placement, connect, pick_cluster_device, smallest_node
    from libranet.cluster.storage import fingerprint
    from libranet.engine.segment_encoders import CORES_PER_ENCODER, machine_cores

    for job in jobs:
        if job.kind in ("stream", "sequence"):
            raise InputError(f"a cluster takes videos and images as files, got the {job.kind} {job.source.name}")
        job.options(options)  # raises what a worker would
    if not choices.overwrite and all(fingerprint(job.output) is not None for job in jobs):
        return _say_finished(jobs, choices, cluster, console)
    threads = cluster.threads or torch.get_num_threads()
    dashboard = connect(cluster.address, dashboard=cluster.dashboard)
    if choices.talkative and dashboard:
        console.print(f"dashboard: {dashboard}", markup=False)
    device = pick_cluster_device(setup.device)
    if device == "cpu":
        options = replace(options, backend=_backend(network, options, jobs))
    if options.adjust.mask is not None:
        mask = str(Path(options.adjust.mask).absolute())
        options = replace(options, adjust=replace(options.adjust, mask=mask))
    model, weights = (str(Path(p).absolute()) if p and Path(p).is_file() else p for p in (setup.model, setup.weights))
    setup = replace(setup, model=model, weights=weights)
    placement = Placement(gpus=device == "cuda", cores=threads, most=cluster.workers)
    cores = machine_cores() if cluster.address == LOCAL else smallest_node(placement) or machine_cores()
    setup = replace(setup, device=device, cores=cores)
    if device == "cpu":  # several workers share a machine and its memory
        setup = replace(setup, threads=threads, encoders=max(1, threads // CORES_PER_ENCODER))
    results, state = run_tasks(
        partial(DehazeWorkload, setup),
        lambda workers: _tasks(jobs, options, choices, workers=workers),
        placement,
        console,
        shown=choices.talkative,
    )
    return _report(jobs, results, state, choices, cluster)


def _say_finished(jobs: list[Job], choices: RunChoices, cluster: ClusterChoices, console: Console) -> int:
    """All outputs are there: report that, without a cluster."""
    from libranet.cluster.dehazing import forget_leftovers
    from libranet.cluster.runner import JobState, TaskResult

    results = []
    for job in map(_absolute, jobs):
        forget_leftovers(job)
        results.append(TaskResult(job.output, "done", {"skipped": True, "partial": ""}))
        if choices.talkative:
            console.print(f"{job.output}: finished before, left as it is", markup=False)
    return _report(jobs, results, JobState(tasks=len(jobs), done=len(jobs)), choices, cluster)


def _report(
    jobs: list[Job], results: list[TaskResult], state: JobState, choices: RunChoices, cluster: ClusterChoices
) -> int:
    """Print and write what happened to every job, and return the exit code."""
    from libranet.cluster.storage import write_text

    outcome = Outcome()
    for job, result in zip(map(_absolute, jobs), results, strict=True):
        outcome.results.append(_as_json(job, result))
        outcome.failed += result.status == "failed"
        outcome.bugs += result.trouble == "bug"
    code = outcome.exit_code
    report = {"results": outcome.results, "exit_code": code, **_summary(results, state)}
    if cluster.report is not None:
        write_text(cluster.report, json.dumps(report, indent=2))
    if choices.as_json:
        print_json(report)
    return code


def _tasks(jobs: list[Job], options: DehazeOptions, choices: RunChoices, *, workers: int) -> list[Task]:
    """Tasks with their expected work, in bytes of the source. Videos that would hold up the others are divided."""
    from libranet.cluster.dehazing import WholeJob, part_counts
    from libranet.cluster.storage import fingerprint, size_of
    from libranet.cluster.tasks import Task

    costs = [max(1.0, float(size_of(job.source.name))) for job in jobs]
    shares = part_counts(costs, workers)
    tasks = []
    for job, cost, parts in zip(map(_absolute, jobs), costs, shares, strict=True):
        replaces = fingerprint(job.output) if choices.overwrite else None
        work = WholeJob(job, options, choices.overwrite, replaces, choices.fps, parts)
        tasks.append(Task(job.output, work, cost))
    return tasks


def _absolute(job: Job) -> Job:
    """Return the job with names that mean the same in every process."""
    source, output = job.source, job.output
    if source.path is not None:
        path = source.path.absolute()
        source = replace(source, name=str(path), path=path)
    elif source.kind == "sequence":
        source = parse_source(Path(source.name).absolute())
    changes = dict(job.changes)
    if "adjust" in changes and changes["adjust"].mask is not None:
        changes["adjust"] = replace(changes["adjust"], mask=str(Path(changes["adjust"].mask).absolute()))
    output = output if "://" in output else str(Path(output).absolute())
    return replace(job, source=source, output=output, changes=changes)


def _backend(network: Network, options: DehazeOptions, jobs: list[Job]) -> str:
    """The CPU backend that a run of the longest video on this machine would take, so that all workers take the same."""
    from libranet.cluster.storage import size_of
    from libranet.engine.video import pixels_of
    from libranet.errors import LibraNetError
    from libranet.network import LiBrANet
    from libranet.runtime.choose import choose_on_cpu
    from libranet.video.reader import open_video

    if options.backend != "auto" or not isinstance(network, LiBrANet):
        return options.backend
    videos = [job for job in jobs if job.kind == "video" and job.source.path is not None]
    pixels: int | None = 0
    if videos:
        longest = max(videos, key=lambda job: size_of(job.source.name))
        with suppress(LibraNetError), open_video(longest.source, deinterlace=True) as reader:  # its worker will say so
            pixels = pixels_of(reader, options)
    return choose_on_cpu(network, pixels)


def _as_json(job: Job, result: TaskResult) -> dict[str, Any]:
    values = {"source": job.source.name, "output": job.output, **result.result}
    if result.error:
        values["error"] = result.error
    return {**values, "attempts": result.attempts, "worker": result.worker, "node": result.node}


def _summary(results: list[TaskResult], state: JobState) -> dict[str, Any]:
    skipped = sum(bool(result.result.get("skipped")) for result in results)
    return {
        "done": state.done - skipped,
        "finished_before": skipped,
        "failed": state.failed,
        "new_frames": state.frames,
        "seconds": round(state.seconds, 3),
        "fps": round(state.fps, 3),
        "worker_deaths": state.deaths,
    }

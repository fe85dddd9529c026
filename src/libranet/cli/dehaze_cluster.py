"""`libranet dehaze --cluster`: the same jobs, handed out to the workers of a Ray cluster."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from libranet.cli.cluster_run import ClusterChoices, placement_for, run_tasks
from libranet.cli.dehaze_manifest import format_row
from libranet.cli.dehaze_run import Outcome, RunChoices, print_json
from libranet.cluster.dehazing import DehazeSetup, DehazeWorkload, WholeJob, forget_leftovers, part_counts
from libranet.cluster.joining import LOCAL, pick_cluster_device, session
from libranet.cluster.ray_pool import smallest_node
from libranet.cluster.runner import JobState, TaskResult
from libranet.cluster.storage import fingerprint, size_of, write_text
from libranet.cluster.tasks import Task
from libranet.engine.segment_encoders import CORES_PER_ENCODER, machine_cores
from libranet.errors import InputError
from libranet.network import LiBrANet
from libranet.runtime.choose import choose_on_cpu
from libranet.video.source import parse_source

if TYPE_CHECKING:
    from rich.console import Console

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

    The network is loaded here to be sure that it can be; `setup` says how workers load it.
    """
    for job in jobs:
        if job.kind in ("stream", "sequence", "frames"):
            what = f"{job.source.name} -> {job.output}"
            raise InputError(f"a cluster makes files of files, and {what} is none: run it without --cluster")
        job.options(options)  # raises what a worker would
    jobs = [_absolute(job) for job in jobs]
    if not choices.overwrite and all(fingerprint(job.output) is not None for job in jobs):
        results = []
        for job in jobs:  # without a cluster
            forget_leftovers(job)
            results.append(TaskResult(job.output, "done", {"skipped": True, "partial": ""}))
            if choices.talkative:
                console.print(f"{job.output}: finished before, left as it is", markup=False)
        return _tell(_report(jobs, results, JobState(tasks=len(jobs), done=len(jobs)), cluster), choices)
    threads = cluster.threads or torch.get_num_threads()
    model, weights = (str(Path(p).absolute()) if p and Path(p).is_file() else p for p in (setup.model, setup.weights))
    setup = replace(setup, model=model, weights=weights)
    if options.adjust.mask is not None:
        mask = str(Path(options.adjust.mask).absolute())
        options = replace(options, adjust=replace(options.adjust, mask=mask))
    with session(cluster.address, dashboard=cluster.dashboard) as dashboard:
        if choices.talkative and dashboard:
            console.print(f"dashboard: {dashboard}", markup=False)
        device = pick_cluster_device(setup.device)
        if device == "cpu" and options.backend == "auto" and isinstance(network, LiBrANet):
            # What a run on this machine would take, so that all workers take the same.
            options = replace(options, backend=choose_on_cpu(network))
        placement = placement_for(cluster, gpus=device == "cuda", cores=threads)
        cores = machine_cores() if cluster.address == LOCAL else smallest_node(placement) or machine_cores()
        setup = replace(setup, device=device, cores=cores)
        if device == "cpu":  # several workers share a machine and its memory
            setup = replace(setup, threads=threads, encoders=max(1, threads // CORES_PER_ENCODER))
        results, state = run_tasks(
            partial(DehazeWorkload, setup),
            lambda workers: _tasks(jobs, options, choices, workers=workers),
            cluster,
            console,
            gpus=device == "cuda",
            cores=threads,
            shown=choices.talkative,
        )
        report = _report(jobs, results, state, cluster)
    return _tell(report, choices)


def _report(jobs: list[Job], results: list[TaskResult], state: JobState, cluster: ClusterChoices) -> dict[str, Any]:
    """Write what happened to every job, while nothing can end the process, and return it."""
    outcome = Outcome()
    for job, result in zip(jobs, results, strict=True):
        values: dict[str, Any] = {"source": job.source.name, "output": job.output, **result.result}
        if result.error:
            values["error"] = result.error
        values |= {"attempts": result.attempts, "worker": result.worker, "node": result.node}
        outcome.results.append(values)
        outcome.failed += result.status == "failed"
        outcome.bugs += result.trouble == "bug"
    skipped = sum(bool(result.result.get("skipped")) for result in results)
    report = {
        "results": outcome.results,
        "exit_code": outcome.exit_code,
        "done": state.done - skipped,
        "finished_before": skipped,
        "failed": state.failed,
        "new_frames": state.frames,
        "seconds": round(state.seconds, 3),
        "fps": round(state.fps, 3),
        "worker_deaths": state.deaths,
    }
    if cluster.poison is not None:
        lines = [
            format_row(job.source.name, job.output, job.changes, reason=result.error, attempts=result.attempts)
            for job, result in zip(jobs, results, strict=True)
            if result.error
        ]
        write_text(cluster.poison, "".join(f"{line}\n" for line in lines))
    if cluster.report is not None:
        write_text(cluster.report, json.dumps(report, indent=2))
    return report


def _tell(report: dict[str, Any], choices: RunChoices) -> int:
    """Print the report for machines, and return the exit code."""
    if choices.as_json:
        print_json(report)
    return int(report["exit_code"])


def _tasks(jobs: list[Job], options: DehazeOptions, choices: RunChoices, *, workers: int) -> list[Task]:
    """Tasks with their expected work, in bytes of the source. Videos that would hold up the others are divided."""
    costs = [max(1.0, float(size_of(job.source.name))) for job in jobs]
    shares = part_counts(costs, workers)
    tasks = []
    for job, cost, parts in zip(jobs, costs, shares, strict=True):
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

"""`libranet eval`: measure models on a dataset and write a report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import libranet
from libranet.cli.units import parse_size
from libranet.errors import InputError
from libranet.extension import lab

if TYPE_CHECKING:
    from rich.console import Console

    from libranet.cli.cluster_run import ClusterChoices
    from libranet.cluster.evaluating import EvalWorkload
    from libranet.evaluation.clips import EvalClip
    from libranet.evaluation.restored_files import RestoredFiles
    from libranet.evaluation.runner import ClipProgress
    from libranet.evaluation.summary import ReportContent


def evaluate_command(
    dataset: Annotated[
        Path | None,
        typer.Argument(help="A set of ours, a folder with hazy/ and clear/, or hazy frames or videos alone."),
    ] = None,
    *,
    hazy: Annotated[
        Path | None, typer.Option(help="In place of DATASET: the folder of the hazy side, under any name.")
    ] = None,
    clear: Annotated[Path | None, typer.Option(help="With --hazy: the folder of the clear side.")] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="libranet, truth (oracle), a peer (libranet bench --list), package.module:Class or [NAME=]CHECKPOINT; "
            "repeatable."
        ),
    ] = None,
    restored: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=DIR", help="Results of any method: DIR/CLIP/frames or DIR/CLIP.mp4; repeatable."),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            help="Names or groups (fidelity, temporal, noref, blind, downstream), with commas or repeated, or all. "
            "Default: all but blind with ground truth, all without."
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Folder of the report.")] = None,
    split: Annotated[Literal["train", "test", "all"], typer.Option(help="Part of a set of ours.")] = "test",
    table: Annotated[
        list[str] | None,
        typer.Option(
            help="Print a table of the paper with our rows in it: main, temporal, downstream, efficiency; or real, "
            "for photos of real haze."
        ),
    ] = None,
    table_format: Annotated[
        Literal["text", "md", "csv", "latex"], typer.Option("--format", help="How tables of the paper are printed.")
    ] = "text",
    size: Annotated[
        str | None, typer.Option(help="WIDTHxHEIGHT for --table efficiency; 720p, 1080p, 4K and 8K without it.")
    ] = None,
    flow: Annotated[
        Literal["auto", "raft", "dis"], typer.Option(help="Estimator for tOF; auto is raft if its weights are there.")
    ] = "auto",
    detector: Annotated[
        Path | None, typer.Option(help="yolov8n, yolov8s or fastestdet from the cache, or a file.")
    ] = None,
    segmenter: Annotated[Path | None, typer.Option(help="Folder of a transformers segmentation network.")] = None,
    musiq: Annotated[
        Path | None, typer.Option(help="Weights of MUSIQ: the published .pth of KonIQ, or .safetensors.")
    ] = None,
    clips: Annotated[int | None, typer.Option(min=1, help="Only the first N clips.")] = None,
    frames: Annotated[int | None, typer.Option(min=1, help="Only the first N frames of each clip.")] = None,
    stills: Annotated[bool, typer.Option(help="Every image is a clip of its own.")] = False,
    deinterlace: Annotated[bool, typer.Option("--deinterlace", help="Deinterlace videos, as `dehaze` does.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")] = "cpu",
    precision: Annotated[
        Literal["auto", "fp32", "fp16", "bf16"], typer.Option(help="auto is what `dehaze` computes in on that device.")
    ] = "auto",
    steady: Annotated[
        float | None,
        typer.Option(help="As `dehaze` has it: seconds of the filter over time of LiBrA-Net; 0 is off."),
    ] = None,
    dense_fog: Annotated[
        bool, typer.Option(help="As `dehaze` has it: also clear what LiBrA-Net leaves of dense fog.")
    ] = True,
    reproducible: Annotated[
        bool, typer.Option("--reproducible", help="Compute with plain PyTorch, the same on every machine.")
    ] = False,
    cache: Annotated[Path | None, typer.Option(help="Cache folder of third-party weights.")] = None,
    fresh: Annotated[bool, typer.Option(help="Delete earlier results in the report's folder.")] = False,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="[ADDRESS]", help="Spread the clips over a Ray cluster; without an address, over this machine."
        ),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="With --cluster: workers in all; default what fits.")] = None,
) -> None:
    """Measure models on a dataset: CSV files, summary.json and a self-contained HTML report. Run again to resume.

    A model restores a file as `libranet dehaze` does: in the file's own samples, by the same backend.
    """
    import torch
    from rich.console import Console

    from libranet.cli.cluster_run import ClusterChoices
    from libranet.cluster.evaluating import EvalWorkload
    from libranet.data.pairs import HAZY_NAMES
    from libranet.device import describe_device, pick_device
    from libranet.evaluation.clips import open_dataset
    from libranet.evaluation.html_report import render_report
    from libranet.evaluation.metric_table import PAIRED_GROUPS, choose_metrics
    from libranet.evaluation.restored_files import parse_restored
    from libranet.evaluation.restorers import PACKAGED_NAME, TRUTH, NetworkRestorer, open_restorers
    from libranet.evaluation.results import ResultStore, write_file
    from libranet.evaluation.runner import evaluate
    from libranet.evaluation.scores import prepare_scores
    from libranet.evaluation.summary import ReportContent, RunInfo, write_summaries

    where = pick_device(device)
    device = str(where)
    # A table for a file has the standard output to itself.
    beside = table_format != "text" and bool(table)
    terminal = (sys.stderr if beside else sys.stdout).isatty()
    console = Console(stderr=beside) if terminal else Console(width=120, stderr=beside)
    chosen = choose_metrics(",".join(metrics) if metrics else "all")
    real = "real" in (table or [])
    wanted = [lab("paper.tables").choose_table(name) for name in table or [] if name != "real"]
    stills, metrics = stills or real, metrics or (["blind"] if real else None)
    sizes = [parse_size(size)] if size else None
    names = model or (["identity"] if restored else ["identity", "dcp", PACKAGED_NAME])
    backend = "plain" if reproducible else "auto"
    load_restorers = partial(
        open_restorers, device=device, precision=precision, steady=steady, backend=backend, dense_fog=dense_fog
    )
    place = _choose_place(dataset, hazy, clear)
    if place is None:
        if wanted != ["efficiency"]:
            raise InputError("expected a dataset to measure on; only --table efficiency does without one")
        for printed in lab("paper.tables").efficiency_tables(load_restorers(names), device, sizes):
            lab("paper.printed").print_table(console, printed, table_format)
        return
    open_at = partial(open_dataset, split=split, stills=stills, deinterlace=deinterlace)
    found = open_at(place, clear=clear and clear.resolve(), all_hazy=hazy is not None and clear is None)[:clips]
    place = place.parent if hazy is not None and place.name.lower() in HAZY_NAMES else place
    paired = found[0].clear is not None  # a set has ground truth for every clip or for none
    if not metrics and paired:
        chosen = choose_metrics(PAIRED_GROUPS)
    if paired and {"temporal", "downstream"} & set(wanted) and TRUTH not in names:
        names = [TRUTH, *names]  # the reference of what these tables measure
    load_scores = partial(
        prepare_scores,
        chosen,
        paired=paired,
        smallest=min((clip.hazy.size for clip in found), key=min),
        flow=flow,
        detector=detector,
        segmenter=segmenter,
        musiq=musiq,
        cache=cache,
        device=device,
    )
    results_of_others = [parse_restored(text, clips=len(found), frames=frames) for text in restored or []]
    load_restorers = partial(load_restorers, restored=results_of_others)
    _name_doubts(console, found, results_of_others)
    if real:
        if cluster is not None:
            raise InputError("--table real runs on one machine: leave out --cluster")
        known = lab("real_table").find_objects(place, found, detector, device=device, cache=cache)
        names = names if "identity" in names else ["identity", *names]  # the hazy input is what all is compared with
    restorers, scores = load_restorers(names), load_scores()
    if real:
        scores.objects = known.measure
        scores.estimators |= known.estimators
    if metrics and not any(scores.wants(metric.name) for metric in chosen):
        raise InputError(f"nothing can be measured: {next(iter(scores.not_measured.values()))}")
    store = ResultStore(output or Path(f"eval-{place.name}"))
    settings = {
        "dataset": str(place) if clear is None else f"{hazy} and {clear}",
        "metrics": [metric.name for metric in chosen if metric.name not in scores.not_measured],
        "estimators": scores.estimators,
        "frames": frames,
    }
    store.begin(settings, fresh=fresh)
    subject = _choose_subject([restorer.name for restorer in restorers])
    if cluster is not None:
        workload = partial(
            EvalWorkload,
            store.folder.resolve(),
            restorers=partial(load_restorers, names),
            scores=load_scores,
            subject=subject,
            frames=frames,
            device="cuda" if where.type == "cuda" else device,
            threads=torch.get_num_threads(),
        )
        _run_on_cluster(ClusterChoices(cluster, workers), workload, found, gpus=where.type == "cuda")
    total = sum(min(len(clip), frames or len(clip)) for clip in found)
    with _progress(console, total) as show:  # results of the cluster are in the store by now
        results = evaluate(
            found, restorers, scores, store, subject=subject, limit_frames=frames, device=device, report=show
        )
    info = RunInfo(
        dataset=place.name,
        paired=paired,
        created=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=libranet.__version__,
        weights={r.name: r.network.weights for r in restorers if isinstance(r, NetworkRestorer) and r.has_weights},
        machine=describe_device(where),
    )
    content = ReportContent(
        info, subject, chosen, scores.not_measured, scores.estimators, dict(scores.seconds), results
    )
    tables = lab("paper.tables").make_tables(wanted, content, restorers, place, device, sizes) if wanted else []
    if real:
        tables.append(lab("real_table").make_real_table(content, results, known.why_missing))
    write_summaries(content, store.folder)
    sections = "".join(lab("paper.printed").as_html(printed) for printed in tables)
    write_file(store.folder / "report.html", render_report(content, store, sections))
    _print_results(console, content)
    for printed in tables:
        lab("paper.printed").print_table(console, printed, table_format)
    console.print(f"report: {store.folder / 'report.html'}", soft_wrap=True)


def _choose_place(dataset: Path | None, hazy: Path | None, clear: Path | None) -> Path | None:
    if dataset is not None and (hazy or clear):
        raise InputError(f"expected a dataset or --hazy and --clear, got {dataset} and {hazy or clear}")
    if clear is not None and hazy is None:
        raise InputError("--clear goes with --hazy, the folder of the hazy side")
    place = dataset or hazy
    return None if place is None else place.resolve()


def _name_doubts(console: Console, clips: list[EvalClip], results: list[RestoredFiles]) -> None:
    """Say what may be wrong about a set, before it is measured: gaps, and pairs that do not show the same."""
    from rich.markup import escape

    from libranet.data.agreement import compare_sides

    doubts = [f"clip {clip.name}: {clip.gaps}" for clip in clips if clip.gaps]
    pairs = [pair for clip in clips if (pair := clip.pair) is not None]
    doubts += compare_sides(pairs, most=8).problems if pairs else ()
    doubts += [f"{result.name}: {problem}" for result in results for problem in result.check(clips).problems]
    if any(clip.bits > 8 for clip in clips[:1]):
        doubts.append(f"the frames have {clips[0].bits} bits and are restored so; metrics are computed on 8 bits")
    for doubt in doubts:
        console.print(f"[yellow]note:[/] {escape(doubt)}", soft_wrap=True)


def _run_on_cluster(
    choices: ClusterChoices, workload: Callable[[], EvalWorkload], clips: list[EvalClip], *, gpus: bool
) -> None:
    import torch
    from rich.console import Console

    from libranet.cli.cluster_run import run_tasks
    from libranet.cluster.joining import session
    from libranet.cluster.tasks import Task

    with session(choices.address):
        results, _ = run_tasks(
            workload,
            lambda workers: [Task(clip.name, clip, float(len(clip))) for clip in clips],
            choices,
            Console(stderr=True, highlight=False),
            gpus=gpus,
            cores=torch.get_num_threads(),
            what="clips",
        )
    failed = [result for result in results if result.error]
    if failed:
        raise InputError(f"{len(failed)} of {len(results)} clips failed; the first, {failed[0].key}: {failed[0].error}")


def _choose_subject(names: list[str]) -> str:
    """The worst frames of the report are those of the last model that is more than a reference point."""
    rank = {"truth": 0, "identity": 1, "clahe": 1, "dcp": 1}
    return max(enumerate(names), key=lambda pair: (rank.get(pair[1], 2), pair[0]))[1]


@contextmanager
def _progress(console: Console, total: int) -> Iterator[ClipProgress]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    done: dict[str, int] = {}
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("frames", total=total)

        def show(clip: str, index: int) -> None:
            done[clip] = index
            bar.update(task, completed=sum(done.values()), description=clip)

        yield show


def _print_results(console: Console, content: ReportContent) -> None:
    from rich import box
    from rich.table import Table

    from libranet.evaluation.summary import format_estimate, summarise_models

    models = summarise_models(content.clips)
    title = f"{content.info.dataset}: mean over clips ± 95 % interval"
    table = Table("metric", title=title, title_justify="left")
    for model in models:
        table.add_column(model, justify="right")
    for metric in content.measured:
        cells = (format_estimate(values.get(metric.name), metric.digits) for values in models.values())
        table.add_row(f"{metric.label} {metric.arrow}", *cells)
    console.print(table)
    lines = [f"{name}: {value}" for name, value in content.estimators.items()]
    lines += [f"backend of {model}: {backend}" for model, backend in content.backends.items()]
    lines += [f"[yellow]not measured: {labels}[/] ({reason})" for reason, labels in content.missing.items()]
    if content.seconds:
        lines.append("time per metric: " + ", ".join(f"{name} {s:.1f} s" for name, s in content.seconds.items()))
    console.print("\n".join(lines), soft_wrap=True, highlight=False)
    # The blind metrics of the subject clip by clip: on real haze, means hide the clip that pumps.
    metrics = [metric for metric in content.measured if metric.group == "blind"]
    clips = [clip for clip in content.clips if clip.model == content.subject]
    if not metrics or len(clips) < 2:
        return
    title = f"{content.subject}, clip by clip"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("clip", no_wrap=True)
    for metric in metrics:
        table.add_column(f"{metric.label} {metric.arrow}", justify="right", overflow="fold")
    means = {name: value.mean for name, value in models[content.subject].items()}
    for name, values in [*((clip.clip, clip.values) for clip in clips), ("mean", means)]:
        cells = (f"{values[m.name]:.{m.digits}f}" if m.name in values else "–" for m in metrics)
        table.add_row(name, *cells, end_section=name == clips[-1].clip)
    console.print(table)

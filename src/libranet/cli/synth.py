"""`libranet synth`: paired haze video from clear sources, or from procedural scenes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from libranet.cli.units import parse_size
from libranet.errors import InputError

if TYPE_CHECKING:
    from libranet.data.dataset import DatasetInfo
    from libranet.flow import FlowEstimator
    from libranet.synth.depth_estimators import DepthEstimator, DepthQuantity
    from libranet.synth.make_clip import ClipTask
    from libranet.synth.sources import ClipSource
    from libranet.synth.synthesize import Outcome

OPEN_SOURCES = "data/uhv4k-open"


def synth(
    sources: Annotated[
        list[str] | None, typer.Argument(help="Videos, photos, folders of them, or the word: procedural.")
    ] = None,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the dataset; run again to resume.")],
    preset: Annotated[
        Literal["uhv4k", "uhv4k-paper", "uhv4k-open", "mini"],
        typer.Option(
            help="25 frames of 4K, the same with the paper's estimators, our 100 free sources, or 10 frames of 960x540."
        ),
    ] = "uhv4k",
    depth: Annotated[
        str | None,
        typer.Option(help="prior (default), hf (Depth Anything V2), hf:FOLDER_OR_ID, or onnx:FILE."),
    ] = None,
    depth_output: Annotated[
        Literal["disparity", "distance"], typer.Option(help="What large values of the depth model mean: near, or far.")
    ] = "disparity",
    flow: Annotated[
        str | None, typer.Option(help="dis (default), raft (weights: see `libranet weights`), or raft:WEIGHTS.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same files.")] = 0,
    workers: Annotated[
        int | None, typer.Option(help="Clips made in parallel; default one per core, two at 4K.")
    ] = None,
    clips: Annotated[int | None, typer.Option(min=1, help="Only the first so many clips; default all.")] = None,
    scenes: Annotated[int | None, typer.Option(help="Clips of the source 'procedural'; default by preset.")] = None,
    frames: Annotated[int | None, typer.Option(help="Frames per clip; default by preset.")] = None,
    size: Annotated[str | None, typer.Option(help="Largest WIDTHxHEIGHT; default by preset.")] = None,
    folders: Annotated[
        Literal["auto", "frames", "photos"], typer.Option(help="What a folder of images contains.")
    ] = "auto",
    licence: Annotated[str, typer.Option(help="Licence of the sources, for clip.json.")] = "not stated",
    manifest: Annotated[
        Path | None,
        typer.Option(help="CSV with file, begin, regime, part, scene, region; the sources are then folders with them."),
    ] = None,
    draw_manifest: Annotated[
        bool,
        typer.Option(
            "--draw-manifest", help="Make no clips: write that CSV for the videos in the sources to --output."
        ),
    ] = False,
    angstrom: Annotated[float, typer.Option(help="Wavelength dependence of scattering, 0 to 4.")] = 0.0,
    noise: Annotated[float, typer.Option(help="Sensor noise on hazy frames, standard deviation in 0..1.")] = 0.0,
    device: Annotated[str, typer.Option(help="Where scenes and models run: auto, cpu, cuda, cuda:1, mps.")] = "cpu",
    cluster: Annotated[
        str | None,
        typer.Option(metavar="[ADDRESS]", help="Make the clips on a Ray cluster; without an address, on this machine."),
    ] = None,
) -> None:
    """Make hazy, clear, depth, transmission and flow for every clip, check them, and write a report."""
    from libranet.device import pick_device
    from libranet.synth.manifest import OPEN_MANIFEST, locate, read_manifest
    from libranet.synth.report import write_report
    from libranet.synth.sources import find_sources
    from libranet.synth.synthesize import PRESETS, synthesize

    if preset == "uhv4k-open":
        manifest, sources = manifest or OPEN_MANIFEST, sources or [OPEN_SOURCES]
        _check_open(sources)
    if not sources:
        raise InputError("expected videos, photos, folders of them, or the word procedural, got none")
    if draw_manifest:
        _draw_manifest(sources, output, seed, licence)
        return
    device = str(pick_device(device))
    given = {"scenes": scenes, "frames": frames, "size": None if size is None else parse_size(size)}
    given = {name: value for name, value in given.items() if value is not None}
    config = replace(PRESETS[preset], seed=seed, angstrom=angstrom, noise=noise, **given)  # type: ignore[arg-type]
    if preset == "uhv4k-paper":
        _check_paper(sources, depth, flow)
    depth = depth or ("hf" if preset == "uhv4k-paper" else "prior")
    flow = flow or ("raft" if preset == "uhv4k-paper" else "dis")
    found: list[ClipSource]
    if manifest is None:
        found = find_sources(sources, scenes=config.scenes, seed=seed, folders=folders, licence=licence, device=device)
        choices = None
    else:
        rows = read_manifest(manifest)[:clips]
        found = locate(rows, [Path(source) for source in sources], device)
        choices = [(row.regime, row.part) for row in rows]
    found = found[:clips]
    console = Console(stderr=True, highlight=False)
    if depth == "prior" and any(s.depth_kind != "metres" and "depth" not in s.describe() for s in found):
        console.print(
            "[yellow]note:[/] the depth of your sources will be a random layout, not an estimate: their haze does not "
            "follow the scene. --depth hf estimates it with Depth Anything V2.",
            soft_wrap=True,
        )
    choose_depth, choose_flow = partial(_choose_depth, depth, depth_output, device), partial(_choose_flow, flow, device)
    motion = choose_flow()  # before depth: its weights are small, and what is missing should be known at once
    estimate_depth = choose_depth()
    if preset == "uhv4k-paper":
        console.print(f"flow by {motion.name}; the paper says RAFT, not which")
    run = None
    if cluster is not None:
        run = partial(_run_on_cluster, cluster, workers, console, choose_depth, choose_flow, device)
    cores = os.cpu_count() or 1
    with _clip_bars(console, len(found), shown=cluster is None) as (step, finish):
        info = synthesize(
            found,
            output,
            config,
            depth=estimate_depth,
            flow=motion,
            workers=workers if workers is not None else min(cores, 2 if config.size[0] > 1920 else cores),
            run=run,
            choices=choices,
            progress=step,
            finished=finish,
        )
    _summary(console, info, output, write_report(output))


def _run_on_cluster(
    address: str,
    workers: int | None,
    console: Console,
    choose_depth: Callable[[], Callable[[int], DepthEstimator]],
    choose_flow: Callable[[], FlowEstimator],
    device: str,
    tasks: list[ClipTask],
    folder: Path,
) -> list[Outcome]:
    import torch

    from libranet.cli.cluster_run import ClusterChoices, run_tasks
    from libranet.cluster.joining import session
    from libranet.cluster.synthesis import SynthWorkload, without_estimators
    from libranet.cluster.tasks import Task
    from libranet.data.dataset import CLIPS_FOLDER, ClipInfo
    from libranet.synth.synthesize import Outcome

    chosen = ClusterChoices(address, workers)
    place = folder.resolve()
    with session(chosen.address):
        results, _ = run_tasks(
            partial(SynthWorkload, place, depth=choose_depth, flow=choose_flow, threads=torch.get_num_threads()),
            lambda workers: [Task(task.name, without_estimators(task)) for task in tasks],
            chosen,
            console,
            gpus=device.startswith("cuda"),
            what="clips",
        )
    return [
        Outcome(r.key, None, r.error) if r.error else Outcome(r.key, ClipInfo.load(place / CLIPS_FOLDER / r.key))
        for r in results
    ]


def _draw_manifest(sources: list[str], manifest: Path, seed: int, licence: str) -> None:
    from libranet.synth.manifest import draw_manifest, list_videos, write_manifest

    if manifest.exists():
        raise InputError(f"{manifest} exists already: choose another name, or delete it")
    folders = [Path(source) for source in sources]
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"expected folders of videos with --draw-manifest, got {folder}")
    rows = draw_manifest(list_videos(folders), seed=seed, licence=licence)
    write_manifest(rows, manifest)
    test = sum(row.part == "test" for row in rows)
    print(f"{manifest}: {len(rows)} videos, {len(rows) - test} train and {test} test")


def _check_open(sources: list[str]) -> None:
    if not all(Path(source).is_dir() for source in sources):
        raise InputError(
            f"--preset uhv4k-open takes its photos and depth maps from a folder, by default {OPEN_SOURCES}, got "
            f"{', '.join(sources)}: research/open_sources.sh FOLDER fetches them"
        )


def _check_paper(sources: list[str], depth: str | None, flow: str | None) -> None:
    if "procedural" in sources:
        raise InputError("--preset uhv4k-paper takes clear video (the paper: Inter4K and UVG), not procedural scenes")
    if depth == "prior":
        raise InputError(
            "--preset uhv4k-paper needs estimated depth, got --depth prior: use --depth hf, which loads Depth Anything "
            "V2 from the hub, or hf:FOLDER with a copy of it"
        )
    if flow == "dis":
        raise InputError(
            "--preset uhv4k-paper needs RAFT, got --flow dis: run `libranet weights pull raft-small --from "
            "raft-small.pth` with the file of its authors, and use --flow raft"
        )


def _choose_depth(text: str, quantity: DepthQuantity, device: str) -> Callable[[int], DepthEstimator]:
    from libranet.synth.depth_estimators import DEPTH_ANYTHING_V2, LayoutPrior, OnnxDepth, TransformersDepth

    kind, _, rest = text.partition(":")
    if kind == "prior" and not rest:
        return LayoutPrior
    model: DepthEstimator
    if kind == "hf":
        model = TransformersDepth(rest or DEPTH_ANYTHING_V2, device=device, quantity=quantity)
    elif kind == "onnx" and rest:
        model = OnnxDepth(rest, quantity=quantity)
    else:
        raise InputError(f"expected --depth as prior, hf, hf:FOLDER_OR_ID or onnx:FILE, got {text!r}")
    return lambda seed: model


def _choose_flow(text: str, device: str) -> FlowEstimator:
    from libranet.flow import DisFlow, RaftFlow, RaftSmall
    from libranet.thirdparty import find_model, load_weights, read_tensors

    kind, _, rest = text.partition(":")
    if text == "dis":
        return DisFlow()
    if kind == "raft":
        state = read_tensors(Path(rest)) if rest else load_weights(find_model("raft-small"))
        return RaftFlow(RaftSmall.from_weights(state, device=device))
    raise InputError(f"expected --flow as dis, raft or raft:WEIGHTS, got {text!r}")


def _summary(console: Console, info: DatasetInfo, output: Path, page: Path) -> None:
    made = sum(len(names) for names in info.split.values())
    parts = ", ".join(f"{len(names)} {part}" for part, names in info.split.items())
    console.print(f"{made} clips accepted ({parts}) in {output}; report: {page}")
    for name, checks in info.flagged.items():
        console.print(f"[yellow]flagged:[/] {name} failed: {', '.join(checks)}; it is in neither part")
    if info.failures:
        reasons = "; ".join(info.failures.values())
        raise InputError(f"{len(info.failures)} of {len(info.generator['sources'])} sources gave no clip: {reasons}")


@contextmanager
def _clip_bars(
    console: Console, clips: int, *, shown: bool
) -> Iterator[tuple[Callable[[str, str, int, int], None], Callable[[Outcome], None]]]:
    """Show one progress bar for the dataset and one per clip in work. Yields what moves and what ends a clip's bar."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not shown) as progress:
        whole = progress.add_task("clips", total=clips)
        bars: dict[str, TaskID] = {}

        def step(name: str, stage: str, done: int, total: int) -> None:
            if name not in bars:
                bars[name] = progress.add_task(name, total=total)
            progress.update(bars[name], description=f"  {name} [dim]{stage}", completed=done, total=total)

        def finish(outcome: Outcome) -> None:
            if outcome.name in bars:
                progress.remove_task(bars.pop(outcome.name))
            if outcome.error:
                console.print(f"[red]failed:[/] {outcome.name}: {escape(outcome.error)}")
            progress.advance(whole)

        yield step, finish

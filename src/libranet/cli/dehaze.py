"""`libranet dehaze`: hazy videos and images in, clear ones out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import libranet
from libranet.cli import EXIT_INTERRUPTED, EXIT_PARTIAL
from libranet.errors import InputError, LibraNetError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from libranet.cli.dehaze_jobs import Job
    from libranet.device import Precision
    from libranet.engine import DehazeOptions, DehazeReport, Progress
    from libranet.engine.options import Compare, View
    from libranet.models import Network
    from libranet.video.encoder import CodecName


def dehaze(
    inputs: Annotated[
        list[str],
        typer.Argument(help="Videos, images, frame_%04d.png, folders, rtsp://..., camera:0, or - for y4m."),
    ],
    *,
    output: Annotated[str, typer.Option("--output", "-o", help="A file, a folder for several inputs, or - for y4m.")],
    model: Annotated[
        str | None, typer.Option(help="libranet, a peer's name (libranet bench --list), or a checkpoint's path.")
    ] = None,
    weights: Annotated[Path | None, typer.Option(help="A checkpoint for the network that --model names.")] = None,
    strength: Annotated[float, typer.Option(help="0 changes nothing, 1 is the network's output, up to 1.5.")] = 1.0,
    steady: Annotated[
        float, typer.Option(help="Seconds over which colours are kept steady; 0 restores every frame on its own.")
    ] = 1.0,
    compare: Annotated[str | None, typer.Option(help="split or side: before and after in one frame.")] = None,
    view: Annotated[
        str, typer.Option(help="result; or a heat map: haze (transmission), removed (the haze that was removed).")
    ] = "result",
    start: Annotated[float, typer.Option(help="Begin at this second.")] = 0.0,
    end: Annotated[float | None, typer.Option(help="Stop before this second.")] = None,
    codec: Annotated[
        str | None, typer.Option(help="h264, hevc, av1, vp9, ffv1, prores, h264_nvenc or hevc_nvenc.")
    ] = None,
    crf: Annotated[int | None, typer.Option(help="Quality: smaller is better and larger; 0 is lossless.")] = None,
    preset: Annotated[str | None, typer.Option(help="Speed of the encoder, as the encoder names it.")] = None,
    fps: Annotated[float, typer.Option(help="Frame rate of an image sequence.")] = 25.0,
    preview: Annotated[int | None, typer.Option(help="Write a contact sheet of N before/after pairs and stop.")] = None,
    live: Annotated[bool, typer.Option("--live", help="No look-ahead: for cameras and network sources.")] = False,
    deinterlace: Annotated[bool, typer.Option("--deinterlace", help="Deinterlace first.")] = False,
    shot_detection: Annotated[bool, typer.Option(help="Detect cuts and reset the network's memory there.")] = True,
    scene_cuts: Annotated[bool | None, typer.Option(help="Old name of --shot-detection.", hidden=True)] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")] = "auto",
    precision: Annotated[str, typer.Option(help="auto, fp32, fp16 or bf16.")] = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run that was stopped or killed.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing output.")] = False,
    segment_frames: Annotated[int, typer.Option(help="Frames per resumable segment.")] = 120,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Remove haze, fog and smog from videos and images. Sound, subtitles, timestamps, colour and bit depth stay.

    Exit codes: 0 done; 2 an input, an option or the output cannot be used; 3 partial: the output is valid, but does
    not hold all of the input, or some of several inputs failed; 130 stopped by Ctrl-C, --resume continues.
    """
    from rich.console import Console
    from rich.markup import escape

    from libranet.cli.dehaze_jobs import Job, plan_jobs
    from libranet.engine import DehazeOptions, load_network
    from libranet.engine.image_files import write_preview

    options = DehazeOptions(
        strength=strength,
        steady=steady,
        compare=cast("Compare | None", compare),
        view=cast("View", view),
        start=start,
        end=end,
        codec=cast("CodecName | None", codec),
        crf=crf,
        preset=preset,
        deinterlace=deinterlace,
        live=live,
        shot_detection=shot_detection,
        segment_frames=segment_frames,
        scene_cuts=scene_cuts,
    )
    jobs = [Job("video", inputs[0], output)] if preview is not None else plan_jobs(inputs, output, live=live)
    network = load_network(
        model, weights=str(weights) if weights else None, device=device, precision=cast("Precision", precision)
    )
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if preview is not None:
        if len(inputs) != 1:
            raise InputError(f"a preview shows one video, got {len(inputs)} inputs: give one")
        path = write_preview(inputs[0], output, network, count=preview, options=options, overwrite=overwrite)
        _print_preview(path, network, as_json=as_json, quiet=quiet, console=console)
        return
    results, failed = [], 0
    with ProgressBar(console, shown=not (as_json or quiet)) as bar:
        for job in jobs:
            bar.begin(Path(job.source).name)
            try:
                report = _run(job, network, options, bar, resume=resume, overwrite=overwrite, fps=fps)
            except LibraNetError as error:
                if len(jobs) == 1:
                    raise
                failed += 1
                console.print(f"[bold red]error:[/] {escape(str(error))}")
                results.append({"source": job.source, "output": job.output, "error": str(error)})
                continue
            except KeyboardInterrupt:
                console.print(f"stopped: run the same command with --resume to continue {escape(job.output)}")
                raise typer.Exit(EXIT_INTERRUPTED) from None
            results.append(report.as_json())
            _print_report(report, console, shown=not (as_json or quiet))
    code = EXIT_PARTIAL if failed or any(result.get("partial") for result in results) else 0
    if failed == len(jobs):
        code = 2
    if as_json:
        _print_json({"results": results, "exit_code": code}, to_stderr=output == "-")
    if code:
        raise typer.Exit(code)


def _run(
    job: Job,
    network: Network,
    options: DehazeOptions,
    bar: ProgressBar,
    *,
    resume: bool,
    overwrite: bool,
    fps: float,
) -> DehazeReport:
    from libranet.engine import dehaze_video
    from libranet.engine.image_files import dehaze_image, dehaze_sequence, expand_pattern
    from libranet.engine.stream import dehaze_stream

    if job.kind == "stream":
        if resume:
            raise InputError("a stream cannot be resumed: leave out --resume")
        source = sys.stdin.buffer if job.source == "-" else job.source
        output = sys.stdout.buffer if job.output == "-" else job.output
        return dehaze_stream(source, output, network, options=options, overwrite=overwrite, progress=bar.update)
    if job.kind == "sequence":
        sources = expand_pattern(job.source)
        outputs = [Path(job.output % number) for number in range(1, len(sources) + 1)]
        for folder in {path.parent for path in outputs}:
            _make_folder(folder)
        return dehaze_sequence(
            sources, outputs, network, options=options, overwrite=overwrite, rate=fps, progress=bar.update
        )
    if len(Path(job.output).parts) > 1 and not Path(job.output).parent.exists():
        _make_folder(Path(job.output).parent)
    if job.kind == "image":
        return dehaze_image(job.source, job.output, network, options=options, overwrite=overwrite)
    return dehaze_video(
        job.source,
        job.output,
        model=network,
        options=options,
        overwrite=overwrite,
        resume=resume,
        rate=fps if "%" in Path(job.source).name else None,
        progress=bar.update,
    )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot create the folder {folder} ({error.strerror}): choose another output") from None


def _print_report(report: DehazeReport, console: Console, *, shown: bool) -> None:
    from rich.markup import escape

    for warning in report.warnings:
        console.print(f"[yellow]note:[/] {escape(warning)}")
    if report.partial:
        console.print(
            f"[bold yellow]partial:[/] {escape(report.partial)} (everything that could be decoded is written)"
        )
    if shown:
        fps = report.as_json()["fps"]
        plural = "" if report.frames == 1 else "s"
        kept = f", {report.copied_streams} other streams copied" if report.copied_streams else ""
        console.print(
            f"{escape(report.output)}: {report.frames} frame{plural}, {report.width}x{report.height} {report.codec} "
            f"{report.pixel_format}, {report.seconds:.1f} s ({fps:.1f} fps){kept}"
        )


def _print_preview(path: Path, network: Network, *, as_json: bool, quiet: bool, console: Console) -> None:
    from rich.markup import escape

    if as_json:
        value = {"preview": str(path), "exit_code": 0, "libranet": libranet.__version__, **network.weights.as_json()}
        _print_json(value, to_stderr=False)
    elif not quiet:
        console.print(f"{escape(str(path))}: open it to see before and after")


def _print_json(value: dict[str, Any], *, to_stderr: bool) -> None:
    print(json.dumps(value, indent=2), file=sys.stderr if to_stderr else sys.stdout)


class ProgressBar:
    """One line on stderr; nothing where stderr is no terminal."""

    def __init__(self, console: Console, *, shown: bool) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=28),
            TextColumn("{task.fields[count]}"),
            TextColumn("[green]{task.fields[speed]}[/]"),
            TimeRemainingColumn(),
            TextColumn("[dim]{task.fields[bound]}[/]"),
            console=console,
            disable=not shown or not console.is_terminal,
            transient=True,
        )
        self._task: TaskID | None = None

    def begin(self, name: str) -> None:
        """Start the line of a new input."""
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(name, total=None, count="", speed="", bound="")

    def update(self, step: Progress) -> None:
        """Show the state of the run. The engine calls it after each frame."""
        if self._task is None:
            return
        total = max(step.total, step.frames) if step.total else None
        self._bar.update(
            self._task,
            completed=step.frames,
            total=total,
            count=f"{step.frames}/{total} frames" if total else f"{step.frames} frames",
            speed=f"{step.fps:.1f} fps" if step.fps else "",
            bound="writing the file" if step.phase == "joining" else f"bound by {step.bound_by}",
        )

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

"""`libranet dehaze`: hazy videos and images in, clear ones out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

import libranet
from libranet.cli import quick_imports
from libranet.errors import InputError

if TYPE_CHECKING:
    from libranet.cli.dehaze_run import RunChoices
    from libranet.device import Precision
    from libranet.engine import DehazeOptions
    from libranet.engine.options import Compare, Exposure, View
    from libranet.network import Network
    from libranet.video.encoder import CodecName


def dehaze(
    inputs: Annotated[
        list[str],
        typer.Argument(
            help="Videos, images, frame_%04d.png, folders (numbered frames are a clip), clips/*.mp4, a list of jobs "
            "(.csv, .jsonl), s3://..., rtsp://..., camera:0, or - for y4m."
        ),
    ],
    *,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="A file, frames/%05d.png, a folder, {stem}-clear.mp4, - for y4m, or live: rtsp://, rtmp://, srt://, "
            "udp://, live.m3u8, /dev/video9; NAME-clear beside a file.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="libranet-base, libranet-small, a peer (libranet bench --list), or a checkpoint's path."),
    ] = None,
    weights: Annotated[Path | None, typer.Option(help="A checkpoint for the network that --model names.")] = None,
    strength: Annotated[
        str, typer.Option(help="0 to 1.5, 1 is the network's output; or key frames, 0:0.2,5:1, or a .csv file.")
    ] = "1",
    dense_fog: Annotated[
        bool, typer.Option(help="Also clear what the network leaves of dense fog; --no-dense-fog is the network alone.")
    ] = True,
    exposure: Annotated[str, typer.Option(help="network, or keep: the mean brightness of the input.")] = "network",
    protect_sky: Annotated[float, typer.Option(help="0 to 1: how much of a bright even sky stays.")] = 0.0,
    protect_shadows: Annotated[float, typer.Option(help="0 to 1: how much of dark places stays.")] = 0.0,
    color: Annotated[float, typer.Option(help="0 to 1.5: factor on the change of colour.")] = 1.0,
    mask: Annotated[Path | None, typer.Option(help="An image: haze is removed where it is white.")] = None,
    steady: Annotated[
        float | None,
        typer.Option(
            help="Seconds over which colours are kept steady, up to 2; 0 restores every frame on its own. Without it "
            "the whole shot in video files, one second elsewhere."
        ),
    ] = None,
    compare: Annotated[str | None, typer.Option(help="split or side: before and after in one frame.")] = None,
    view: Annotated[
        str,
        typer.Option(
            help="result; or a heat map: haze, removed (what the result lost of it), confidence (seen or guessed)."
        ),
    ] = "result",
    start: Annotated[str, typer.Option(help="Begin at this time: seconds, mm:ss or hh:mm:ss.")] = "0",
    end: Annotated[str | None, typer.Option(help="Stop before this time.")] = None,
    codec: Annotated[
        str | None,
        typer.Option(
            help="h264, hevc, av1, vp9, ffv1, prores, mpeg2, dnxhd, mjpeg, qtrle, gif, h264_nvenc, h264_qsv ..."
        ),
    ] = None,
    crf: Annotated[int | None, typer.Option(help="Quality: smaller is better and larger; 0 is lossless.")] = None,
    bitrate: Annotated[str | None, typer.Option(help="Bits per second instead of a quality, such as 8M.")] = None,
    two_pass: Annotated[bool, typer.Option("--two-pass", help="With --bitrate: encode the whole video twice.")] = False,
    scale: Annotated[str | None, typer.Option(help="Size of the output: 1280x720, 720p or 1/2.")] = None,
    preset: Annotated[str | None, typer.Option(help="Speed of the encoder, as the encoder names it.")] = None,
    pix_fmt: Annotated[str | None, typer.Option(help="Pixel format of the output, where it must be another.")] = None,
    encoder_option: Annotated[
        list[str] | None, typer.Option(help="key=value for the encoder, as FFmpeg names it; may be repeated.")
    ] = None,
    audio: Annotated[
        str, typer.Option(help="copy, none, or transcode to aac, opus, flac, ac3, mp3, mp2, pcm.")
    ] = "copy",
    audio_tracks: Annotated[str | None, typer.Option(help="Audio tracks to keep, such as 0,2; default all.")] = None,
    fps: Annotated[float, typer.Option(help="Frame rate of an image sequence.")] = 25.0,
    preview: Annotated[int | None, typer.Option(help="Write a contact sheet of N before/after pairs and stop.")] = None,
    segment_time: Annotated[
        str | None, typer.Option(help="Continue a recording in another file after this time, such as 10:00.")
    ] = None,
    record: Annotated[str | None, typer.Option(help="Also record a live output to this file.")] = None,
    reconnect: Annotated[
        str, typer.Option(help="How long to try again when a network source or a live output is lost.")
    ] = "0",
    live: Annotated[bool, typer.Option("--live", help="No look-ahead: for cameras and network sources.")] = False,
    deinterlace: Annotated[bool, typer.Option("--deinterlace", help="Deinterlace first.")] = False,
    decoder: Annotated[str, typer.Option(help="cpu, or cuda: an NVIDIA GPU's own decoder, where it can.")] = "cpu",
    shot_detection: Annotated[bool, typer.Option(help="Detect cuts and reset the network's memory there.")] = True,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")] = "auto",
    precision: Annotated[str, typer.Option(help="auto, fp32, fp16 or bf16.")] = "auto",
    backend: Annotated[
        str, typer.Option(help="auto, plain (the reference), or on a CPU cpu-fp32 or cpu-bf16 (our kernels).")
    ] = "auto",
    reproducible: Annotated[
        bool,
        typer.Option("--reproducible", help="The reference: --backend plain --precision fp32, whatever is installed."),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue what was stopped or killed; finished outputs stay.")
    ] = False,
    skip_finished: Annotated[bool, typer.Option("--skip-finished", help="Leave existing outputs as they are.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan, try encoder and container, stop.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing output.")] = False,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="[ADDRESS]", help="Spread the jobs over a Ray cluster; without an address, over this machine."
        ),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="With --cluster: workers in all; default what fits.")] = None,
    threads: Annotated[
        int | None, typer.Option(help="With --cluster on CPUs: threads of each worker; default all cores of this one.")
    ] = None,
    report: Annotated[
        str | None, typer.Option(help="With --cluster: write the results to this JSON file, also in an object store.")
    ] = None,
    deadline: Annotated[
        str | None, typer.Option(help="With --cluster: the most time of a job on one worker: seconds, mm:ss, hh:mm:ss.")
    ] = None,
    poison: Annotated[
        str | None, typer.Option(help="With --cluster: list the jobs that were given up here, to be dehazed again.")
    ] = None,
    traces: Annotated[
        str | None, typer.Option(help="With --cluster: OpenTelemetry spans, to http://HOST:4318 or a JSON-lines file.")
    ] = None,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="With --cluster on this machine: start Ray's dashboard.")
    ] = False,
    shard: Annotated[str | None, typer.Option(help="Do only a share of the jobs: 3/8 is the third of eight.")] = None,
    segment_frames: Annotated[int, typer.Option(help="Frames per resumable segment.")] = 120,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Remove haze, fog and smog from videos and images. Audio, subtitles, timestamps, colour and bit depth stay.

    Exit codes: 0 done; 1 a bug; 2 an input, an option or the output cannot be used; 3 partial: the output is valid, but
    does not hold all of the input, or some of several inputs failed; 130 stopped by Ctrl-C, 143 by SIGTERM, --resume
    continues.
    """
    with quick_imports():
        from rich.console import Console

        from libranet.cli.dehaze_jobs import plan_jobs, select_shard
        from libranet.cli.dehaze_run import RunChoices, run_jobs
        from libranet.cli.signals import stop_on_sigterm
        from libranet.cli.units import parse_bitrate, parse_numbers, parse_pairs, parse_strength, parse_time
        from libranet.device import pick_device
        from libranet.engine import DehazeOptions, load_network
        from libranet.engine.options import Adjustments

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    choices = RunChoices(
        resume=resume,
        overwrite=overwrite,
        skip_finished=skip_finished,
        dry_run=dry_run,
        fps=fps,
        as_json=as_json,
        quiet=quiet,
    )
    with stop_on_sigterm():
        if reproducible:
            if backend not in ("auto", "plain") or precision not in ("auto", "fp32"):
                raise InputError(
                    f"--reproducible goes without --backend {backend} --precision {precision}: leave them out"
                )
            backend, precision = "plain", "fp32"
        largest, keys = parse_strength(strength)
        options = DehazeOptions(
            strength=largest,
            adjust=Adjustments(
                exposure=cast("Exposure", exposure),
                protect_sky=protect_sky,
                protect_shadows=protect_shadows,
                color=color,
                mask=None if mask is None else str(mask),
                strength_keys=keys,
            ),
            steady=steady,
            backend="plain" if backend == "auto" and precision == "fp32" else backend,
            compare=cast("Compare | None", compare),
            view=cast("View", view),
            start=parse_time(start, "--start"),
            end=None if end is None else parse_time(end, "--end"),
            codec=cast("CodecName | None", codec),
            crf=crf,
            bitrate=None if bitrate is None else parse_bitrate(bitrate),
            two_pass=two_pass,
            scale=scale,
            preset=preset,
            pixel_format=pix_fmt,
            encoder_options=parse_pairs(encoder_option or [], "--encoder-option"),
            audio=audio,
            audio_tracks=None if audio_tracks is None else parse_numbers(audio_tracks, "--audio-tracks"),
            deinterlace=deinterlace,
            decoder=decoder,  # type: ignore[arg-type]  # checked by the options
            segment_time=None if segment_time is None else parse_time(segment_time, "--segment-time"),
            record=record,
            reconnect=parse_time(reconnect, "--reconnect"),
            live=live,
            shot_detection=shot_detection,
            segment_frames=segment_frames,
        )
        if cluster is None:
            given: dict[str, object] = {"workers": workers, "threads": threads, "report": report, "deadline": deadline}
            given |= {"poison": poison, "traces": traces, "dashboard": dashboard or None}
            if misplaced := [name for name, value in given.items() if value is not None]:
                raise InputError(f"--{misplaced[0]} is for runs on a cluster: add --cluster")
            pick_device(device)
        else:
            from libranet.cli.cluster_run import ClusterChoices

            limit = None if deadline is None else parse_time(deadline, "--deadline")
            where = ClusterChoices(cluster, workers, threads, report, dashboard, limit, poison, traces)
        jobs = [] if preview is not None else plan_jobs(inputs, output, live=live, adjust=options.adjust)
        if (segment_time is not None or options.reconnect) and any(job.kind != "stream" for job in jobs):
            raise InputError("--segment-time and --reconnect are for recordings: add --live, or leave them out")
        jobs = jobs if shard is None else select_shard(jobs, shard)
        checkpoint = str(weights) if weights else None
        network = load_network(
            model,
            weights=checkpoint,
            device=device if cluster is None else "cpu",
            precision=cast("Precision", precision),
            dense_fog=dense_fog,
        )
        if preview is not None:
            _preview(inputs, output, network, options, preview, choices)
            return
        if cluster is None or dry_run:
            code = run_jobs(jobs, network, options, choices, console)
        else:
            from libranet.cli.dehaze_cluster import run_on_cluster
            from libranet.cluster.dehazing import DehazeSetup

            setup = DehazeSetup(model, checkpoint, device, cast("Precision", precision), dense_fog)
            code = run_on_cluster(jobs, network, setup, options, choices, where, console)
    if code:
        raise typer.Exit(code)


def _preview(
    inputs: list[str], output: str | None, network: Network, options: DehazeOptions, count: int, choices: RunChoices
) -> None:
    from libranet.cli.dehaze_run import print_json
    from libranet.engine.preview import write_preview

    if output is None:
        raise InputError("a preview is an image: add -o with its name, such as sheet.png")
    if len(inputs) != 1:
        raise InputError(f"a preview shows one video, got {len(inputs)} inputs: give one")
    path = write_preview(inputs[0], output, network, count=count, options=options, overwrite=choices.overwrite)
    if choices.as_json:
        values = {"preview": str(path), "exit_code": 0, "libranet": libranet.__version__}
        print_json({**values, **network.weights.as_json()})
    elif choices.talkative:
        print(f"{path}: open it to see before and after", file=sys.stderr)

"""`dehaze --cluster` measured: ten kills, 1 to 8 workers, the overhead of one clip, and a simulation of many workers.

python benchmarks/cluster.py kills            # 24 clips and a long one on two simulated nodes, workers killed
python benchmarks/cluster.py hosts            # 200 clips of a flaky S3 over hosts in network namespaces, one cut off
python benchmarks/cluster.py scaling          # the same jobs with 1 to 8 workers, beside the simulation
python benchmarks/cluster.py efficiency       # 1 worker against 2, with a core each, in turn
python benchmarks/cluster.py processes        # without Ray: 1 to 16 processes with a core each
python benchmarks/cluster.py overhead         # one clip with and without a cluster, after start-up
python benchmarks/cluster.py stages           # core-seconds of a 4K frame, file to file
python benchmarks/cluster.py simulate --seconds-per-frame 0.0243   # 1 to 1,000 workers, from measured times
"""

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the clips and the tiny network of the tests

from machine import describe_machine  # isort: skip


SMALL = (640, 368)


def scaling_options():
    """The same work however many workers there are: one backend, and no measuring of others."""
    from libranet.engine import DehazeOptions

    return DehazeOptions(segment_frames=24, steady=0.08, backend="plain")


def make_clips(folder: Path, *, short: int, frames: int, long_frames: int, size: tuple[int, int]) -> list[Path]:
    """Short clips and a long one, of textured frames that move."""
    from clips import Clip, write_clip

    width, height = size
    folder.mkdir(parents=True)
    made = [
        write_clip(folder / f"short{i:02d}.mp4", Clip(frames=frames, width=width, height=height, still=True))
        for i in range(short)
    ]
    if long_frames:
        clip = Clip(frames=long_frames, width=width, height=height, options=(("g", "24"),), still=True)
        made.append(write_clip(folder / "long.mp4", clip))
    return made


def tiny_weights(folder: Path) -> str:
    """A checkpoint with every part of the real network, small enough for many runs."""
    import torch

    from libranet.network import LiBrANet, save_checkpoint
    from tiny_network import TINY, perturb

    torch.manual_seed(0)
    save_checkpoint(perturb(LiBrANet(TINY)), folder / "tiny.safetensors", provenance={})
    return str(folder / "tiny.safetensors")


def jobs_for(clips: list[Path], output: Path, *, parts: int, options=None):
    """Tasks for these clips; the long one in parts. A clip that is given twice has two outputs."""
    from libranet.cluster.dehazing import WholeJob
    from libranet.cluster.tasks import Task
    from libranet.engine import DehazeOptions
    from libranet.engine.jobs import Job
    from libranet.video.source import parse_source

    options = options or DehazeOptions(segment_frames=8, steady=0.08)
    names = [clip.name if clip not in clips[:place] else f"{place}-{clip.name}" for place, clip in enumerate(clips)]
    return options, [
        Task(
            name,
            WholeJob(Job("video", parse_source(clip), str(output / name)), options, parts=parts),
            float(clip.stat().st_size),
        )
        for name, clip in zip(names, clips, strict=True)
    ]


def kills(folder: Path, seed: int, count: int, *, short: int = 24, lose_node: bool = False) -> dict:
    """Short clips and a long one in four parts on two nodes, or three with one that is lost; workers are killed."""
    from cluster_kills import measure_kills

    weights, parts = tiny_weights(folder), 4
    clips = make_clips(folder / "in", short=short, frames=12, long_frames=240, size=(64, 48))
    options, tasks = jobs_for(clips, folder / "out", parts=parts)
    return measure_kills(
        clips, tasks, options, weights, folder, parts=parts, count=count, seed=seed, lose_node=lose_node
    )


def hosts(folder: Path, args: argparse.Namespace) -> dict:
    """Clips of a flaky S3 over hosts in network namespaces, one of which is cut off."""
    from cluster_hosts import measure_hosts

    return measure_hosts(folder, clips=args.clips, hosts=args.hosts, errors=args.errors, seed=args.seed)


def scaling(folder: Path, rounds: int) -> dict:
    """The same twelve clips with 1, 2, 4 and 8 workers, beside the prediction."""
    from cluster_scaling import as_row, measure_costs, measure_driver, measure_run
    from libranet.cluster.joining import LOCAL, connect

    weights, frames = tiny_weights(folder), 24
    clips = make_clips(folder / "in", short=12, frames=frames, long_frames=3 * frames, size=SMALL)
    load = os.getloadavg()[0]
    costs = measure_costs((clips[0], clips[-1]), (frames, 3 * frames), folder, weights, scaling_options())
    print(costs, file=sys.stderr, flush=True)
    connect(LOCAL, cores=2)
    costs = replace(costs, driver=1 / (driver := measure_driver(2, 300))["tasks_per_second"])
    best: dict = {}
    for round_ in range(rounds):
        for workers in (1, 2, 4, 8):
            first, tasks = (
                jobs_for(some, folder / f"{name}{workers}-{round_}", parts=0, options=scaling_options())[1]
                for name, some in (("first", clips[:1] * workers), ("out", clips[:-1]))
            )
            run = measure_run(tasks, first, weights, workers)
            best[workers] = min(best.get(workers, run), run, key=lambda r: r.seconds)
            print(run, file=sys.stderr, flush=True)
    lengths = [frames] * len(clips[:-1])
    rows = [as_row(run, lengths, costs, best[1]) for run in best.values()]
    return {"costs": asdict(costs), "driver": driver, "workers": rows, "load_before": load}


def efficiency(folder: Path, repeats: int) -> dict:
    """One worker against two, with a core each; by Ray and by plain processes."""
    from cluster_efficiency import measure_efficiency
    from libranet.cluster.joining import LOCAL, connect

    weights = tiny_weights(folder)
    clips = make_clips(folder / "in", short=12, frames=24, long_frames=0, size=SMALL)
    connect(LOCAL, cores=2)

    def tasks_for(name: str) -> list:
        return jobs_for(clips, folder / name, parts=0, options=scaling_options())[1]

    def show(repeat: dict) -> None:
        print(json.dumps(repeat), file=sys.stderr, flush=True)

    return measure_efficiency(tasks_for, weights, repeats, show)


def processes(folder: Path, counts: list[int]) -> dict:
    """A worker's whole work, and its decoding and encoding alone, in plain processes; needs no Ray."""
    from functools import partial

    from cluster_efficiency import TranscodeWorkload, measure_processes
    from libranet.cluster.dehazing import DehazeSetup, DehazeWorkload

    setup = DehazeSetup(model=tiny_weights(folder), threads=1, cores=1, encoders=1)
    found = {}
    for name, make, size, frames in (
        ("whole", partial(DehazeWorkload, setup), SMALL, 24),
        ("decode_encode", TranscodeWorkload, (1920, 1080), 12),
    ):
        clips = make_clips(folder / name, short=1, frames=frames, long_frames=0, size=size) * (2 * max(counts))
        found[name] = measure_processes(
            lambda run, clips=clips, name=name: jobs_for(
                clips, folder / f"{name}-{run}", parts=0, options=scaling_options()
            )[1],
            make,
            counts,
        )
    return {"load_before": os.getloadavg()[0], "cores": os.cpu_count(), **found}


def overhead(folder: Path) -> dict:
    """One clip by a plain call and on one worker, both after start-up, in turn."""
    import torch

    from cluster_scaling import measure_run
    from libranet.cluster.joining import LOCAL, connect
    from libranet.engine import dehaze_video, load_network

    torch.set_num_threads(1)
    weights = tiny_weights(folder)
    clips = make_clips(folder / "in", short=1, frames=120, long_frames=0, size=SMALL)
    connect(LOCAL, cores=2)
    network = load_network(weights, device="cpu")
    options, first = jobs_for(clips, folder / "warm", parts=0)
    dehaze_video(clips[0], folder / "warm.mp4", model=network, options=options)
    plain, cluster = [], []
    for round_ in range(3):
        begin, used = time.perf_counter(), time.process_time()
        dehaze_video(clips[0], folder / f"plain{round_}.mp4", model=network, options=options)
        plain.append((time.perf_counter() - begin, time.process_time() - used))
        _, tasks = jobs_for(clips, folder / f"out{round_}", parts=0)
        run = measure_run(tasks, first, weights, 1)
        cluster.append((run.seconds, run.worker_seconds + run.driver_seconds + run.ray_seconds))
    best = {name: tuple(map(min, zip(*runs, strict=True))) for name, runs in (("plain", plain), ("cluster", cluster))}
    return {
        "plain": best["plain"][0],
        "cluster": best["cluster"][0],
        "overhead": round(best["cluster"][0] / best["plain"][0] - 1, 3),
        "core_seconds": {name: round(values[1], 3) for name, values in best.items()},
        "overhead_in_core_seconds": round(best["cluster"][1] / best["plain"][1] - 1, 3),
        "load": os.getloadavg()[0],
    }


def stages(folder: Path, source: Path | None, frames: int, preset: str | None, backend: str) -> dict:
    """Core-seconds of decoding, the network and encoding per frame, file to file with the package's weights."""
    from libranet.engine import DehazeOptions, dehaze_video, load_network
    from libranet.video.reader import open_video
    from libranet.video.source import parse_source

    network = load_network(None, device="cpu")
    if source is None:
        source = make_clips(folder / "in", short=1, frames=frames, long_frames=0, size=(3840, 2160))[0]
    begin, wall = time.process_time(), time.perf_counter()
    with open_video(parse_source(source)) as reader:
        size, count = (reader.width, reader.height), sum(1 for _ in islice(reader.frames(), frames))
        end = count / float(reader.rate)
    decode, decode_wall = time.process_time() - begin, time.perf_counter() - wall
    rows = []
    for round_ in range(2):  # the first one warms up and chooses a runtime
        options = DehazeOptions(preset=preset, end=end, backend=backend)
        begin, wall = time.process_time(), time.perf_counter()
        report = dehaze_video(source, folder / f"out{round_}.mp4", model=network, options=options)
        rows.append((time.process_time() - begin, time.perf_counter() - wall, report))
    cpu, wall, report = rows[-1]
    written = (folder / "out1.mp4").stat().st_size
    return {
        "size": size,
        "backend": backend,
        "frames": report.frames,
        "core_seconds_per_frame": round(cpu / report.frames, 4),
        "decode_core_seconds_per_frame": round(decode / count, 4),
        "decode_fps": round(count / decode_wall, 2),
        "seconds_per_frame": round(wall / report.frames, 4),
        "stage_seconds_per_frame": {name: round(s / report.frames, 4) for name, s in report.stage_seconds.items()},
        "start_seconds": report.start_seconds,
        "core_hours_per_hour_at_25_fps": round(25 * cpu / report.frames, 1),
        "written_mbit_per_second_of_video": round(written * 8 * 25 / report.frames / 1e6, 1),
        "load": os.getloadavg()[0],
    }


def simulation(args: argparse.Namespace) -> dict:
    """1 to 1,000 machines with one worker each, with and without the division of long videos."""
    from cluster_simulation import COUNTS, Costs, archive, table

    costs = Costs(
        wall=args.seconds_per_frame,
        cpu=args.core_seconds_per_frame,
        start=args.start,
        storage=args.frame_bytes,
        driver=args.driver,
        life=args.life,
    )
    frames = archive(args.videos, args.frames)
    counts = args.machines or COUNTS
    tables = {
        name: table(frames, costs, cores=args.cores, store=args.store, divide=name == "divided", counts=counts)
        for name in (("divided",) if args.machines else ("divided", "whole"))
    }
    hours = sum(frames) / 25 / 3600
    machine_hours = {n: n * row["hours"] / hours for n, row in tables["divided"].items()}
    return {
        "costs": asdict(costs),
        "videos": {
            "count": len(frames),
            "frames": sum(frames),
            "longest": max(frames),
            "hours_at_25_fps": round(hours),
        },
        "price_per_hour_of_video": {n: round(args.price * used, 3) for n, used in machine_hours.items()},
        **tables,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "what", choices=["kills", "hosts", "scaling", "efficiency", "processes", "overhead", "stages", "simulate"]
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--short", type=int, default=24, help="kills: short clips, beside the long one")
    parser.add_argument("--lose-node", action="store_true", help="kills: take a node away, too")
    parser.add_argument("--clips", type=int, default=200, help="hosts: small clips, one of which is no video")
    parser.add_argument("--hosts", type=int, default=3, help="hosts: how many, the second of which is cut off")
    parser.add_argument("--errors", type=float, default=0.05, help="hosts: share of the store's requests that fail")
    parser.add_argument("--rounds", type=int, default=2, help="scaling: runs of each kind, of which the best counts")
    parser.add_argument("--repeats", type=int, default=5, help="efficiency: of each kind")
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 2, 4, 8, 16], help="processes: how many")
    parser.add_argument("--source", type=Path, help="stages: a video instead of a made one")
    parser.add_argument("--preset", help="stages: of the encoder")
    parser.add_argument("--backend", default="plain", help="stages: of the network")
    parser.add_argument("--videos", type=int, default=4000)
    parser.add_argument("--frames", type=int, default=1800, help="of the middle video")
    parser.add_argument("--clip-frames", type=int, default=8, help="stages: frames of the clip")
    parser.add_argument("--seconds-per-frame", type=float, default=0.0243)
    parser.add_argument("--core-seconds-per-frame", type=float, default=0.39)
    parser.add_argument("--cores", type=float, default=16, help="of a machine")
    parser.add_argument("--start", type=float, default=2.0, help="core-seconds of a task besides its frames")
    parser.add_argument("--frame-bytes", type=float, default=5e5, help="read and written per frame")
    parser.add_argument("--store", type=float, default=1.25e10, help="bytes per second of the store")
    parser.add_argument("--driver", type=float, default=0.005, help="seconds of the driver per task")
    parser.add_argument("--machines", type=int, nargs="+", help="simulate: how many; default 1 to 1,000")
    parser.add_argument("--life", type=float, default=0.0, help="simulate: hours until a spot machine has notice")
    parser.add_argument("--price", type=float, default=0.0, help="simulate: of a machine for an hour")
    parser.add_argument("-o", "--output", type=Path, help="write the result as JSON")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if args.what == "kills":
            result = kills(folder, args.seed, args.kills, short=args.short, lose_node=args.lose_node)
        elif args.what == "hosts":
            result = hosts(folder, args)
        elif args.what == "simulate":
            result = simulation(args)
        elif args.what == "scaling":
            result = scaling(folder, args.rounds)
        elif args.what == "efficiency":
            result = efficiency(folder, args.repeats)
        elif args.what == "processes":
            result = processes(folder, args.counts)
        elif args.what == "stages":
            result = stages(folder, args.source, args.clip_frames, args.preset, args.backend)
        else:
            result = overhead(folder)
    report = {"what": args.what, "result": result, "machine": describe_machine()}
    print(json.dumps(report, indent=2))
    if args.output:
        args.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()

"""`dehaze --cluster` measured: ten kills, 1 and 2 workers, the overhead of one clip, and a simulation of many workers.

python benchmarks/cluster.py kills            # 24 clips and a long one on two simulated nodes, workers killed
python benchmarks/cluster.py scaling          # the same jobs with 1 and 2 workers of one thread each
python benchmarks/cluster.py overhead         # one clip with and without a cluster, after start-up
python benchmarks/cluster.py simulate --seconds-per-frame 0.02   # 1 to 1,000 workers, from measured times
"""

import argparse
import heapq
import json
import os
import random
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the clips and the tiny network of the tests

from machine import describe_machine  # isort: skip


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

    from libranet.models import LiBrANet, save_checkpoint
    from tiny_network import TINY, perturb

    torch.manual_seed(0)
    save_checkpoint(perturb(LiBrANet(TINY)), folder / "tiny.safetensors", provenance={})
    return str(folder / "tiny.safetensors")


def jobs_for(clips: list[Path], output: Path, *, parts: int):
    """Tasks for these clips; the long one in parts."""
    from libranet.cluster.dehazing import WholeJob
    from libranet.cluster.tasks import Task
    from libranet.engine import DehazeOptions
    from libranet.engine.jobs import Job
    from libranet.video.source import parse_source

    options = DehazeOptions(segment_frames=8, steady=0.08)
    return options, [
        Task(
            clip.name,
            WholeJob(Job("video", parse_source(clip), str(output / clip.name)), options, parts=parts),
            float(clip.stat().st_size),
        )
        for clip in clips
    ]


def kills(folder: Path, seed: int, count: int) -> dict:
    """Kill a random busy worker so many times, at random moments; compare with one process; call it again."""
    import ray
    from ray.cluster_utils import Cluster

    from libranet.cluster.dehazing import DehazeSetup, DehazeWorkload
    from libranet.cluster.ray_pool import Placement, RayPool
    from libranet.cluster.runner import Runner
    from libranet.engine import dehaze_video, load_network

    weights = tiny_weights(folder)
    clips = make_clips(folder / "in", short=24, frames=12, long_frames=240, size=(64, 48))
    options, tasks = jobs_for(clips, folder / "out", parts=4)
    network = load_network(weights, device="cpu")
    (folder / "plain").mkdir()
    for clip in clips:
        dehaze_video(clip, folder / "plain" / clip.name, model=network, options=options)
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    nodes.add_node(num_cpus=1)
    ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
    rng = random.Random(seed)
    killed: list[int] = []
    due = [time.monotonic() + rng.uniform(3, 6)]
    make = partial(DehazeWorkload, DehazeSetup(model=weights, threads=1))
    with RayPool(make, Placement(gpus=False)) as pool:

        def watch(state) -> None:
            busy = [worker for worker in pool.workers() if worker.name in state.workers]
            if busy and len(killed) < count and time.monotonic() > due[0]:
                killed.append(rng.choice(busy).pid)
                os.kill(killed[-1], signal.SIGKILL)
                due[0] = time.monotonic() + rng.uniform(1, 4)

        runner = Runner(pool, watch=watch)
        results = runner.run(tasks)
        written = {path.name: path.stat().st_mtime_ns for path in (folder / "out").glob("*.mp4")}
        again = Runner(pool).run(tasks)
    same = [clip.name for clip in clips if _same(folder / "out" / clip.name, folder / "plain" / clip.name)]
    after = {path.name: path.stat().st_mtime_ns for path in (folder / "out").glob("*.mp4")}
    ray.shutdown()
    nodes.shutdown()
    return {
        "videos": len(clips),
        "kills": len(killed),
        "deaths_in_a_task": runner.state.deaths,
        "done": sum(result.status == "done" for result in results),
        "identical": len(same),
        "leftovers": len(list((folder / "out").glob(".*"))),
        "attempts": sum(result.attempts for result in results),
        "second_call_new": sum(not result.result.get("skipped") for result in again),
        "second_call_wrote": sum(written[name] != after[name] for name in written),
    }


def _same(a: Path, b: Path) -> bool:
    return a.is_file() and a.read_bytes() == b.read_bytes()


def timed(folder: Path, name: str, clips: list[Path], weights: str, workers: int) -> tuple[float, float]:
    """Seconds of work on so many workers, after they were ready, and the CPU seconds the machine spent meanwhile."""
    from libranet.cluster.dehazing import DehazeSetup, DehazeWorkload
    from libranet.cluster.ray_pool import Placement, RayPool
    from libranet.cluster.runner import Runner

    _, tasks = jobs_for(clips, folder / name, parts=0)
    make = partial(DehazeWorkload, DehazeSetup(model=weights, threads=1))
    with RayPool(make, Placement(gpus=False, most=workers)) as pool:
        while len(pool.workers()) < workers:
            pool.wait(0.2)
        begin, used = time.perf_counter(), _machine_seconds()
        Runner(pool).run(tasks)
        return time.perf_counter() - begin, _machine_seconds() - used


def _machine_seconds() -> float:
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    return sum(map(int, fields[:3])) / os.sysconf("SC_CLK_TCK")


def scaling(folder: Path) -> dict:
    """The same twelve clips with 1 and 2 workers, one after the other, twice."""
    from libranet.cluster.ray_pool import LOCAL, connect

    weights = tiny_weights(folder)
    clips = make_clips(folder / "in", short=12, frames=24, long_frames=0, size=(640, 368))
    connect(LOCAL, cores=2)
    runs = {n: [timed(folder, f"out{n}-{round_}", clips, weights, n) for round_ in range(2)] for n in (1, 2)}
    best = {n: min(seconds for seconds, _ in values) for n, values in runs.items()}
    return {
        "seconds": best,
        "ratio": round(best[1] / best[2], 3),
        "efficiency": round(best[1] / best[2] / 2, 3),
        "load_before": os.getloadavg()[0],
    }


def overhead(folder: Path) -> dict:
    """One clip by a plain call and on one worker, both after start-up, in turn."""
    import torch

    from libranet.cluster.ray_pool import LOCAL, connect
    from libranet.engine import dehaze_video, load_network

    torch.set_num_threads(1)
    weights = tiny_weights(folder)
    clips = make_clips(folder / "in", short=1, frames=120, long_frames=0, size=(640, 368))
    connect(LOCAL, cores=2)
    network = load_network(weights, device="cpu")
    options, _ = jobs_for(clips, folder / "out", parts=0)
    plain, cluster = [], []
    for round_ in range(3):
        begin = time.perf_counter()
        dehaze_video(clips[0], folder / f"plain{round_}.mp4", model=network, options=options)
        plain.append(time.perf_counter() - begin)
        cluster.append(timed(folder, f"out{round_}", clips, weights, 1)[0])
    return {
        "plain": min(plain),
        "cluster": min(cluster),
        "overhead": round(min(cluster) / min(plain) - 1, 3),
        "load": os.getloadavg()[0],
    }


@dataclass
class SimulatedPool:
    """Workers in simulated time, under the real runner. A task takes its cost divided by the worker's speed."""

    count: int
    stage_in: float
    """Seconds that each task spends on fetching and storing files."""
    limit: float
    """Workers that the shared storage serves at full speed; more of them share it."""
    now: float = 0.0
    busy: list = field(default_factory=list)
    names: set = field(default_factory=set)

    def __post_init__(self) -> None:
        from libranet.cluster.tasks import WorkerInfo

        self.all = [WorkerInfo(f"w{i}", f"n{i}") for i in range(self.count)]
        self.free = list(self.all)

    def idle(self):
        return list(self.free)

    def nodes(self):
        return {"n0"}

    def start(self, worker, task) -> None:
        self.free.remove(worker)
        slow = max(1.0, self.count / self.limit)
        heapq.heappush(self.busy, (self.now + task.cost + self.stage_in * slow, worker.name, worker))

    def wait(self, seconds):
        from libranet.cluster.tasks import Done, Finished

        self.now, _, worker = heapq.heappop(self.busy)
        self.free.append(worker)
        return [Finished(worker, Done())]

    def steps(self):
        return {}

    def clock(self):
        return self.now


def simulate(*, videos: int, frames: int, seconds_per_frame: float, stage: float, limit: float) -> dict:
    """Time and efficiency of 1 to 1,000 workers. Lengths of the videos are spread like those of an archive."""
    from libranet.cluster.runner import Runner
    from libranet.cluster.tasks import Task

    rng = random.Random(0)
    costs = [seconds_per_frame * frames * rng.lognormvariate(0, 0.8) for _ in range(videos)]
    table = {}
    for workers in (1, 2, 4, 8, 16, 64, 256, 1000):
        pool = SimulatedPool(workers, stage, limit)
        Runner(pool).run([Task(str(i), None, cost) for i, cost in enumerate(costs)])
        ideal = (sum(costs) + videos * stage) / workers
        table[workers] = {"hours": round(pool.now / 3600, 3), "efficiency": round(ideal / pool.now, 3)}
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["kills", "scaling", "overhead", "simulate"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--videos", type=int, default=10000)
    parser.add_argument("--frames", type=int, default=1800, help="of a video, on average")
    parser.add_argument("--seconds-per-frame", type=float, default=0.02)
    parser.add_argument("--stage", type=float, default=2.0, help="seconds per video for copying files")
    parser.add_argument("--limit", type=float, default=200.0, help="workers that the storage serves at full speed")
    parser.add_argument("-o", "--output", type=Path, help="write the result as JSON")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if args.what == "kills":
            result = kills(Path(name), args.seed, args.kills)
        elif args.what == "simulate":
            result = simulate(
                videos=args.videos,
                frames=args.frames,
                seconds_per_frame=args.seconds_per_frame,
                stage=args.stage,
                limit=args.limit,
            )
        else:
            result = {"scaling": scaling, "overhead": overhead}[args.what](Path(name))
    report = {"what": args.what, "result": result, "machine": describe_machine()}
    print(json.dumps(report, indent=2))
    if args.output:
        args.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()

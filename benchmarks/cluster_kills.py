"""Clips on simulated nodes while workers are killed and a node is lost: the outputs beside those of one process.

The kills are drawn before the run, as points in the work on a task, so that all of them happen however fast the
machine is. A process kills itself there with SIGKILL, after a short random delay, which may be in the middle of a
write, in a join, or after the work and before its answer.
"""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import ray
import torch
from ray.cluster_utils import Cluster

from libranet.cluster.dehazing import DehazeSetup, DehazeWorkload, WholeJob
from libranet.cluster.ray_pool import Placement, RayPool
from libranet.cluster.runner import JobState, Runner
from libranet.cluster.storage import fingerprint
from libranet.cluster.tasks import Outcome, Step, Task
from libranet.engine import DehazeOptions, dehaze_video, load_network

LONGEST_DELAY = 0.2
"""Seconds between the point and the kill: about what a short clip takes."""


@dataclass(frozen=True)
class Kill:
    """When the process that does a task is killed."""

    share: float
    """After this share of its frames; 0 at its beginning."""
    delay: float
    """Seconds later."""


@dataclass(frozen=True)
class Fate:
    """What happens to whom."""

    folder: Path
    """For marks of what has happened, which outlive the processes."""
    kills: dict[str, list[Kill]] = field(default_factory=dict)
    """By the tasks' keys: one for the first attempt, one for the second, and so on."""
    lost_node: str | None = None
    """Its worker stops in its first task until `lost` is there, and goes on if it is alive then."""

    @property
    def lost(self) -> Path:
        """The mark that the node is being taken away."""
        return self.folder / "lost"

    def killed(self) -> int:
        """How many kills have happened."""
        return len(list(self.folder.glob("kill *")))

    def note_output(self, output: Path) -> None:
        """Remember which file has this name now."""
        if found := fingerprint(str(output)):
            (self.folder / f"file {output.name} {found}").touch()

    def written_twice(self) -> int:
        """How many more files there were than names."""
        files = [path.name.split()[1] for path in self.folder.glob("file *")]
        return len(files) - len(set(files))


class MortalWorkload:
    """Dehazing in a process that does not live long."""

    def __init__(self, setup: DehazeSetup, fate: Fate) -> None:
        self._inner, self._fate = DehazeWorkload(setup), fate
        self._on_lost_node = ray.get_runtime_context().get_node_id() == fate.lost_node

    def run(self, task: Task, report: Callable[[Step], None]) -> Outcome:
        """Do a task, or die over it."""
        output = Path((task.work if isinstance(task.work, WholeJob) else task.work.whole).job.output)
        self._fate.note_output(output)
        outcome = self._run(task, report)
        self._fate.note_output(output)
        return outcome

    def _run(self, task: Task, report: Callable[[Step], None]) -> Outcome:
        fate = self._fate
        if self._on_lost_node:
            return self._inner.run(task, self._until_lost(report))
        kills, mark = fate.kills.get(task.key, []), f"kill {task.key} "
        number = len(list(fate.folder.glob(f"{mark}*")))
        if number >= len(kills):
            return self._inner.run(task, report)
        kill = kills[number]
        killer = threading.Thread(target=_die, args=(fate.folder / f"{mark}{number}", kill.delay))

        def watched(step: Step) -> None:
            report(step)
            if not killer.ident and step.frames >= kill.share * (step.total or 1):
                killer.start()

        watched(Step())
        self._inner.run(task, watched)
        if not killer.ident:
            killer.start()
        killer.join()
        raise AssertionError("this process was to be killed")

    def _until_lost(self, report: Callable[[Step], None]) -> Callable[[Step], None]:
        def watched(step: Step) -> None:
            report(step)
            while not self._fate.lost.exists():
                time.sleep(0.01)

        return watched


def _die(mark: Path, delay: float) -> None:
    time.sleep(delay)
    mark.touch()
    os.kill(os.getpid(), signal.SIGKILL)


def draw_kills(tasks: Sequence[Task], parted: str, parts: int, *, count: int, seed: int) -> dict[str, list[Kill]]:
    """Draw so many kills over the tasks, the parts of the long one and its join.

    Args:
        tasks: Of the run.
        parted: The key of the one that is divided.
        parts: Into how many.
        count: Of kills.
        seed: Of all that is random.
    """
    rng = random.Random(seed)
    without_frames = [parted, f"{parted}#join"]
    keys = [task.key for task in tasks] + [f"{parted}#{part}" for part in range(parts)] + without_frames[1:]
    kills: dict[str, list[Kill]] = {}
    for key in rng.choices(keys, k=count):
        share = 0.0 if key in without_frames else rng.random()
        kills.setdefault(key, []).append(Kill(share, rng.uniform(0, LONGEST_DELAY)))
    return kills


def measure_kills(
    clips: list[Path],
    tasks: list[Task],
    options: DehazeOptions,
    weights: str,
    folder: Path,
    *,
    parts: int,
    count: int,
    seed: int,
    lose_node: bool,
) -> dict:
    """Run the tasks with kills, compare with one process, and run them again.

    Args:
        clips: The sources, the last one in parts.
        tasks: One for each, with outputs in `folder / "out"`.
        options: Of all of them.
        weights: Of the network.
        folder: For everything.
        parts: Of the last clip.
        count: Kills.
        seed: Of the kills.
        lose_node: Take a third node away in the middle of its first task.
    """
    torch.set_num_threads(1)  # as in the workers: the number decides the last bits
    network = load_network(weights, device="cpu")
    (folder / "plain").mkdir()
    for clip in clips:
        dehaze_video(clip, folder / "plain" / clip.name, model=network, options=options)
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes.add_node(num_cpus=1)
    third = nodes.add_node(num_cpus=1) if lose_node else None
    ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
    (folder / "marks").mkdir()
    kills = draw_kills(tasks, tasks[-1].key, parts, count=count, seed=seed)
    fate = Fate(folder / "marks", kills, third.node_id if third else None)
    out = folder / "out"
    with RayPool(partial(MortalWorkload, DehazeSetup(model=weights, threads=1), fate), Placement(gpus=False)) as pool:
        while len(pool.workers()) < (3 if lose_node else 2):
            pool.wait(0.2)

        def watch(state: JobState) -> None:
            busy = {worker.node for worker in pool.workers() if worker.name in state.workers}
            if third is not None and third.node_id in busy and not fate.lost.exists():
                fate.lost.touch()
                nodes.remove_node(third, allow_graceful=False)

        runner = Runner(pool, watch=watch)
        results = runner.run(tasks)
        written = {path.name: path.stat().st_mtime_ns for path in out.glob("*.mp4")}
        again = Runner(pool).run(tasks)
    for path in out.glob("*.mp4"):
        fate.note_output(path)
    after = {path.name: path.stat().st_mtime_ns for path in out.glob("*.mp4")}
    ray.shutdown()
    nodes.shutdown()
    return {
        "videos": len(clips),
        "kills": fate.killed(),
        "nodes_lost": int(fate.lost.exists()),
        "deaths_in_a_task": runner.state.deaths,
        "done": sum(result.status == "done" for result in results),
        "identical": sum(_same(out / clip.name, folder / "plain" / clip.name) for clip in clips),
        "written_twice": fate.written_twice(),
        "leftovers": len(list(out.glob(".*"))),
        "attempts": sum(result.attempts for result in results),
        "second_call_new": sum(not result.result.get("skipped") for result in again),
        "second_call_wrote": sum(written.get(name) != time_ for name, time_ in after.items()),
    }


def _same(a: Path, b: Path) -> bool:
    return a.is_file() and a.read_bytes() == b.read_bytes()

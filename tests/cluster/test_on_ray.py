"""Jobs on a real Ray cluster of two cores: the same bits as in one process, workers killed, called again."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from functools import partial
from pathlib import Path

import av
import pytest
import torch
from typer.testing import CliRunner

from clips import Clip, write_clip
from libranet.cli.main import build_app
from libranet.cluster.dehazing import DehazeSetup, DehazeWorkload, WholeJob
from libranet.cluster.tasks import Task
from libranet.engine import DehazeOptions, dehaze_video
from libranet.engine.jobs import Job
from libranet.video.source import parse_source

pytestmark = pytest.mark.usefixtures("ray_cluster")


@pytest.fixture(autouse=True)
def _one_thread():
    """The number of threads decides the last bits of a network on a CPU."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def dehaze(*words: object) -> tuple[int, dict]:
    result = CliRunner().invoke(build_app(), ["dehaze", *map(str, words), "--json"])
    return result.exit_code, json.loads(result.stdout)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        write_clip(folder / f"clip{number}.mp4", Clip(frames=6 + 5 * number, audio=("aac",) if number else ()))
    return folder


def test_a_folder_over_two_workers_gives_the_bits_of_one_process_and_again_does_nothing(
    clips, tmp_path, tiny_checkpoint
):
    (clips / "broken.mp4").write_bytes(b"no video at all")
    model = ("--model", tiny_checkpoint)
    assert dehaze(clips, "-o", tmp_path / "plain", *model)[0] == 3
    report = tmp_path / "report.json"
    code, found = dehaze(clips, "-o", tmp_path / "out", *model, "--cluster", "--workers", 2, "--report", report)
    assert (code, found["done"], found["failed"]) == (3, 3, 1)
    assert contents(tmp_path / "out") == contents(tmp_path / "plain")
    assert json.loads(report.read_text()) == found
    failed = next(result for result in found["results"] if "error" in result)
    assert "broken.mp4 is not a video" in failed["error"]
    assert all(Path(result[name]).is_absolute() for result in found["results"] for name in ("source", "output"))
    assert {result["attempts"] for result in found["results"]} == {1}

    times = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    (clips / "broken.mp4").unlink()
    code, found = dehaze(clips, "-o", tmp_path / "out", *model, "--cluster=local")
    assert (code, found["done"], found["finished_before"], found["new_frames"]) == (0, 0, 3, 0)
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == times


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_its_video_goes_on(clips, tmp_path, tiny_checkpoint):
    from libranet.cluster.ray_pool import Placement, RayPool
    from libranet.cluster.runner import JobState, Runner

    long = write_clip(tmp_path / "long.mp4", Clip(frames=60))
    options = DehazeOptions(segment_frames=10)
    dehaze_video(long, tmp_path / "plain.mp4", model=str(tiny_checkpoint), options=options, device="cpu")
    job = Job("video", parse_source(long), str(tmp_path / "out.mp4"))
    killed: list[int] = []
    setup = DehazeSetup(model=str(tiny_checkpoint), threads=1)

    with RayPool(partial(DehazeWorkload, setup), Placement(gpus=False, most=1)) as pool:

        def watch(state: JobState) -> None:
            for name, (_, step) in state.workers.items():
                if step.frames > 20 and not killed:
                    killed.append(next(worker.pid for worker in pool.workers() if worker.name == name))
                    os.kill(killed[0], signal.SIGKILL)

        runner = Runner(pool, watch=watch)
        result = runner.run([Task("long", WholeJob(job, options))])[0]
    assert killed
    assert (result.status, result.attempts, runner.state.deaths) == ("done", 2, 1)
    assert result.result["resumed_frames"] >= 10
    assert (tmp_path / "out.mp4").read_bytes() == (tmp_path / "plain.mp4").read_bytes()
    assert not list(tmp_path.glob(".*libranet*"))


@pytest.mark.slow
def test_a_lost_node_and_killed_workers_lose_nothing_and_do_nothing_twice(tmp_path):
    """In a process of its own: this one has a cluster already."""
    found = tmp_path / "found.json"
    script = Path(__file__).parents[2] / "benchmarks" / "cluster.py"
    command = [sys.executable, str(script), "kills", "--short", "6", "--kills", "2", "--lose-node", "-o", str(found)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(found.read_text())["result"]
    assert (result["videos"], result["done"], result["identical"]) == (7, 7, 7)
    assert (result["kills"], result["nodes_lost"], result["deaths_in_a_task"]) == (2, 1, 3)
    assert (result["written_twice"], result["leftovers"]) == (0, 0)
    assert (result["second_call_new"], result["second_call_wrote"]) == (0, 0)


@pytest.mark.slow
def test_prometheus_reads_the_numbers_of_a_run(tmp_path):
    import ray

    from libranet.cluster.metrics import JobMetrics
    from libranet.cluster.runner import JobState
    from libranet.cluster.tasks import Step

    metrics = JobMetrics()
    metrics.update(JobState(tasks=7, done=3, frames=41, seconds=2.0, workers={"worker-5": ("a", Step(9, 20, 9, 4.5))}))
    port = next(node["MetricsExportPort"] for node in ray.nodes() if node["Alive"])
    until = time.monotonic() + 60
    while "ray_libranet_worker_fps" not in (text := served(port)):
        assert time.monotonic() < until, text[:500]
        time.sleep(1)
    values = {line.split("{")[0]: float(line.split()[-1]) for line in text.splitlines() if "ray_libranet" in line[:12]}
    assert (values["ray_libranet_tasks"], values["ray_libranet_tasks_done"]) == (7, 3)
    assert (values["ray_libranet_frames"], values["ray_libranet_fps"]) == (41, 20.5)
    assert (values["ray_libranet_worker_frames"], values["ray_libranet_worker_fps"]) == (9, 4.5)


def served(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return answer.read().decode()
    except OSError:
        return ""


@pytest.mark.slow
def test_a_list_with_options_gives_the_bits_of_single_calls(clips, tmp_path, tiny_checkpoint):
    rows = [
        {"source": "clip0.mp4", "output": "a.mp4", "strength": 0.4},
        {"source": "clip1.mp4", "output": "b.mkv", "codec": "ffv1"},
        {"source": "none.mp4"},
    ]
    (clips / "jobs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    model = ("--model", tiny_checkpoint)
    code, found = dehaze(clips / "jobs.jsonl", "-o", tmp_path / "out", *model, "--cluster", "--workers", 2)
    assert (code, found["done"], found["failed"]) == (3, 2, 1)
    assert "none.mp4" in found["results"][2]["error"]
    dehaze(clips / "clip0.mp4", "-o", tmp_path / "a.mp4", *model, "--strength", 0.4)
    assert (tmp_path / "out" / "a.mp4").read_bytes() == (tmp_path / "a.mp4").read_bytes()
    with av.open(str(tmp_path / "out" / "b.mkv")) as container:
        assert container.streams.video[0].codec_context.name == "ffv1"


@pytest.mark.slow
def test_a_long_video_is_divided_over_workers_and_joined(clips, tmp_path, tiny_checkpoint):
    write_clip(clips / "long.mp4", Clip(frames=90, audio=("aac",), options=(("g", "24"),)))
    options = ("--model", tiny_checkpoint, "--segment-frames", 8, "--steady", 0.08)
    dehaze(clips, "-o", tmp_path / "plain", *options)
    code, found = dehaze(clips, "-o", tmp_path / "out", *options, "--cluster", "--workers", 2)
    results = {Path(result["output"]).name: result for result in found["results"]}
    assert (code, found["done"], results["long.mp4"]["frames"]) == (0, 4, 90)
    assert results["long.mp4"]["parts"] > 1
    assert contents(tmp_path / "out") == contents(tmp_path / "plain")


def files_below(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".work" not in path.parts
    }


@pytest.mark.slow
def test_clips_are_made_and_measured_on_the_cluster_as_in_one_process(tmp_path):
    synth = ("synth", "procedural", "--preset", "mini", "--scenes", "2", "--frames", "3", "--size", "96x64")
    measure = ("--model", "identity", "--metrics", "fidelity", "--split", "all")
    for name, more in (("one", ()), ("many", ("--cluster", "--workers", "1"))):
        made = CliRunner().invoke(build_app(), [*synth, "-o", str(tmp_path / name / "set"), *more])
        assert made.exit_code == 0, made.output
        report = tmp_path / name / "report"
        done = CliRunner().invoke(
            build_app(), ["eval", str(tmp_path / name / "set"), *measure, "-o", str(report), *more]
        )
        assert done.exit_code == 0, done.output
    assert files_below(tmp_path / "many" / "set") == files_below(tmp_path / "one" / "set")
    summaries = [json.loads((tmp_path / name / "report" / "summary.json").read_text()) for name in ("one", "many")]
    assert summaries[0]["models"] == summaries[1]["models"]

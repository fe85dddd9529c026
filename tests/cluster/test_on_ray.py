"""Jobs on a real Ray cluster of two cores: the same bits as in one process, workers killed, called again."""

import json
import os
import signal
from functools import partial
from pathlib import Path

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

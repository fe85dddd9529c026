"""Nodes that come and go: asked of Ray's autoscaler, given back, drained on notice. Each test has its own cluster."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from clips import Clip, write_clip
from libranet.engine import DehazeOptions, dehaze_video

pytest.importorskip("ray", reason="pip install 'libranet[cluster]'")


ELASTIC = """
import json, os, subprocess, sys, time
from functools import partial
from pathlib import Path
import ray
from ray.cluster_utils import Cluster
from libranet.cluster.dehazing import DehazeSetup, DehazeWorkload, WholeJob
from libranet.cluster import ray_pool
from libranet.cluster.ray_pool import Placement, RayPool
from libranet.cluster.runner import Runner
from libranet.cluster.tasks import Task
from libranet.engine import DehazeOptions
from libranet.engine.jobs import Job
from libranet.video.source import parse_source

what, folder, model = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
clips = sorted((folder / "in").glob("*.mp4"))
options = DehazeOptions(segment_frames=10, steady=0.08, backend="plain")
tasks = [
    Task(clip.name, WholeJob(Job("video", parse_source(clip), str(folder / "out" / clip.name)), options))
    for clip in clips
]
make = partial(DehazeWorkload, DehazeSetup(model=model, threads=1))
attempts = []
"""


def run_elastic(tmp_path: Path, model: Path, what: str, body: str, **more: str) -> dict:
    """Run a script with a cluster of its own: this process has one already."""
    script = tmp_path / f"{what}.py"
    script.write_text(ELASTIC + body)
    done = subprocess.run(
        [sys.executable, str(script), what, str(tmp_path), str(model)],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", **more},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def autoscaler(tmp_path):
    """A head without cores, and an autoscaler that starts nodes of one core as processes of this machine."""
    lists = ["initialization_commands", "setup_commands", "head_setup_commands", "worker_setup_commands"]
    lists += ["head_start_ray_commands", "worker_start_ray_commands", "cluster_synced_files", "rsync_exclude"]
    spot = {"resources": {"CPU": 1}, "node_config": {}, "min_workers": 0, "max_workers": 4}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = {
        "cluster_name": "made-up",
        "max_workers": 4,
        # All made-up nodes have one address: without their names the autoscaler hears from none of them.
        "provider": {"type": "fake_multinode", "gcs_address": f"127.0.0.1:{port}", "use_node_id_as_ip": True},
        "available_node_types": {
            "spot": spot,
            "ray.head.default": {"resources": {}, "node_config": {}, "max_workers": 0},
        },
        "head_node_type": "ray.head.default",
        "upscaling_speed": 1.0,
        "idle_timeout_minutes": 0.05,
        **{name: {} for name in ("auth", "docker", "file_mounts", "head_node", "worker_nodes")},
        **{name: [] for name in (*lists, "rsync_filter")},
    }
    path = tmp_path / "autoscaler.json"
    path.write_text(json.dumps(config))
    words = [str(Path(sys.executable).with_name("ray")), "start", "--head", f"--port={port}", "--num-cpus=0", "--block"]
    words += [
        "--node-ip-address=127.0.0.1",
        "--include-dashboard=false",
        "--disable-usage-stats",
        f"--autoscaling-config={path}",
    ]
    more = {
        "RAY_raylet_start_wait_time_s": "300",
        "AUTOSCALER_UPDATE_INTERVAL_S": "1",
        "RAY_FAKE_CLUSTER": "1",
        "RAY_AUTH_MODE": "disabled",
    }
    log = (tmp_path / "ray.log").open("w")
    head = subprocess.Popen(words, env={**os.environ, **more}, stdout=log, stderr=log, start_new_session=True)
    until = time.monotonic() + 300  # on a busy machine
    while "Ray runtime started" not in (tmp_path / "ray.log").read_text():
        assert time.monotonic() < until, (tmp_path / "ray.log").read_text()
        time.sleep(0.5)
    yield f"127.0.0.1:{port}"
    for word in (signal.SIGTERM, signal.SIGKILL):  # with --block, Ray may wait for a node that is gone
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(head.pid, word)
            head.wait(30)
            break
    log.close()


@pytest.mark.slow
def test_workers_are_asked_of_rays_autoscaler_and_given_back(tmp_path, tiny_checkpoint, autoscaler):
    """Ray's own autoscaler over machines that it makes up: there is no place for a worker at the beginning."""
    (tmp_path / "in").mkdir()
    # So long that the first node is still at work when the second one is there.
    write_clip(tmp_path / "in" / "clip0.mp4", Clip(frames=1500, width=160, height=96))
    for number in (1, 2):
        shutil.copy(tmp_path / "in" / "clip0.mp4", tmp_path / "in" / f"clip{number}.mp4")
    found = run_elastic(
        tmp_path,
        tiny_checkpoint,
        "autoscale",
        """
ray.init(os.environ["HEAD"], log_to_driver=False, logging_level="ERROR")
count = lambda: sum(node["Alive"] and node["Resources"].get("CPU", 0) > 0 for node in ray.nodes())
before, ray_pool.IDLE_SECONDS = count(), 3.0
most = 0
with RayPool(make, Placement(gpus=False, most=2, asks=True)) as pool:
    def watch(state):
        global most
        most = max(most, count())
    results = Runner(pool, watch=watch).run(tasks)
    until = time.monotonic() + 90
    while count() and time.monotonic() < until:  # the run is over: nobody has work
        pool.want(0)
        pool.wait(0.5)
    after = count()
print(json.dumps({"before": before, "most": most, "after": after, "done": [r.status for r in results]}))
ray.shutdown()
""",
        HEAD=autoscaler,
        RAY_AUTH_MODE="disabled",
    )
    assert found == {"before": 0, "most": 2, "after": 0, "done": ["done"] * 3}


@pytest.mark.slow
def test_a_node_with_notice_gives_its_job_away_and_loses_at_most_a_segment(tmp_path, tiny_checkpoint):
    (tmp_path / "in").mkdir()
    # So long that Ray has the notice before the job ends, on a busy machine too.
    long = write_clip(tmp_path / "in" / "long.mp4", Clip(frames=1000, width=160, height=96))
    options = DehazeOptions(segment_frames=10, steady=0.08, backend="plain")
    dehaze_video(long, tmp_path / "plain.mp4", model=str(tiny_checkpoint), options=options, device="cpu")
    found = run_elastic(
        tmp_path,
        tiny_checkpoint,
        "drain",
        """
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
noticed, drained, command = [], [], None
with RayPool(make, Placement(gpus=False)) as pool:
    while len(pool.workers()) < 2:
        pool.wait(0.2)
    def watch(state):
        global command
        for name, (_, step) in state.workers.items():
            if step.frames > 40 and not noticed:
                node = next(worker.node for worker in pool.workers() if worker.name == name)
                noticed.append((node, step.frames))
                words = [sys.executable, "-m", "libranet.cluster.drain", "60", "--node", node]
                words += ["--address", cluster.address]
                command = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    result = Runner(pool, watch=watch, on_attempt=attempts.append).run(tasks)[0]
said = command.communicate()[0] if command else ""
ended = [(attempt.outcome, attempt.worker.node) for attempt in attempts]
print(json.dumps({"noticed": noticed, "ended": ended, "said": said, "resumed": result.result.get("resumed_frames")}))
ray.shutdown()
cluster.shutdown()
""",
    )
    (noticed,) = found["noticed"]
    assert [outcome for outcome, _ in found["ended"]] == ["drained", "done"]
    assert found["ended"][0][1] == noticed[0] != found["ended"][1][1]
    assert found["resumed"] > noticed[1] - 2 * 10  # more was done by then; at most the segment under way is lost
    assert "nobody works here" in found["said"]
    assert (tmp_path / "out" / "long.mp4").read_bytes() == (tmp_path / "plain.mp4").read_bytes()

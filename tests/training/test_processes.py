"""Training in several processes: the same numbers as in one, whoever dies."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from libranet.errors import InputError
from libranet.training.distributed import Shard
from libranet.training.micro_batches import branch_count, divide, mean_over_parts, tree_sum

ROOT = Path(__file__).parents[2]
RECIPE = """
seed = 3
steps = 12
batch = 8
accumulate = 4
crops = [[32, 32]]
precision = "fp32"
optimiser = { ema = 0.9 }
every = { log = 1, checkpoint = 4, validation = 100 }

[model]
encoder.size = 32
encoder.widths = [8, 8, 8, 16]
encoder.blocks = 1
fields.hidden = 8
fields.attention_heads = 2
refiner.width = 8
encoder.drop_path = 0.2
fields.dropout = 0.2

[loss]
perceptual = "none"

[photos]
scenes = 1
lines = 64
"""


def test_a_branch_of_the_tree_may_be_added_up_elsewhere():
    torch.manual_seed(0)
    values = list(torch.randn(8, 1000) * 10 ** torch.linspace(-3, 3, 8)[:, None])
    assert torch.equal(tree_sum(values), tree_sum([tree_sum(values[:4]), tree_sum(values[4:])]))
    assert torch.equal(mean_over_parts(values, Shard()), tree_sum(values) / 8)


def test_processes_share_the_parts_of_a_step():
    assert divide(Shard(), 1) == [Shard()]
    parts = [divide(Shard(rank, 2), 4) for rank in range(2)]
    assert [part for mine in parts for part in mine] == [Shard(rank, 4) for rank in range(4)]
    # Of three processes the third one computes what the first one does, and nobody adds it up.
    spare = [[part.rank for part in divide(Shard(rank, 3), 4)] for rank in range(3)]
    assert spare == [[0, 1], [2, 3], [0, 1]]
    assert [branch_count(world) for world in (1, 2, 3, 7, 8)] == [1, 2, 2, 4, 8]
    for world, count in ((4, 2), (3, 2), (1, 6)):
        with pytest.raises(InputError, match="accumulate as a power of two"):
            divide(Shard(0, world), count)


def run(
    folder: Path, recipe: Path, *more: str, processes: int = 1, restarts: int = 0, meeting: int | None = None
) -> subprocess.Popen:
    """Start training; with a `meeting` port as one of up to two machines that find each other there."""
    start = ["-m", "libranet.training.start", str(recipe), "-o", str(folder), "--device", "cpu", *more]
    if processes > 1 or restarts:
        place = ("--standalone",)
        if meeting is not None:
            conf = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3"
            place = ("--nnodes=1:2", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{meeting}", "--rdzv-id=t")
            place = (*place, f"--rdzv-conf={conf}", "--local-addr=127.0.0.1")
        options = (f"--nproc-per-node={processes}", f"--max-restarts={restarts}", *place)
        start = ["-m", "torch.distributed.run", *options, *start]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    if meeting is not None:  # PyTorch 2.13 tells a machine that joins the wrong port otherwise, and all of them wait
        environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    return subprocess.Popen(
        [sys.executable, *start],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def finish(process: subprocess.Popen) -> None:
    output = process.communicate(timeout=600)[0].decode()
    assert process.returncode == 0, output


def curve(folder: Path) -> list[tuple[int, float]]:
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [(line["step"], line["total"]) for line in lines if line["group"] == "train"]


def weights(folder: Path) -> bytes:
    from safetensors.torch import load_file

    tensors = load_file(folder / "model.safetensors")
    return b"".join(tensors[name].numpy().tobytes() for name in sorted(tensors))


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    return tmp_path / "recipe.toml"


@pytest.mark.slow
def test_three_processes_give_the_numbers_of_one_and_a_run_goes_on_in_another_number(recipe, tmp_path):
    finish(run(tmp_path / "one", recipe, "--set", "steps=8"))
    begun = run(tmp_path / "more", recipe, "--set", "steps=8", processes=3)
    while not (tmp_path / "more" / "state.safetensors").is_file() and begun.poll() is None:
        time.sleep(0.05)
    os.killpg(begun.pid, signal.SIGKILL)
    begun.communicate(timeout=60)
    finish(run(tmp_path / "more", recipe, "--set", "steps=8", "--resume", processes=2))
    assert curve(tmp_path / "more") == curve(tmp_path / "one")
    assert weights(tmp_path / "more") == weights(tmp_path / "one")


@pytest.mark.slow
def test_a_killed_process_is_started_again_and_the_curve_is_that_of_an_undisturbed_run(recipe, tmp_path):
    finish(run(tmp_path / "calm", recipe, processes=2))
    process = run(tmp_path / "killed", recipe, processes=2, restarts=2)
    while not (tmp_path / "killed" / "state.safetensors").is_file():
        assert process.poll() is None
        time.sleep(0.05)
    victims = [pid for pid in children(process.pid) if "libranet.training.start" in command(pid)]
    os.kill(victims[-1], signal.SIGKILL)
    finish(process)
    assert curve(tmp_path / "killed") == curve(tmp_path / "calm")
    assert weights(tmp_path / "killed") == weights(tmp_path / "calm")


@pytest.mark.slow
def test_a_machine_joins_and_is_lost_and_the_curve_is_that_of_one_process(recipe, tmp_path):
    """Torchrun counts no restart when a machine joins: the processes go on because of --auto-resume."""
    more = ("--auto-resume", "--set", "steps=200")
    finish(run(tmp_path / "alone", recipe, *more))
    folder = tmp_path / "together"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    first = run(folder, recipe, *more, restarts=3, meeting=port)
    wait_for_state(folder, after=0.0, process=first)
    second = run(folder, recipe, *more, restarts=3, meeting=port)
    while not [pid for pid in children(second.pid) if "libranet.training.start" in command(pid)]:
        assert (first.poll(), second.poll()) == (None, None)
        time.sleep(0.05)
    for _ in range(2):  # the second one was written by both machines together
        wait_for_state(folder, after=(folder / "state.safetensors").stat().st_mtime, process=first)
    os.killpg(second.pid, signal.SIGKILL)
    second.communicate(timeout=60)
    finish(first)
    assert curve(folder) == curve(tmp_path / "alone")
    assert weights(folder) == weights(tmp_path / "alone")


def wait_for_state(folder: Path, *, after: float, process: subprocess.Popen) -> None:
    state = folder / "state.safetensors"
    while not state.is_file() or state.stat().st_mtime <= after:
        assert process.poll() is None, process.communicate()[0].decode()
        time.sleep(0.05)


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


def command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()

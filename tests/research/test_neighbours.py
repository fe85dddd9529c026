"""The table of what neighbouring frames are worth tells a network that looks at them from one that does not."""

import os
import subprocess
import sys
from pathlib import Path

import cv2
import pytest
import torch

from libranet.network import LiBrANet, save_checkpoint
from small_sets import texture
from tiny_network import TINY, perturb

ROOT = Path(__file__).parents[2]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    for index in range(4):
        clear = texture(48, 96)[:, 2 * index : 2 * index + 64]
        for side, image in (("clear", clear), ("hazy", clear // 2 + 100)):
            folder = tmp_path / "set" / side / "clip"
            folder.mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(folder / f"{index:03d}.png"), image[..., ::-1])
    return tmp_path / "set"


@pytest.mark.parametrize("dead", [False, True])
def test_a_dead_temporal_field_has_the_same_row_with_any_neighbours(pairs: Path, tmp_path: Path, dead: bool) -> None:
    torch.manual_seed(0)
    network = perturb(LiBrANet(TINY))
    if dead:
        assert network.temporal is not None
        with torch.no_grad():
            network.temporal.head.project.weight.zero_()
    save_checkpoint(network, tmp_path / "network.safetensors")
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "benchmarks/neighbours.py"),
            str(pairs),
            "--model",
            tmp_path / "network.safetensors",
        ],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    table = {name: values for name, *values in lines[1:]}
    assert set(table) == {"alone", "wrong", "window", "product", "input", "truth"}
    assert (table["alone"] == table["wrong"]) is dead

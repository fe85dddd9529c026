"""The blind measures on files: the benchmark dehazes a clip as a user does and counts what keeps within the limits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clips import Clip, write_clip
from libranet.network import LiBrANet, save_checkpoint

ROOT = Path(__file__).parents[2]


@pytest.mark.slow  # the backends are compared for new weights
def test_a_clip_is_dehazed_into_a_file_and_measured(tmp_path: Path, tiny_model: LiBrANet) -> None:
    weights = tmp_path / "tiny.safetensors"
    save_checkpoint(tiny_model, weights)
    (tmp_path / "clips").mkdir()
    write_clip(tmp_path / "clips" / "walk.mp4", Clip(frames=6, width=96, height=64))
    command = (sys.executable, ROOT / "benchmarks" / "real_clips.py", tmp_path / "clips", "--model", weights)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    _, _, row, _, last = done.stdout.splitlines()
    name, gain, flicker = (cell.strip() for cell in row.split("|")[1:4])
    assert name == "walk"
    assert float(gain) != 1.0, "the tiny network changes the clip"
    assert float(flicker) > 0
    assert last.startswith("flicker at most 1.1: ")

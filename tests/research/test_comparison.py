"""The comparison of training runs, from end to end with tiny settings."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TINY = (
    *("--models", "libranet-plain,uhdformer", "--seconds", "1", "--device", "cpu", "--precision", "fp32"),
    *("--batch", "2", "--crop", "32", "--scenes", "1", "--lines", "48", "--trial-steps", "1"),
    *("--clips", "3", "--frames", "2", "--clip-size", "96x64", "--bench-seconds", "0.01", "--no-shipped"),
)


def run(folder: Path, *more: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "HOME": str(folder)}
    command = [sys.executable, str(ROOT / "benchmarks" / "comparison.py"), str(folder / "out"), *TINY, *more]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_it_goes_on_where_it_stopped_and_ends_with_a_table(tmp_path):
    assert "not done yet" in run(tmp_path, "--stop-after", "0")
    assert not (tmp_path / "out" / "runs.json").exists(), "no time was left to begin anything"
    out = run(tmp_path)
    assert "all is done" in out
    assert "maxim-outdoor is left out" in out
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["runs"]["uhdformer"]["samples"] >= 2
    assert set(results["sets"]["4K clips"]) == {"identity", "clahe", "dcp", "libranet-plain", "uhdformer"}
    psnr = results["sets"]["4K clips"]["uhdformer"]["psnr"]
    assert psnr["clips"] == 3
    assert psnr["half_width"] is not None
    assert results["speed"]["uhdformer"]["fps"] > 0
    again = run(tmp_path)
    assert "Run(model=" not in again, "nothing is trained twice"
    assert "all is done" in again

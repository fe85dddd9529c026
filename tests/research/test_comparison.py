"""The comparison of training runs, from end to end with tiny settings."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TINY = (
    *("--models", "libranet-plain,uhdformer", "--samples", "4", "--device", "cpu", "--precision", "fp32"),
    *("--batch", "2", "--crop", "32", "--scenes", "1", "--lines", "48", "--trial-steps", "1"),
    *("--clips", "3", "--frames", "2", "--clip-size", "96x64", "--no-shipped"),
)


def run(folder: Path, *more: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "HOME": str(folder)}
    command = [sys.executable, str(ROOT / "benchmarks" / "comparison.py"), str(folder / "out"), *TINY, *more]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def bench_row(model: str, milliseconds: float | None) -> dict:
    row = {"model": model, "size": [96, 64], "parameters": 1, "gflops": 1.0, "milliseconds": milliseconds}
    return row | {"peak_bytes": 2**30, "turns": 3, "device": "here", "precision": "float32", "failure": ""}


@pytest.mark.slow
def test_it_goes_on_where_it_stopped_and_ends_with_a_table(tmp_path):
    assert "not done yet" in run(tmp_path, "--stop-after", "0")
    assert not list((tmp_path / "out" / "runs").glob("*")), "no time was left to begin anything"
    bench = tmp_path / "bench.json"
    rows = [bench_row("uhdformer", 20.0), bench_row("libranet-plain", 10.0)]
    bench.write_text(json.dumps({"rows": rows}))

    claims = tmp_path / "out" / "claims"
    claims.mkdir()
    with (claims / "libranet-plain").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        out = run(tmp_path, "--part", "2/2")
    assert "uhdformer: " in out
    assert "libranet-plain: " not in out, "another process has it"
    assert "not done yet" in out
    shutil.rmtree(tmp_path / "out" / "models")  # as on another machine, which only got OUT/runs
    shutil.rmtree(tmp_path / "out" / "clips")
    out = run(tmp_path, "--part", "1/2", "--bench", str(bench))
    assert "all is done" in out
    assert "maxim-outdoor" not in out, "it is measured on pairs alone, and there are none"
    assert "uhdformer: " not in out, "nothing is trained twice"

    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [row["model"] for row in results["runs"]] == ["identity", "clahe", "dcp", "libranet-plain", "uhdformer"]
    row = results["runs"][-1]
    assert row["samples"] == 4
    psnr = row["sets"]["4K clips"]["psnr"]
    assert psnr["clips"] == 3
    assert psnr["half_width"] is not None
    assert results["psnr"]["uhdformer"] == psnr["mean"]
    line = next(line for line in out.splitlines() if line.startswith("| uhdformer"))
    assert line.endswith("| 50.00 | 1.00 |")
    assert "uhdformer" in (tmp_path / "out" / "quality-by-fps.svg").read_text()

    with pytest.raises(subprocess.CalledProcessError) as error:
        run(tmp_path, "--samples", "6")
    assert "is of another budget" in error.value.stderr

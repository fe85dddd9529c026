"""The fuzzer of `benchmarks/`: one mutated file of every kind. The whole run has 10,000."""

import json
import subprocess
import sys
from pathlib import Path

FUZZ = Path(__file__).parents[2] / "benchmarks" / "fuzz.py"


def test_no_mutated_file_gives_a_traceback_or_loses_frames(tmp_path):
    command = [sys.executable, str(FUZZ), "--files", "29", "--seed", "1", "--json", str(tmp_path / "result.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["files"], result["wrong"]) == (29, [])
    assert {"refused", "partial"} <= set(result["counts"])

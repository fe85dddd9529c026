"""The table of the GPU's product path: every section runs, on tiny frames and with a stand-in for the kernels."""

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from delayed_step import DelayedStep
from libranet.models import LiBrANet

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark(tiny_model: LiBrANet, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark on a CPU, with sizes for a test."""
    pytest.importorskip("triton")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("end_to_end")
    sizes = {"WIDTH": 96, "HEIGHT": 64, "DEVICE": "cpu", "COMPILE": False, "SHORT": 4, "MIDDLE": 8, "RESUMED": 60}
    for name, value in sizes.items():
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(module, "load_network", lambda **_: tiny_model)
    for owner in ("libranet.fused.step", "libranet.backends.fused"):
        monkeypatch.setattr(importlib.import_module(owner), "FusedStep", DelayedStep)
    return module


def run(module: ModuleType, monkeypatch: pytest.MonkeyPatch, folder: Path, *sections: str) -> dict[str, Any]:
    command = ["end_to_end.py", "--out", str(folder), "--frames", "12", "--only", *sections]
    monkeypatch.setattr(sys, "argv", command)
    module.main()
    table = json.loads((folder / "end_to_end.json").read_text())
    failed = [row["name"] for row in table["rows"] if " failed: " in row["name"]]
    assert not failed
    return {row["name"]: row for row in table["rows"]}


def test_every_section_of_one_process_runs(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = run(benchmark, monkeypatch, tmp_path, "kernels", "accuracy", "api", "other_gpus", "files")
    assert rows["capability-8 kernels, forced, batches of 4"]["ratio"] > 0
    assert rows["Dehazer, NumPy frames [H, W, 3] uint8"]["product"] > 0
    for name in ("network stage of a file, 8 bit", "network stage of a file, 10 bit", "file to file, defaults"):
        assert rows[name]["product"] > 0
        assert rows[name]["ratio"] > 0
    assert "memory, host GB, 12 frames (beside: 4)" in rows
    assert "until the first frame is taken, 10 bit" in rows


@pytest.mark.slow
def test_sections_in_processes_of_their_own_run(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = run(benchmark, monkeypatch, tmp_path, "first_frame", "resume")
    (resumed,) = (row for name, row in rows.items() if name.startswith("resumed"))
    assert resumed["product"] == 1.0


def test_a_section_that_fails_costs_only_its_own_rows(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_arguments: object) -> None:
        raise RuntimeError("no such kernel")

    monkeypatch.setitem(benchmark.SECTIONS, "api", fail)
    with pytest.raises(AssertionError, match="api failed: RuntimeError: no such kernel"):
        run(benchmark, monkeypatch, tmp_path, "api", "kernels")
    assert "kernels, RGB 8 bit, latency" in (tmp_path / "end_to_end.txt").read_text()

"""The table of the GPU's product path: every section runs, on tiny frames and with a stand-in for the kernels."""

import importlib
import json
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from delayed_step import DelayedStep
from libranet.network import LiBrANet

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark(tiny_model: LiBrANet, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark with a small network and without kernels."""
    pytest.importorskip("triton")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("end_to_end")
    for owner in ("end_to_end", "end_to_end_sections.kernels", "end_to_end_sections.api"):
        monkeypatch.setattr(importlib.import_module(owner), "load_network", lambda **_: tiny_model)
    for owner in ("libranet.runtime.gpu.step", "libranet.runtime.gpu.backend"):
        monkeypatch.setattr(importlib.import_module(owner), "FusedStep", DelayedStep)
    return module


def run(module: ModuleType, folder: Path, *sections: str) -> dict[str, Any]:
    setting = module.Setting(
        folder, width=96, height=64, device="cpu", long=12, middle=8, short=4, resumed=60, compile=False
    )
    module.run_sections(list(sections), setting, folder)
    rows = json.loads((folder / "end_to_end.json").read_text())["rows"]
    assert not [row["name"] for row in rows if " failed: " in row["name"]]
    return {row["name"]: row for row in rows}


def test_every_section_of_one_process_runs(benchmark: ModuleType, tmp_path: Path) -> None:
    rows = run(benchmark, tmp_path, "kernels", "accuracy", "api", "other_gpus", "files", "codec")
    assert rows["capability-8 kernels, forced, RGB 8 bit, batches of 4"]["ratio"] > 0
    assert rows["Dehazer, NumPy frames [H, W, 3] uint8"]["product"] > 0
    for name in ("network stage of a file, 8 bit", "network stage of a file, 10 bit", "file to file, defaults"):
        assert rows[name]["product"] > 0
        assert rows[name]["ratio"] > 0
    assert "memory, host GB, 12 frames (beside: 4)" in rows
    assert rows["codec alone, ultrafast, 4 encoders (beside: cores busy)"]["product"] > 0


@pytest.mark.slow
def test_sections_in_processes_of_their_own_run(benchmark: ModuleType, tmp_path: Path) -> None:
    rows = run(benchmark, tmp_path, "first_frame", "resume")
    (resumed,) = (row for name, row in rows.items() if name.startswith("resumed"))
    assert resumed["product"] == 1.0


def test_a_section_that_fails_costs_only_its_own_rows(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_arguments: object) -> None:
        raise RuntimeError("no such kernel")

    monkeypatch.setitem(benchmark.SECTIONS, "api", (fail, 10))
    with pytest.raises(AssertionError, match="api failed: no such kernel"):
        run(benchmark, tmp_path, "api", "kernels")
    assert "kernels, RGB 8 bit, latency" in (tmp_path / "end_to_end.txt").read_text()


CHILD = """
import os, signal, sys, time
from pathlib import Path
work, names = Path(sys.argv[1]), sys.argv[2:]
for name in names:
    (work / "section").write_text(name)
    if name == "kernels":
        os.kill(os.getpid(), signal.SIGSEGV)
    if name == "api":
        time.sleep(60)
    with (work / "done").open("a") as file:
        file.write(name + " ")
"""


def test_a_section_that_crashes_or_hangs_costs_only_its_own_rows(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = subprocess.Popen

    def start(command: list[Any], **settings: Any) -> subprocess.Popen[bytes]:
        if "--only" in command:
            command = [sys.executable, "-c", CHILD, str(tmp_path), *command[command.index("--only") + 1 :]]
        return real(command, **settings)

    monkeypatch.setattr(benchmark.subprocess, "Popen", start)
    monkeypatch.setitem(benchmark.SECTIONS, "api", (benchmark.api, 0.5))
    supervisor = benchmark.Supervisor(tmp_path, tmp_path, frames=12, budget=60)
    supervisor.run(["first_frame", "kernels", "api", "files"])
    assert (tmp_path / "done").read_text() == "first_frame files "
    text = (tmp_path / "end_to_end.txt").read_text()
    assert "kernels crashed with exit code -11" in text
    assert "api stopped after" in text
    supervisor.end = time.monotonic()
    supervisor.run(["codec"])
    assert "codec: no time left" in (tmp_path / "end_to_end.txt").read_text()

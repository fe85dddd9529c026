"""Which sections `benchmarks/gpu.py` has, in which order they run, and how one is run in a process of its own."""

import importlib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Section:
    """A function of a module of this package."""

    module: str
    function: str = "run"
    limit: float = 60.0
    """Seconds."""
    parts: int = 1
    """How many processes share the work."""
    tiles_of: str = ""
    """The section whose choice of tiles this one uses."""
    waits: bool = False
    """It compiles in the background and is timed when told to go."""


SECTIONS: dict[str, Section] = {
    "checks": Section("checks", limit=75),
    "accuracy": Section("accuracy", limit=75),
    "prepare": Section("prepare", limit=75, parts=5),
    "tune": Section("tune"),
    "steps": Section("steps", limit=75, tiles_of="tune"),
    "stages": Section("stages", limit=45, tiles_of="tune"),
    "machine": Section("machine", limit=25),
    "host": Section("host", limit=30, tiles_of="tune"),
    "training": Section("training", limit=45),
    "baselines": Section("baselines", limit=40),
    "final_checks": Section("checks", "run_final", limit=60),
    "final_steps": Section("steps", "run_final", limit=45),
    "final_stages": Section("stages", "run_final", limit=20),
    "training_fused": Section("training", "run_fused", limit=25, waits=True),
    "baselines_compiled": Section("baselines", "run_compiled", limit=25, waits=True),
}


@dataclass(frozen=True)
class Schedule:
    """Sections in the order of a run."""

    together: tuple[str, ...]
    """Not timed: side by side, first."""
    alone: tuple[str, ...]
    """Timed: one by one."""
    behind: tuple[str, ...] = ()
    """Compile in the background from the start, and are timed one by one at the end."""

    @property
    def names(self) -> list[str]:
        return [*self.together, *self.alone, *self.behind]

    def only(self, names: list[str] | None) -> "Schedule":
        """The same order, with these sections alone."""
        if names is None:
            return self
        return Schedule(*(tuple(n for n in part if n in names) for part in (self.together, self.alone, self.behind)))


FULL = Schedule(
    ("checks", "accuracy", "prepare"), ("tune", "steps", "stages", "machine", "host", "training", "baselines")
)
FINAL = Schedule(
    ("final_checks", "accuracy"),
    ("final_steps", "final_stages", "baselines", "training"),
    ("training_fused", "baselines_compiled"),
)


def run_section(name: str, work: Path, *, quick: bool, part: int) -> None:
    """Run one section in this process and leave its numbers in `work`."""
    section = SECTIONS[name]
    extra: dict[str, Any] = {"part": part} if section.parts > 1 else {}
    if section.tiles_of:
        tune = importlib.import_module("gpu_sections.tune")
        extra["tiles"] = tune.tiles_from(read_result(work, section.tiles_of))
    if section.waits:
        extra["go"] = work / f"{name}.go"
    module = importlib.import_module(f"gpu_sections.{section.module}")
    result = getattr(module, section.function)(quick=quick, **extra)
    (work / f"{name}.json").write_text(json.dumps(result, indent=1))


def read_result(work: Path, name: str) -> dict[str, Any] | None:
    """A section's numbers, if it got so far."""
    path = work / f"{name}.json"
    return json.loads(path.read_text()) if path.is_file() else None


def start(name: str, work: Path, *, quick: bool, part: int = 0) -> subprocess.Popen[bytes]:
    """Begin a section in a process of its own."""
    script = str(Path(__file__).parents[1] / "gpu.py")
    command = [sys.executable, script, "--section", name, "--part", str(part), "--out", str(work)]
    with (work / f"{name}{part or ''}.log").open("wb") as log:
        return subprocess.Popen(command + ["--quick"] * quick, stdout=log, stderr=subprocess.STDOUT)


def wait(process: subprocess.Popen[bytes], limit: float) -> str:
    """Wait within the limit; say how it ended."""
    try:
        code = process.wait(max(limit, 1.0))
        return "" if code == 0 else f"exit code {code}"
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return f"stopped after {limit:.0f} s"

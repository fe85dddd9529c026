"""One command, one table: is the fused GPU path right, and how fast is every part of it?

    PYTHONPATH=src python3 benchmarks/gpu.py --out results/

Every section runs in a process of its own under a time limit, so that a failing or hanging kernel costs only its own
rows. What is not timed (checks, accuracy, compiling variants ahead) runs side by side first. Full logs and numbers go
to the folder; the summary is printed last.
"""

import argparse
import datetime
import importlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SIDE_BY_SIDE = {"checks": 75, "accuracy": 75, "prepare": 75}
"""Sections that are not timed, with their limits in seconds."""
ONE_BY_ONE = {"tune": 60, "steps": 75, "stages": 45, "machine": 25, "host": 30, "training": 45, "baselines": 120}
"""Sections that are timed, in order."""
LIMITS = {**SIDE_BY_SIDE, **ONE_BY_ONE}
TUNED = ("steps", "stages", "host")
"""Sections that use what `tune` chose."""
PREPARE_PARTS = 5


def run_section(name: str, out: Path, *, quick: bool, part: int) -> None:
    """Run one section in this process and leave its numbers in `out`."""
    section = importlib.import_module(f"gpu_sections.{name}")
    extra: dict[str, Any] = {"part": part} if name == "prepare" else {}
    if name in TUNED:
        tune = importlib.import_module("gpu_sections.tune")
        extra["tiles"] = tune.tiles_from(read_result(out, "tune"))
    result = section.run(quick=quick, **extra)
    (out / f"{name}.json").write_text(json.dumps(result, indent=1))


def read_result(out: Path, name: str) -> dict[str, Any] | None:
    """A section's numbers, if it got so far."""
    path = out / f"{name}.json"
    return json.loads(path.read_text()) if path.is_file() else None


def start(name: str, out: Path, *, quick: bool, part: int = 0) -> subprocess.Popen[bytes]:
    """Begin a section in a process of its own."""
    command = [sys.executable, __file__, "--section", name, "--part", str(part), "--out", str(out)]
    with (out / f"{name}{part or ''}.log").open("wb") as log:
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


def run_all(out: Path, names: list[str], *, quick: bool, budget: float) -> dict[str, str]:
    """Run the sections within the budget; returns how each ended."""
    began, ends = time.monotonic(), {}

    def spent() -> float:
        return time.monotonic() - began

    together = {
        (name, part): start(name, out, quick=quick, part=part)
        for name in names
        if name in SIDE_BY_SIDE
        for part in range(PREPARE_PARTS if name == "prepare" else 1)
    }
    for (name, part), process in together.items():
        ends[f"{name}{part or ''}"] = end = wait(process, min(LIMITS[name], budget) - spent())
        print(f"[{spent():5.0f} s] {name} {part}: {end or 'done'}", flush=True)
    for name in (name for name in names if name in ONE_BY_ONE):
        left = budget - spent()
        ends[name] = end = wait(start(name, out, quick=quick), min(LIMITS[name], left)) if left > 8 else "no time left"
        print(f"[{spent():5.0f} s] {name}: {end or 'done'}", flush=True)
    return ends


def unfinished_rows(out: Path, name: str) -> list[str]:
    """The last lines of a section that left no numbers."""
    log = out / f"{name}.log"
    return log.read_text(errors="replace").splitlines() if log.is_file() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for logs and numbers")
    parser.add_argument("--quick", action="store_true", help="fewer variants and sizes")
    parser.add_argument("--budget", type=float, default=180.0, help="seconds for everything")
    parser.add_argument("--only", nargs="*", choices=list(LIMITS), default=list(LIMITS), help="sections to run")
    parser.add_argument("--section", choices=list(LIMITS), help=argparse.SUPPRESS)
    parser.add_argument("--part", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    if options.section:
        run_section(options.section, out, quick=options.quick, part=options.part)
        return
    ends = run_all(out, options.only, quick=options.quick, budget=options.budget)
    report = importlib.import_module("gpu_sections.report")
    results = {name: read_result(out, name) for name in LIMITS if name != "prepare"}
    logs = {name: unfinished_rows(out, name) for name in options.only if results.get(name) is None}
    stamp = {"date": datetime.date.today().isoformat(), "commit": _commit()}
    text = report.summary(results, ends, logs, stamp)
    (out / "gpu.txt").write_text(text)
    (out / "gpu.json").write_text(json.dumps({**stamp, "ends": ends, **results}, indent=1))
    report.plot(results, out / "gpu-scaling.png")
    print(text, flush=True)


def _commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


if __name__ == "__main__":
    main()

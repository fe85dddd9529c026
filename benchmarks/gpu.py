"""One command, one table: is the fused GPU path right, and how fast is every part of it?

    PYTHONPATH=src python3 benchmarks/gpu.py --out results/
    PYTHONPATH=src python3 benchmarks/gpu.py --final --out results/

Every section runs in a process of its own under a time limit, so that a failing or hanging kernel costs only its own
rows. What is not timed (checks, accuracy, compiling variants ahead) runs side by side first. The first form tunes tiles
and times every stage; `--final` times the defaults, the plain network and training variants. Both leave gpu.json,
gpu.txt and the scaling plot in the folder and print the summary last.
"""

import argparse
import datetime
import importlib
import json
import subprocess
import tempfile
import time
from pathlib import Path

from gpu_sections.schedule import FINAL, FULL, SECTIONS, Schedule, read_result, run_section, start, wait


def run_all(work: Path, schedule: Schedule, *, quick: bool, budget: float) -> dict[str, str]:
    """Run the sections within the budget; returns how each ended."""
    began, ends = time.monotonic(), {}

    def spent() -> float:
        return time.monotonic() - began

    def finish(name: str, part: int, process: subprocess.Popen[bytes], limit: float) -> None:
        ends[f"{name}{part or ''}"] = end = wait(process, min(limit, budget - spent()))
        print(f"[{spent():5.0f} s] {name} {part or ''}: {end or 'done'}", flush=True)

    behind = {name: start(name, work, quick=quick) for name in schedule.behind}
    together = [
        (name, part, start(name, work, quick=quick, part=part))
        for name in schedule.together
        for part in range(SECTIONS[name].parts)
    ]
    for name, part, process in together:
        finish(name, part, process, SECTIONS[name].limit - spent())
    for name in schedule.alone:
        if budget - spent() > 8:
            finish(name, 0, start(name, work, quick=quick), SECTIONS[name].limit)
        else:
            ends[name] = "no time left"
    for name, process in behind.items():
        (work / f"{name}.go").touch()
        finish(name, 0, process, SECTIONS[name].limit)
    return ends


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the numbers and the plot")
    parser.add_argument("--final", action="store_true", help="the defaults, baselines, training")
    parser.add_argument("--quick", action="store_true", help="fewer variants and sizes")
    parser.add_argument("--budget", type=float, default=150.0, help="seconds for everything")
    parser.add_argument("--only", nargs="*", choices=list(SECTIONS), help="sections to run")
    parser.add_argument("--section", choices=list(SECTIONS), help=argparse.SUPPRESS)
    parser.add_argument("--part", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    if options.section:
        run_section(options.section, out, quick=options.quick, part=options.part)
        return
    schedule = (FINAL if options.final else FULL).only(options.only)
    report = importlib.import_module("gpu_sections.report")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        ends = run_all(work, schedule, quick=options.quick, budget=options.budget)
        results = {name: read_result(work, name) for name in schedule.names if SECTIONS[name].parts == 1}
        logs = {name: _last_lines(work, name) for name in results if results[name] is None}
    stamp = {"date": datetime.date.today().isoformat(), "commit": _commit()}
    text = report.summary(results, ends, logs, stamp)
    (out / "gpu.txt").write_text(text)
    (out / "gpu.json").write_text(json.dumps({**stamp, "ends": ends, **results}, indent=1))
    report.plot(results, out / "gpu-scaling.png")
    print(text, flush=True)


def _last_lines(work: Path, name: str) -> list[str]:
    """What a section that left no numbers said last."""
    log = work / f"{name}.log"
    return log.read_text(errors="replace").splitlines() if log.is_file() else []


def _commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


if __name__ == "__main__":
    main()

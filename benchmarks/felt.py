"""What a user waits for: the first frame, a short clip, a file; before and after in one run, with what bounds each.

    PYTHONPATH=src:benchmarks python3 benchmarks/felt.py [--before CHECKOUT] [--rounds 3] [--rows NAME ...]
        [--seconds 2] [--threads 2] [--json FILE]

Every value is one process from its start to its end, on a CPU and, where there is one, on a GPU. `cold` is the first
run after installation: nothing compiled, and no file of the packages in memory. Rounds go over all rows and checkouts
in turn, and the best counts, because other programs only ever make a run slower. Beside the seconds stands the stage
that took longest. `start` is everything before the first frame can be restored: Python, imports, weights. On a busy
machine only the core-seconds say something. Live rows are the age of frames when they leave, not a time to wait for:
a clip is sent at its own pace to an address where nobody listens.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from machine import describe_machine
from video import write_hazy_clip

ROOT = Path(__file__).parents[1]
FIRST_FRAME = """
import json, sys, time
begin = float(sys.argv[1])
marks = {"python": time.time()}
import torch
marks["torch"] = time.time()
import numpy
from libranet.engine.dehazer import Dehazer
marks["libranet"] = time.time()
dehazer = Dehazer(sys.argv[2], device=sys.argv[3], live=True)
marks["weights"] = time.time()
dehazer.push(numpy.full((int(sys.argv[5]), int(sys.argv[4]), 3), 128, numpy.uint8))
marks["first frame"] = time.time()
stages = dict(zip(marks, (b - a for a, b in zip([begin, *marks.values()], marks.values()))))
print(json.dumps({"stages": stages, "backend": dehazer.backend_name}))
"""


@dataclass(frozen=True)
class Row:
    """One thing to wait for."""

    name: str
    model: str
    size: tuple[int, int]
    device: str = "cpu"
    cold: bool = False
    video: bool = False
    """A file through `libranet dehaze`; otherwise the first frame of `Dehazer`."""
    live: bool = False
    """The clip goes to a live output."""


def rows() -> list[Row]:
    """All rows that this machine can run."""
    found = []
    for model in ("base", "small"):
        found += [
            Row(f"first 1080p frame, cold, {model}", model, (1920, 1080), cold=True),
            Row(f"first 1080p frame, warm, {model}", model, (1920, 1080)),
            Row(f"720p clip, cold, {model}", model, (1280, 720), cold=True, video=True),
            Row(f"720p clip, warm, {model}", model, (1280, 720), video=True),
            Row(f"1080p file, {model}", model, (1920, 1080), video=True),
            Row(f"4K file, {model}", model, (3840, 2160), video=True),
            Row(f"live 720p, {model}", model, (1280, 720), video=True, live=True),
        ]
    if torch.cuda.is_available():
        found += [
            Row("first 4K frame, cold, GPU", "base", (3840, 2160), "cuda", cold=True),
            Row("first 4K frame, warm, GPU", "base", (3840, 2160), "cuda"),
            Row("4K file, GPU", "base", (3840, 2160), "cuda", video=True),
        ]
    return found


def forget(checkout: Path) -> None:
    """Make the next run the first one: kernels on disk are deleted, files of the packages leave the memory."""
    for pattern in ("*.nbi", "*.nbc"):  # of checkouts that compile by numba
        for file in checkout.rglob(pattern):
            file.unlink()
    packages = Path(torch.__file__).parents[1]
    folders = [
        checkout / "src",
        *(packages / name for name in ("torch", "cv2", "av", "numpy", "av.libs", "numpy.libs")),
    ]
    for folder in folders:
        for file in folder.rglob("*"):
            if file.is_file():
                descriptor = os.open(file, os.O_RDONLY)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(descriptor)


def measure(row: Row, checkout: Path, clip: Path, folder: Path, threads: int) -> dict:
    """Run one row in a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": str(threads)}
    environment["TRITON_CACHE_DIR"] = str(folder / f"triton-{'cold' if row.cold else 'warm'}-{checkout.name}")
    if row.cold:
        forget(checkout)
        subprocess.run(["rm", "-rf", environment["TRITON_CACHE_DIR"]], check=True)
    begin = time.time()
    if row.video:
        output = "udp://127.0.0.1:9" if row.live else folder / "out.mp4"
        words = ["-m", "libranet", "dehaze", str(clip), "-o", str(output), "--overwrite", "--json"]
        command = [sys.executable, *words, "--model", row.model, "--device", row.device]
    else:
        command = [sys.executable, "-c", FIRST_FRAME, str(begin), row.model, row.device, *map(str, row.size)]
    used = _cpu_seconds()
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    wall, cpu = time.time() - begin, _cpu_seconds() - used
    if done.returncode:
        raise SystemExit(f"{row.name} in {checkout} failed: {done.stderr[-2000:]}")
    if not row.video:
        found = json.loads(done.stdout.splitlines()[-1])
        return {"wall": sum(found["stages"].values()), "cpu": cpu, **found}
    report = json.loads(done.stdout)["results"][0]
    if row.live:
        live = report["live"]
        behind, left_out = live["frames_behind"]["p50"], live["late"] + live["unsent"]
        found = {"wall": live["latency_ms"]["p50"] / 1000, "cpu": cpu, "frames_behind": behind, "left_out": left_out}
        return {**found, "stages": report["stage_seconds"], "backend": report["backend"]}
    stages = {"start": wall - report["seconds"] + report["start_seconds"], **report["stage_seconds"]}
    return {"wall": wall, "cpu": cpu, "stages": stages, "backend": report["backend"], "frames": report["frames"]}


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, help="a checkout to compare with")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", nargs="+", default=[""], help="parts of their names; all by default")
    parser.add_argument("--seconds", type=float, default=2.0, help="of the clips, at 25 frames a second")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    chosen = [row for row in rows() if any(name in row.name for name in options.rows)]
    checkouts = {"after": ROOT} | ({"before": options.before.resolve()} if options.before else {})
    best: dict[str, dict[str, dict]] = {row.name: {} for row in chosen}
    facts = describe_machine() | {"threads": str(options.threads), "load": f"{os.getloadavg()[0]:.1f} before"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clips = {}
        for row in chosen:
            if row.video and row.size not in clips:
                clips[row.size] = folder / f"{row.size[0]}x{row.size[1]}.mp4"
                write_hazy_clip(clips[row.size], *row.size, max(1, round(25 * options.seconds)))
        for _ in range(options.rounds):
            for row in chosen:
                for when, checkout in checkouts.items():
                    if row.live and not (checkout / "src/libranet/engine/live.py").exists():
                        continue  # that checkout has no live outputs
                    found = measure(row, checkout, clips.get(row.size, folder), folder, options.threads)
                    kept = best[row.name].setdefault(when, found)
                    cpu = min(kept["cpu"], found["cpu"])
                    best[row.name][when] = min(kept, found, key=lambda run: run["wall"]) | {"cpu": cpu}
                print(f"{row.name}: done, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    print_table(best)
    facts["load"] += f", {os.getloadavg()[0]:.1f} after"
    print("\n" + ", ".join(f"{key} {value}" for key, value in facts.items()))
    if options.json:
        options.json.write_text(json.dumps({"machine": facts, "results": best}, indent=2) + "\n")


def print_table(best: dict[str, dict[str, dict]]) -> None:
    """Print a Markdown table."""
    print("\n| | backend | seconds, core-seconds | bound by | before | before / after | in core-seconds |")
    print("|---|---|---|---|---|---|---|")
    for name, found in best.items():
        after, before = found["after"], found.get("before")
        stage, seconds = max(after["stages"].items(), key=lambda item: item[1])
        rate = f" ({after['frames'] / after['wall']:.1f} frames a second)" if "frames" in after else ""
        if "frames_behind" in after:
            rate = f" ({after['frames_behind']:.0f} frames behind, {after['left_out']} left out)"
        compared = "- | - | -"
        if before:
            ratios = [before[what] / after[what] for what in ("wall", "cpu")]
            was = f"{before['wall']:.2f}, {before['cpu']:.2f}, {before['backend']}"
            compared = f"{was} | {ratios[0]:.2f} | {ratios[1]:.2f}"
        own = f"{after['wall']:.2f}, {after['cpu']:.2f}{rate}"
        print(f"| {name} | {after['backend']} | {own} | {stage}, {seconds:.2f} | {compared} |")


if __name__ == "__main__":
    main()

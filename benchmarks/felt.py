"""What a user waits for: the first frame, a short clip, a file; before and after in one run, with what bounds each.

    PYTHONPATH=src:benchmarks python3 benchmarks/felt.py [--before CHECKOUT] [--rounds 3] [--rows NAME ...]
        [--seconds 2] [--threads 2] [--budget SECONDS] [--json FILE]

Every value is one process from its start to its end, on a CPU and, where there is one, on a GPU. `cold` is the first
run after installation: nothing compiled, and no file of the packages in memory. Rounds go over all rows and checkouts
in turn, and the best counts, because other programs only ever make a run slower. Beside the seconds stands the stage
that took longest. `start` is everything before the first frame can be restored: Python, imports, weights. On a busy
machine only the core-seconds say something. Every run prints a line when it ends, so a run that is cut off loses
nothing. Live rows are the age of frames when they leave, not a time to wait for:
a clip is sent at its own pace to an address where nobody listens.

On a GPU `cold` is an empty Triton cache, and no record of an earlier comparison; the packages are in memory. Rows run
with the kernels as shipped, with `Triton` alone as before they were, and with Triton `hidden`, whose import fails.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from felt_gpu import FILE, print_foundations, write_clip
from machine import describe_machine

ROOT = Path(__file__).parents[1]
FIRST_FRAME = """
import json, sys, time
begin = float(sys.argv[1])
marks = {"python": time.time()}
if sys.argv[6] == "hidden":
    sys.modules["triton"] = None
import torch
marks["torch"] = time.time()
import numpy
from libranet.engine.dehazer import Dehazer
if sys.argv[6] == "triton":
    from libranet.kernels import shipped
    shipped.FOLDER = shipped.FOLDER / "none"
marks["libranet"] = time.time()
if sys.argv[3] == "cuda":
    torch.zeros(1, device="cuda")
    marks["CUDA"] = time.time()
dehazer = Dehazer(sys.argv[2], device=sys.argv[3], live=True)
marks["weights"] = time.time()
if sys.argv[3] == "cuda":
    from libranet.runtime.gpu.backend import FusedBackend
    marks["kernel modules"] = time.time()
    make, trust = FusedBackend._make_step, FusedBackend._why_distrust
    def timed(name, work):
        def run(*given, **settings):
            result = work(*given, **settings)
            torch.cuda.synchronize()
            marks[name] = time.time()
            return result
        return run
    FusedBackend._make_step, FusedBackend._why_distrust = timed("step", make), timed("comparison", trust)
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
    kernels: str = "shipped"
    decoder: str = "cpu"


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
            Row("first 4K frame, cold, GPU, hidden", "base", (3840, 2160), "cuda", cold=True, kernels="hidden"),
            Row("first 4K frame, cold, GPU, Triton", "base", (3840, 2160), "cuda", cold=True, kernels="triton"),
            Row("first 4K frame, warm, GPU, Triton", "base", (3840, 2160), "cuda", kernels="triton"),
            Row("first 4K frame, cold, GPU, small", "small", (3840, 2160), "cuda", cold=True),
            Row("720p clip, cold, GPU", "base", (1280, 720), "cuda", cold=True, video=True),
            Row("720p clip, warm, GPU", "base", (1280, 720), "cuda", video=True),
            Row("720p clip, cold, GPU, Triton", "base", (1280, 720), "cuda", cold=True, video=True, kernels="triton"),
            Row("1080p file, GPU", "base", (1920, 1080), "cuda", video=True),
            Row("1080p file, GPU, NVDEC", "base", (1920, 1080), "cuda", video=True, decoder="cuda"),
            Row("4K file, GPU", "base", (3840, 2160), "cuda", video=True),
            Row("4K file, GPU, NVDEC", "base", (3840, 2160), "cuda", video=True, decoder="cuda"),
            Row("4K file, GPU, hidden", "base", (3840, 2160), "cuda", video=True, kernels="hidden"),
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
    paths = os.pathsep.join([str(checkout / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": str(threads)}
    if row.device == "cuda":
        # Triton's cache and our own record of comparisons: a cold row empties them, the rows after it find its own.
        home = folder / f"home-{row.kernels}-{checkout.name}"
        environment["TRITON_CACHE_DIR"] = str(home / "triton")
        environment["HOME"] = str(home)
        if row.cold:
            shutil.rmtree(home, ignore_errors=True)
        home.mkdir(exist_ok=True)
    elif row.cold:
        forget(checkout)
    begin = time.time()
    if row.video and row.device == "cuda":
        settings = [clip, folder / "out.mp4", row.model, row.decoder, row.kernels]
        command = [sys.executable, "-c", FILE, *map(str, settings)]
    elif row.video:
        output = "udp://127.0.0.1:9" if row.live else folder / "out.mp4"
        words = ["-m", "libranet", "dehaze", str(clip), "-o", str(output), "--overwrite", "--json"]
        command = [sys.executable, *words, "--model", row.model, "--device", row.device]
    else:
        settings = [begin, row.model, row.device, *row.size, row.kernels]
        command = [sys.executable, "-c", FIRST_FRAME, *map(str, settings)]
    used = _cpu_seconds()
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    wall, cpu = time.time() - begin, _cpu_seconds() - used
    if done.returncode:
        raise RuntimeError(f"{row.name} in {checkout} failed: {done.stderr[-1500:]}")
    if not row.video:
        found = json.loads(done.stdout.splitlines()[-1])
        return {"wall": sum(found["stages"].values()), "cpu": cpu, **found}
    report = json.loads(done.stdout.splitlines()[-1] if row.device == "cuda" else done.stdout)
    report = report["results"][0] if "results" in report else report
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
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds after which no run begins")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    chosen = [row for row in rows() if any(name in row.name for name in options.rows)]
    checkouts = {"after": ROOT} | ({"before": options.before.resolve()} if options.before else {})
    best: dict[str, dict[str, dict]] = {row.name: {} for row in chosen}
    begin = time.monotonic()
    facts = describe_machine() | {"threads": str(options.threads), "load": f"{os.getloadavg()[0]:.1f} before"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clips = {}
        for row in chosen:
            if row.video and (row.size, row.device) not in clips:
                clips[row.size, row.device] = file = folder / f"{row.device}-{row.size[0]}x{row.size[1]}.mp4"
                write_clip(file, row.size, max(1, round(25 * options.seconds)), row.device)
        for number in range(options.rounds):
            for row in chosen:
                for when, checkout in checkouts.items():
                    if row.live and not (checkout / "src/libranet/engine/live.py").exists():
                        continue  # that checkout has no live outputs
                    if (when == "before" and row.kernels != "shipped") or time.monotonic() - begin > options.budget:
                        continue
                    try:
                        clip = clips.get((row.size, row.device), folder)
                        found = measure(row, checkout, clip, folder, options.threads)
                    except (RuntimeError, ValueError, KeyError) as error:
                        print(f"{row.name}, {when}: {error}", flush=True)
                        continue
                    print(f"{row.name}, {when}: {json.dumps(found)}", flush=True)
                    kept = best[row.name].setdefault(when, found)
                    cpu = min(kept["cpu"], found["cpu"])
                    best[row.name][when] = min(kept, found, key=lambda run: run["wall"]) | {"cpu": cpu}
            if number == 0 and any(row.device == "cuda" for row in chosen):
                print_foundations(ROOT, folder)
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
        if "after" not in found:
            continue
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

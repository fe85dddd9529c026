"""How fast outdoor scenes render: `python benchmarks/scenes.py [--device cuda] [--sizes 960x540 ...]`.

Prints, per size, seconds until the first frame (which includes building the scene), frames per second after it (median
over seeds), the processor time, and the peak memory of the process.
"""

import argparse
import platform
import resource
import statistics
import subprocess
import time
from datetime import UTC, datetime

import torch

from libranet.lab.scenes import render_clip


def measure(seed: int, width: int, height: int, frames: int, device: torch.device) -> tuple[float, float, float]:
    """Seconds until the first frame, then wall seconds and processor seconds (all threads) per frame."""
    start = time.perf_counter()
    # The clip's last step shades no further frame: ask for one more than is timed.
    clip = render_clip(seed, frames=frames + 2, width=width, height=height, device=device)
    next(clip)
    _wait(device)
    first = time.perf_counter() - start
    start, busy = time.perf_counter(), time.process_time()
    for _ in range(frames):
        next(clip)
    _wait(device)
    return first, (time.perf_counter() - start) / frames, (time.process_time() - busy) / frames


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 3, 5, 7])
    parser.add_argument("--sizes", nargs="+", default=["320x180", "960x540", "1920x1080"])
    parser.add_argument("--frames", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = torch.device(options.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    print(f"{today} {name}, {options.threads} threads, torch {torch.__version__}, {commit.strip()}")
    print(f"{'size':>10} {'first s':>8} {'frames/s':>9} {'s/frame':>8} {'cpu s/frame':>12} {'slowest seed':>13}")
    for size in options.sizes:
        width, height = (int(v) for v in size.split("x"))
        runs = [measure(seed, width, height, options.frames, device) for seed in options.seeds]
        first, wall, busy = (statistics.median(r[i] for r in runs) for i in range(3))
        slowest = max(r[1] for r in runs)
        print(f"{size:>10} {first:8.2f} {1 / wall:9.2f} {wall:8.2f} {busy:12.2f} {slowest:12.2f}s")
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main()

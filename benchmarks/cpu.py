"""LiBrA-Net and dark channel on a CPU: core-seconds, wall time and memory of one frame.

    PYTHONPATH=src:benchmarks python3 benchmarks/cpu.py [--sizes 1280x720,1920x1080,3840x2160] [--threads 2]
        [--frames 3] [--rounds 2] [--networks base,small] [--backends plain,cpu-fp32] [--json FILE]

Every method restores 8-bit RGB frames in a process of its own, frame by frame as a live video, the network with its
filter over time. A process restores one frame to warm up, then `--frames`; the rounds go over all methods again, the
best of all counts, because other programs only ever make a method slower. Columns: seconds of CPU time and of wall time
for a frame, dark channel's wall time over the method's own, and the process's peak memory up to there: give the
sizes in rising order.

`dark channel, OpenCV` works at full size, by erosion and box filters; `dark channel, product` is `--model dcp`, which
estimates at 540 lines. libranet-small without its weights is timed with random ones: the time does not depend on them.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import torch

from libranet.export.check import moving_clip
from libranet.frames import FrameFormat, Frames
from libranet.frames.format import RGB8
from libranet.network import GridFilter, LiBrANet, Network, packaged_weights
from libranet.network.config import SMALL
from libranet.runtime import load_network, make_backend
from libranet.runtime.choose import BACKENDS, why_not_kernels
from machine import describe_machine

REFERENCE = "dark channel, OpenCV"


def dark_channel(frame: np.ndarray, *, patch: int = 15, radius: int = 60, epsilon: float = 1e-4) -> np.ndarray:
    """He et al. with a guided filter at full size: uint8 [H, W, 3] in and out."""
    image = frame.astype(np.float32) / 255
    kernel, box = np.ones((patch, patch), np.uint8), (2 * radius + 1, 2 * radius + 1)
    dark = cv2.erode(image.min(axis=2), kernel)
    brightest = np.argpartition(dark.ravel(), -max(1, dark.size // 1000))[-max(1, dark.size // 1000) :]
    airlight = image.reshape(-1, 3)[brightest].mean(axis=0)
    rough = 1 - 0.95 * cv2.erode((image / airlight).min(axis=2), kernel)
    guide = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    mean_g, mean_t = cv2.boxFilter(guide, -1, box), cv2.boxFilter(rough, -1, box)
    slope = cv2.boxFilter(guide * rough, -1, box) - mean_g * mean_t
    slope /= cv2.boxFilter(guide * guide, -1, box) - mean_g * mean_g + epsilon
    offset = mean_t - slope * mean_g
    through = np.maximum(cv2.boxFilter(slope, -1, box) * guide + cv2.boxFilter(offset, -1, box), 0.1)
    clear = (image - airlight) / through[..., None] + airlight
    return (np.clip(clear, 0, 1) * 255 + 0.5).astype(np.uint8)


def load(name: str) -> Network:
    if name == "small" and not packaged_weights("small").is_file():
        torch.manual_seed(0)
        return LiBrANet(SMALL).eval()
    return load_network(name, device="cpu", precision="fp32")


def restorer(method: str, width: int, height: int) -> Callable[[np.ndarray], None]:
    """The method as a function of one frame."""
    if method == REFERENCE:
        return lambda frame: _drop(dark_channel(frame))
    name, _, backend = method.partition(", ")
    network = load("dcp" if method == "dark channel, product" else name)
    stream = make_backend(
        network, live=True, grid_filter=GridFilter(), backend="plain" if backend in ("", "product") else backend
    )
    shape = FrameFormat(width, height, RGB8)
    return lambda frame: _drop(stream.push(Frames((torch.from_numpy(frame)[None],), shape)))


def _drop(_: object) -> None:
    return None


def measure(method: str, sizes: list[str], frames: int, threads: int) -> dict[str, dict[str, float]]:
    """Time a method in this process, at each size in turn."""
    torch.set_num_threads(threads)
    cv2.setNumThreads(threads)
    results = {}
    for size in sizes:
        width, height = map(int, size.split("x"))
        clip = [(frame[0].permute(1, 2, 0).numpy() * 255).astype(np.uint8) for frame in moving_clip(2, width, height)]
        clip = [cv2.GaussianBlur(frame, (0, 0), 1.0) for frame in clip]
        run = restorer(method, width, height)
        run(clip[0])
        cpu, wall = [], []
        for index in range(frames):
            begin, used = time.perf_counter(), time.process_time()
            run(clip[index % 2])
            cpu.append(time.process_time() - used)
            wall.append(time.perf_counter() - begin)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        results[size] = {"cpu": min(cpu), "wall": min(wall), "megabytes": peak}
        del run
    return results


def measure_apart(method: str, arguments: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Time a method in a process of its own; nothing where that fails."""
    command = [sys.executable, __file__, "--one", method, "--sizes", arguments.sizes]
    command += ["--threads", str(arguments.threads), "--frames", str(arguments.frames)]
    environment = os.environ | {"OMP_NUM_THREADS": str(arguments.threads), "NUMBA_NUM_THREADS": str(arguments.threads)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        print(f"{method} failed: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return {}
    return json.loads(done.stdout.splitlines()[-1])


def methods(networks: list[str], backends: list[str]) -> list[str]:
    """All methods that this machine can run."""
    here = [name for name in BACKENDS if name == "plain" or (name != "auto" and why_not_kernels(name) is None)]
    chosen = [backend for backend in here if not backends or backend in backends]
    return [REFERENCE, "dark channel, product", *(f"{n}, {b}" for n in networks for b in chosen)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="1280x720,1920x1080,3840x2160")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--frames", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--networks", default="base,small")
    parser.add_argument("--backends", default="", help="all that are here by default")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sizes = arguments.sizes.split(",")
    if arguments.one:
        print(json.dumps(measure(arguments.one, sizes, arguments.frames, arguments.threads)))
        return
    facts = describe_machine() | {"threads": str(arguments.threads), "load": f"{os.getloadavg()[0]:.1f} before"}
    results: dict[str, dict[str, dict[str, float]]] = {size: {} for size in sizes}
    chosen = methods(arguments.networks.split(","), [b for b in arguments.backends.split(",") if b])
    for _ in range(arguments.rounds):
        for method in chosen:
            for size, found in measure_apart(method, arguments).items():
                best = results[size].setdefault(method, found)
                results[size][method] = {
                    "cpu": min(best["cpu"], found["cpu"]),
                    "wall": min(best["wall"], found["wall"]),
                    "megabytes": max(best["megabytes"], found["megabytes"]),
                }
            print(f"{method}: done, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    for size in sizes:
        print_table(size, results[size])
    facts["load"] += f", {os.getloadavg()[0]:.1f} after"
    print(", ".join(f"{key} {value}" for key, value in facts.items()))
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": facts, "results": results}, indent=2) + "\n")


def print_table(size: str, rows: dict[str, dict[str, float]]) -> None:
    """Print a Markdown table, dark channel's time over each method's own beside it."""
    print(f"\n### {size}\n\n| method | core-seconds | wall, s | frames/s | times dark channel | peak MB |")
    print("|---|---|---|---|---|---|")
    reference = rows.get(REFERENCE)
    for method, row in rows.items():
        ratio = f"{reference['wall'] / row['wall']:.2f}" if reference else "-"
        print(
            f"| {method} | {row['cpu']:.3f} | {row['wall']:.3f} | {1 / row['wall']:.2f} | {ratio} "
            f"| {row['megabytes']:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()

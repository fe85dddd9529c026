"""The whole fused step at every size: latency mode and throughput mode, frames already on the device."""

import statistics
import time
import traceback
from typing import Any

import torch

from gpu_sections.timing import SIZES, perturbed_net, random_frames
from libranet.cuda.refiner import Tiles
from libranet.cuda.step import FusedStep

MODES: dict[str, dict[str, Any]] = {
    "latency": {"batch": 1},
    "live (no look-ahead)": {"batch": 1, "lookahead": 0},
    "throughput B=1": {"batch": 1, "overlap": True},
    "throughput B=2": {"batch": 2, "overlap": True},
    "throughput B=4": {"batch": 4, "overlap": True},
    "throughput B=8": {"batch": 8, "overlap": True},
}


def time_step(step: FusedStep, steps: int) -> dict[str, float]:
    """Median and 95th percentile of a step alone, and the sustained rate with steps back to back."""
    batch = step.plan.batch
    for _ in range(12):
        step.advance(batch)
    torch.cuda.synchronize()
    pairs = []
    for _ in range(steps):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        step.advance(batch)
        end.record()
        pairs.append((start, end))
    torch.cuda.synchronize()
    times = sorted(start.elapsed_time(end) for start, end in pairs)
    began = time.perf_counter()
    for _ in range(steps):
        step.advance(batch)
    torch.cuda.synchronize()
    wall = (time.perf_counter() - began) * 1e3
    return {
        "step_ms": statistics.median(times),
        "p95_ms": times[int(0.95 * len(times))],
        "frame_ms": statistics.median(times) / batch,
        "sustained_frame_ms": wall / steps / batch,
    }


def run(*, quick: bool, tiles: Tiles | None) -> dict[str, Any]:
    net = perturbed_net().cuda()
    rows: list[dict[str, Any]] = []
    order = ["4K", "1080p"] if quick else ["4K", "1080p", "8K", "720p"]
    for name in order:
        width, height = SIZES[name]
        for mode, settings in MODES.items():
            if (name == "8K" and settings["batch"] > 4) or (quick and settings["batch"] == 2):
                continue
            try:
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
                before = torch.cuda.memory_allocated()
                began = time.perf_counter()
                step = FusedStep(net, height=height, width=width, tiles=tiles, **settings)
                built = time.perf_counter() - began
                for slot, frame in zip(step.frames, random_frames(step.plan.ring, width, height), strict=True):
                    slot[:height, :width] = frame
                row = {"size": name, "mode": mode, **time_step(step, 30 if quick else 100), "build_s": built}
                row["peak_gb"] = (torch.cuda.max_memory_reserved() - before) / 1e9
                torch.cuda.empty_cache()
                row["held_gb"] = (torch.cuda.memory_reserved() - before) / 1e9
                del step
            except Exception as problem:
                traceback.print_exc()
                row = {"size": name, "mode": mode, "why": repr(problem)[:200]}
            print({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
            rows.append(row)
    return {"rows": rows}

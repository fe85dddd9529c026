"""The whole fused step at every size: latency mode and throughput mode, frames already on the device."""

import gc
import statistics
import time
import traceback
from typing import Any

import torch

from gpu_sections.timing import SHIPPED_FILTER, SIZES, fill_frames, perturbed_net
from libranet.frames import FrameFormat
from libranet.frames.format import RGB8
from libranet.network import LiBrANet
from libranet.runtime.gpu.refiner import RefinerTiles
from libranet.runtime.gpu.step import FusedStep

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
    batch = step.schedule.batch
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


ORDER = ["4K", "1080p", "8K", "720p"]
FINAL_MODES = ["latency", "live (no look-ahead)", "throughput B=4", "throughput B=8"]


def time_mode(net: LiBrANet, size: str, mode: str, tiles: RefinerTiles | None, *, steps: int) -> dict[str, Any]:
    """One row: times, and memory above the weights: kept (graphs included), and at the peak."""
    width, height = SIZES[size]
    row: dict[str, Any] = {"size": size, "mode": mode}
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_reserved()
    try:
        began = time.perf_counter()
        step = FusedStep(net, FrameFormat(width, height, RGB8), tiles=tiles, grid_filter=SHIPPED_FILTER, **MODES[mode])
        row["build_s"] = time.perf_counter() - began
        row["peak_gb"] = (torch.cuda.max_memory_reserved() - before) / 1e9
        torch.cuda.empty_cache()
        row["held_gb"] = (torch.cuda.memory_reserved() - before) / 1e9
        fill_frames(step)
        row |= time_step(step, steps)
    except Exception as problem:
        traceback.print_exc()
        row["why"] = repr(problem)[:200]
    print({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    return row


def run(*, quick: bool, tiles: RefinerTiles | None = None, plan: dict[str, list[str]] | None = None) -> dict[str, Any]:
    net = perturbed_net().cuda()
    plan = plan or {size: list(MODES) for size in (ORDER[:2] if quick else ORDER)}
    cases = [(size, mode) for size, modes in plan.items() for mode in modes if (size, mode) != ("8K", "throughput B=8")]
    return {"rows": [time_mode(net, *case, tiles, steps=30 if quick else 60) for case in cases]}


def run_final(*, quick: bool) -> dict[str, Any]:
    """The modes that matter, with the default tiles."""
    return run(quick=quick, plan=dict.fromkeys(ORDER, FINAL_MODES))

"""Parameters, GFLOPs, frames per second and peak memory of a model at given frame sizes."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from libranet.baselines.cost import network_cost
from libranet.device import describe_device
from libranet.evaluation.restorers import NetworkRestorer, Restorer

SIZES: dict[tuple[int, int], str] = {(1280, 720): "720p", (1920, 1080): "1080p", (3840, 2160): "4K", (7680, 4320): "8K"}
"""The sizes that are measured unless the user names one, and what people call them."""


@dataclass(frozen=True)
class Efficiency:
    """One model at one size, as a stream: every frame is encoded once."""

    model: str
    size: tuple[int, int]
    """Width and height."""
    parameters: int
    gflops: float | None
    """For one window as the paper counts, two per multiply-add; None where the method is not a network."""
    fps: float
    """Restored frames per second, frames already in memory, over `frames` steps after one step of warm-up."""
    peak_bytes: int | None
    """CUDA: peak of allocated memory. CPU: growth of the resident set at its peak, where the system reports it."""
    frames: int
    device: str


def measure_efficiency(
    restorer: Restorer,
    *,
    sizes: Iterable[tuple[int, int]] = SIZES,
    frames: int = 3,
    device: str = "cpu",
) -> list[Efficiency]:
    """Measure the model on random frames of every size."""
    where, found = torch.device(device), []
    for width, height in sizes:
        parameters, gflops = 0, None
        if isinstance(restorer, NetworkRestorer):
            cost = network_cost(restorer.network, width=width, height=height)
            parameters, gflops = cost.parameters, cost.gflops or None
        fps, peak = _run(restorer, width, height, frames, where)
        machine = describe_device(where)
        found.append(Efficiency(restorer.name, (width, height), parameters, gflops, fps, peak, frames, machine))
    return found


def _run(restorer: Restorer, width: int, height: int, frames: int, device: torch.device) -> tuple[float, int | None]:
    frame = torch.rand(3, height, width, generator=torch.Generator().manual_seed(0)).to(device)
    cuda = device.type == "cuda"
    before = _begin_peak(cuda)
    while not restorer.push(frame):  # fill the look-ahead; the first answer is the warm-up
        pass
    if cuda:
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(frames):
        restorer.push(frame)
    if cuda:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    peak = _end_peak(cuda, before)
    restorer.flush()
    return frames / seconds, peak


def _begin_peak(cuda: bool) -> int | None:
    if cuda:
        torch.cuda.reset_peak_memory_stats()
        return 0
    try:
        Path("/proc/self/clear_refs").write_text("5")  # Linux: forget the peak so far
    except OSError:
        return None
    return _status_bytes("VmRSS")


def _end_peak(cuda: bool, before: int | None) -> int | None:
    if cuda:
        return int(torch.cuda.max_memory_allocated())
    peak = _status_bytes("VmHWM")
    return None if before is None or peak is None else max(0, peak - before)


def _status_bytes(field: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), None)

"""A few steps on random numbers: how long a step takes and how much memory it needs, before any data is read."""

import resource
import sys
import time
from dataclasses import dataclass, replace

import torch

from libranet.training.config import TrainConfig
from libranet.training.dataloader import Batch
from libranet.training.trainer import Trainer

CPU_SAMPLES = 2
"""Samples of a rehearsed step on a CPU; time and memory are scaled up to the recipe's batch."""


@dataclass(frozen=True)
class Rehearsal:
    """What a step of a recipe costs on this device."""

    seconds_per_step: float
    peak_bytes: int
    """Memory of the device; on a CPU that of the process, scaled to the batch."""
    parameters: int


def rehearse(config: TrainConfig, device: torch.device, *, steps: int = 3) -> Rehearsal:
    """Train some steps on random numbers. The slowest crop of the recipe is taken.

    Args:
        config: The recipe.
        device: Where it would run.
        steps: Steps that are timed, after two that are not.

    Raises:
        LibraNetError: The network, its initial weights or those of the perceptual term cannot be loaded.
        torch.OutOfMemoryError: The batch does not fit.
    """
    outputs = config.outputs
    batch = config.batch if device.type == "cuda" else min(config.batch, CPU_SAMPLES)
    parts = config.accumulate if batch % (config.accumulate * outputs) == 0 else 1
    trainer = Trainer(replace(config, batch=batch, accumulate=parts), steps=steps + 2, device=device)
    window = 1 if config.still else config.window
    height, width = max(config.crops, key=lambda crop: crop[0] * crop[1])
    before = _process_bytes()
    hazy = torch.rand(batch // parts // outputs, window + (outputs - 1), 3, height, width, device=device)
    clear = torch.rand(batch // parts, 3, height, width, device=device)
    times = []
    for _ in range(steps + 2):
        begin = time.perf_counter()
        trainer.step(*[Batch(hazy, clear, still=config.still)] * parts)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - begin)
    scale = config.batch / batch
    if device.type == "cuda":
        peak = torch.cuda.max_memory_reserved(device)
    else:
        peak = int(before + (_process_bytes() - before) * scale)
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    return Rehearsal(sorted(times[2:])[steps // 2] * scale, peak, parameters)


def _process_bytes() -> int:
    """The most memory that this process has had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024

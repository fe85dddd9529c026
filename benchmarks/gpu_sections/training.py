"""Samples per second of the real training step, plain and with every switch that might help: 512 crops, T = 5, bf16."""

import time
import traceback
from pathlib import Path
from typing import Any

import torch

from gpu_sections.timing import wait_for
from libranet.training.batches import Batch
from libranet.training.config import LossConfig, PhotoSourceConfig, TrainConfig
from libranet.training.loop import Trainer

BATCH = 32
EAGER: dict[str, dict[str, Any]] = {
    "plain": {},
    "amp norms": {"norms": "amp"},
    "amp norms, channels last": {"norms": "amp", "channels_last": True},
    "channels last": {"channels_last": True},
}
FUSED: dict[str, Any] = {"fused": True}
COMPILED: dict[str, Any] = {"compile": True}


def time_variant(
    name: str, switches: dict[str, Any], *, batch: int, go: Path | None = None, search: bool = False
) -> dict:
    """Build a trainer with these switches, warm up (compiling included), wait for `go`, and time its steps."""
    row: dict[str, Any] = {"variant": name, "batch": batch}
    try:
        settings = {"channels_last": False, "fused": False, **switches}
        loss = LossConfig(perceptual="none")
        config = TrainConfig(batch=batch, photos=PhotoSourceConfig(), loss=loss, **settings)
        torch.backends.cudnn.benchmark = search
        device = torch.device("cuda")
        began = time.perf_counter()
        trainer = Trainer(config, steps=1000, device=device)
        generator = torch.Generator(device).manual_seed(0)
        frames = torch.rand(batch, 5, 3, 512, 512, device=device, generator=generator)
        data = Batch(frames, frames[:, 2].flip(0).contiguous())
        for _ in range(3):
            trainer.step(data)
        torch.cuda.synchronize()
        row["ready_s"] = round(time.perf_counter() - began, 1)
        wait_for(go)
        began, steps = time.perf_counter(), 6
        for _ in range(steps):
            trainer.step(data)
        torch.cuda.synchronize()
        row["samples_s"] = round(batch * steps / (time.perf_counter() - began), 1)
    except Exception as problem:
        traceback.print_exc()
        row["why"] = repr(problem)[:200]
    print(row, flush=True)
    return row


def run(*, quick: bool) -> dict[str, Any]:
    batch, rows = 4 if quick else BATCH, []
    for name, switches in EAGER.items():
        rows.append(time_variant(name, switches, batch=batch))
        torch.cuda.empty_cache()
    rows.append(time_variant("amp norms, cuDNN search", {"norms": "amp"}, batch=batch, search=True))
    return {"rows": rows}


def run_fused(*, quick: bool, go: Path) -> dict[str, Any]:
    return {"rows": [time_variant("fused", FUSED, batch=4 if quick else BATCH, go=go)]}


def run_compiled(*, quick: bool, go: Path) -> dict[str, Any]:
    return {"rows": [time_variant("compiled", COMPILED, batch=4 if quick else BATCH, go=go)]}

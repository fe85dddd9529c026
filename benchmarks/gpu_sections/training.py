"""Samples per second of the real training step, plain and fused, bf16: moving windows, and still windows."""

import time
import traceback
from pathlib import Path
from typing import Any

import torch

from gpu_sections.timing import wait_for
from libranet.training.config import LossConfig, PhotoSourceConfig, TrainConfig
from libranet.training.dataloader import Batch
from libranet.training.trainer import Trainer

WINDOWS, STILLS = "512x512, T = 5, batch 32", "384x384, still, batch 64"


def time_steps(name: str, *, fused: bool, quick: bool, go: Path | None = None) -> dict[str, Any]:
    """Build a trainer, warm up (compiling included), wait for `go`, and time its steps."""
    row: dict[str, Any] = {"variant": "fused" if fused else "plain", "work": name}
    try:
        batch, side, frames = (32, 512, 5) if name == WINDOWS else (64, 384, 1)
        batch = 4 if quick else batch
        loss = LossConfig(perceptual="none")
        config = TrainConfig(batch=batch, photos=PhotoSourceConfig(), loss=loss, fused=fused)
        device = torch.device("cuda")
        began = time.perf_counter()
        trainer = Trainer(config, steps=1000, device=device)
        generator = torch.Generator(device).manual_seed(0)
        hazy = torch.rand(batch, frames, 3, side, side, device=device, generator=generator)
        data = Batch(hazy, hazy[:, frames // 2].flip(0).contiguous(), still=frames == 1)
        for _ in range(3):
            trainer.step(data)
        torch.cuda.synchronize()
        row["ready_s"] = round(time.perf_counter() - began, 1)
        wait_for(go)
        trainer.step(data)
        torch.cuda.synchronize()
        began, steps = time.perf_counter(), 10
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
    rows = []
    for name in (WINDOWS, STILLS):
        rows.append(time_steps(name, fused=False, quick=quick))
        torch.cuda.empty_cache()
    return {"rows": rows}


def run_fused(*, quick: bool, go: Path) -> dict[str, Any]:
    return {"rows": [time_steps(name, fused=True, quick=quick, go=go) for name in (WINDOWS, STILLS)]}

"""Samples per second of training, plain and with our GroupNorm + GELU, at 512 crops and T = 5."""

import time
import traceback
from typing import Any

import torch

from gpu_sections.timing import perturbed_net
from libranet.cuda.training import accelerate_training
from libranet.models import LiBrANet


def samples_per_second(net: LiBrANet, *, batch: int, steps: int, channels_last: bool) -> float:
    """Forward, loss, backward and optimiser under bfloat16 autocast."""
    net = net.cuda().train()
    if channels_last:
        net = accelerate_training(net)
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-4)
    frames = torch.rand(batch, 5, 3, 512, 512, device="cuda")
    target = torch.rand(batch, 3, 512, 512, device="cuda")

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            image = net.predict(frames).image
        (image.float() - target).square().add(1e-6).sqrt().mean().backward()
        optimiser.step()

    for _ in range(2):
        step()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    return batch * steps / (time.perf_counter() - began)


def run(*, quick: bool) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for batch in (4,) if quick else (4, 16):
        for name, fast in (("plain", False), ("fused norms, channels last", True)):
            try:
                with torch.backends.cudnn.flags(enabled=True, benchmark=True):
                    rate = samples_per_second(perturbed_net(), batch=batch, steps=5, channels_last=fast)
                row: dict[str, Any] = {"variant": name, "batch": batch, "samples_s": rate}
            except Exception as problem:
                traceback.print_exc()
                row = {"variant": name, "batch": batch, "why": repr(problem)[:200]}
            print(row, flush=True)
            rows.append(row)
            torch.cuda.empty_cache()
    return {"rows": rows}

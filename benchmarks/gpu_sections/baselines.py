"""The plain network on the same GPU: eager in half and single precision, and compiled."""

import time
import traceback
from pathlib import Path
from typing import Any

import torch

from gpu_sections.timing import SIZES, event_ms, perturbed_net, random_frames, wait_for
from libranet.network import LiBrANet, StreamState, start_stream, stream_step


def time_stream(net: LiBrANet, width: int, height: int, *, repeats: int) -> float:
    """Median milliseconds of one streaming step in steady state."""
    frame = (random_frames(1, width, height)[0].permute(2, 0, 1)[None] / 255.0).to(net.dtype)
    state: StreamState = start_stream(net)
    for _ in range(net.config.window):
        _, state = stream_step(net, frame, state)

    def work() -> None:
        nonlocal state
        _, state = stream_step(net, frame, state)

    return event_ms(work, repeats=repeats)


def time_row(variant: str, net: LiBrANet, size: str, *, repeats: int, go: Path | None = None) -> dict[str, Any]:
    """One row of the table."""
    row: dict[str, Any] = {"variant": variant, "size": size}
    began = time.perf_counter()
    try:
        if go is not None:
            time_stream(net, *SIZES[size], repeats=1)  # compiles
            row["ready_s"] = round(time.perf_counter() - began, 1)
            wait_for(go)
        row["ms"] = time_stream(net, *SIZES[size], repeats=repeats)
    except Exception as problem:
        traceback.print_exc()
        row["why"] = repr(problem)[:200]
    print(row, flush=True)
    torch.cuda.empty_cache()
    return row


@torch.no_grad()
def run(*, quick: bool) -> dict[str, Any]:
    half, single = perturbed_net().cuda().half(), perturbed_net().cuda()
    sizes = ["4K"] if quick else ["4K", "1080p"]
    plan = [("eager fp16", half, size) for size in sizes] + [("eager fp32", single, size) for size in sizes]
    plan += [] if quick else [("eager fp16", half, size) for size in ("720p", "8K")]
    return {"rows": [time_row(*case, repeats=3 if quick else 9) for case in plan]}


@torch.no_grad()
def run_compiled(*, quick: bool, go: Path) -> dict[str, Any]:
    net = perturbed_net().cuda().half()
    net.restore = torch.compile(net.restore, dynamic=False)  # type: ignore[method-assign]
    return {"rows": [time_row("compiled fp16", net, "4K", repeats=9, go=go)]}

"""The plain network on the same GPU: eager in half and single precision, and compiled."""

import time
import traceback
from typing import Any

import torch

from gpu_sections.timing import SIZES, event_ms, perturbed_net, random_frames
from libranet.models import LiBrANet, StreamState, start_stream, stream_step


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


@torch.no_grad()
def run(*, quick: bool) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    half, single = perturbed_net().cuda().half(), perturbed_net().cuda()
    compiled = perturbed_net().cuda().half()
    compiled.restore = torch.compile(compiled.restore)  # type: ignore[method-assign]
    order = ["4K"] if quick else ["4K", "1080p", "720p", "8K"]
    plan = [("eager fp16", half, n) for n in order] + [("eager fp32", single, "4K"), ("compiled fp16", compiled, "4K")]
    for variant, net, name in plan:
        width, height = SIZES[name]
        began = time.perf_counter()
        try:
            ms = time_stream(net, width, height, repeats=3 if quick else 7)
            row: dict[str, Any] = {"variant": variant, "size": name, "ms": ms, "took_s": time.perf_counter() - began}
        except Exception as problem:
            traceback.print_exc()
            row = {"variant": variant, "size": name, "why": repr(problem)[:200]}
        print(row, flush=True)
        rows.append(row)
        torch.cuda.empty_cache()
    return {"rows": rows}

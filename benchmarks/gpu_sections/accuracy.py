"""The fused step against the float32 network, in units of 1/255, over streams of random frames."""

import traceback
from typing import Any

import torch
from torch import Tensor

from gpu_sections.timing import SHIPPED_FILTER, random_frames, trained_net
from libranet.frames import FrameFormat
from libranet.frames.format import RGB8
from libranet.network import LiBrANet, start_stream, stream_step
from libranet.runtime.gpu.refiner import RefinerTiles
from libranet.runtime.gpu.step import FusedStep

CASES: list[tuple[int, int, dict[str, Any]]] = [
    (1279, 717, {"batch": 1}),
    (16, 16, {"batch": 1}),
    (3840, 2160, {"batch": 1}),
    (7680, 4320, {"batch": 1}),
    (1279, 717, {"batch": 4, "overlap": True}),
    (3840, 2160, {"batch": 1, "lookahead": 0}),
    (3840, 2160, {"batch": 8, "overlap": True}),
]


def reference_bytes(net: LiBrANet, frames: Tensor, lookahead: int | None) -> Tensor:  # [N, H, W, 3] uint8
    """The plain network's stream, rounded as the fused path rounds."""
    state, out = start_stream(net, lookahead=lookahead, grid_filter=SHIPPED_FILTER), []
    queue: list[Tensor | None] = list(frames)
    while queue or state.waiting:
        frame = queue.pop(0) if queue else None
        image = None if frame is None else frame.permute(2, 0, 1)[None] / 255.0
        restored, state = stream_step(net, image, state)
        if restored is not None:
            out.append((restored[0] * 255.0 + 0.5).to(torch.uint8).permute(1, 2, 0))
    return torch.stack(out)


def compare(
    net: LiBrANet, width: int, height: int, settings: dict[str, Any], tiles: RefinerTiles | None
) -> dict[str, Any]:
    """Mean and largest difference, in bytes, over a short stream with both its ends."""
    count = 5 if width <= 1920 else 3
    frames = random_frames(count, width, height, seed=width + len(settings))
    want = reference_bytes(net, frames, settings.get("lookahead"))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    step = FusedStep(
        net, FrameFormat(width, height, RGB8), tiles=tiles, grid_filter=SHIPPED_FILTER, device=device, **settings
    )
    batch = step.schedule.batch
    got = [step.push((frames[start : start + batch],))[0].clone() for start in range(0, count, batch)]
    got += step.drain()
    difference = (torch.cat(got).int() - want.int()).abs()
    moved = (want.int() - frames.int()).abs().float().mean()
    return {"mean": float(difference.float().mean()), "max": int(difference.max()), "moved": float(moved)}


@torch.no_grad()
def run(*, quick: bool, tiles: RefinerTiles | None = None) -> dict[str, Any]:
    net, weights = trained_net()
    if torch.cuda.is_available():
        net = net.cuda()
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    rows: list[dict[str, Any]] = []
    for width, height, settings in CASES[:3] if quick else CASES:
        row: dict[str, Any] = {"case": f"{width}x{height} {settings}"}
        try:
            row |= compare(net, width, height, settings, tiles)
            row["ok"] = row["mean"] <= 0.2 and row["max"] <= 2
        except Exception as problem:
            traceback.print_exc()
            row |= {"ok": False, "why": repr(problem)[:200]}
        print(row, flush=True)
        rows.append(row)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return {"weights": weights, "rows": rows}

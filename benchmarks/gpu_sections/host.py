"""Frames from main memory to main memory: copies over the bus included, a whole stream at a time."""

import time
import traceback
from typing import Any

import torch

from gpu_sections.timing import SIZES, perturbed_net, random_frames
from libranet.fused.host import restore_frames
from libranet.fused.refiner import Tiles
from libranet.fused.step import FusedStep


def run(*, quick: bool, tiles: Tiles | None = None) -> dict[str, Any]:
    net, rows = perturbed_net().cuda(), []
    for name in ("4K",) if quick else ("4K", "1080p"):
        width, height = SIZES[name]
        frames = list(random_frames(8, width, height).cpu())
        for settings in ({"batch": 1}, {"batch": 4, "overlap": True}):
            row: dict[str, Any] = {"size": name, **settings}
            try:
                step = FusedStep(net, height=height, width=width, tiles=tiles, **settings)
                stacks = torch.stack(frames).split(step.plan.batch)
                want = torch.cat([*(step.push(stack.cuda()).cpu() for stack in stacks), step.drain().cpu()])
                got = torch.stack([frame.clone() for frame in restore_frames(step, frames)])
                row["same"] = bool(torch.equal(got, want))
                count, began = 120, time.perf_counter()
                restored = sum(1 for _ in restore_frames(step, (frames[i % 8] for i in range(count))))
                row |= {"frames": restored, "frame_ms": (time.perf_counter() - began) * 1e3 / count}
                del step
            except Exception as problem:
                traceback.print_exc()
                row["why"] = repr(problem)[:200]
            print(row, flush=True)
            rows.append(row)
            torch.cuda.empty_cache()
    return {"rows": rows}

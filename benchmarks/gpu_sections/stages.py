"""Each stage of the fused step alone, at every size, by replaying a graph that holds just that stage."""

import traceback
from collections.abc import Callable
from typing import Any

import torch

from gpu_sections.timing import SHIPPED_FILTER, SIZES, fill_frames, graph_ms, perturbed_net
from libranet.frames import FrameFormat
from libranet.frames.format import RGB8
from libranet.kernels.norm_mix.gpu import fold_sums_out
from libranet.runtime.gpu.refiner import RefinerTiles
from libranet.runtime.gpu.step import FusedStep


def stages_of(step: FusedStep) -> dict[str, Callable[[], object]]:
    """The step's stages in the order they run."""
    refiner, b, frames, fields = step.refiner, step.buffers, step.frames, step.fields
    history, windows = step.history, step.windows[0]
    strength = step.strength.expand(step.schedule.batch).contiguous()
    block = refiner.fusion_blocks[0]
    count = 8 * b.shape[1] * b.shape[2]
    sums = refiner.sums_of(refiner.tiles.block, b)
    return {
        "encoder input": lambda: frames.read_small(0, fields.small),
        "both encoders": lambda: fields.encode(0),
        "chromatic head": lambda: fields.predict_chroma(0),
        "temporal mix + head": lambda: fields.predict_plane(windows),
        "filter of the grids": history.filter_grids,
        "read frames (down + cells)": lambda: frames.read_cells(0, b.low, b.cells),
        "detail stream": lambda: refiner.run_detail(b),
        "colour field": lambda: refiner.run_field(history.filtered_chroma, history.filtered_planes, strength, b),
        "structure stream": lambda: refiner.run_structure(b),
        "join + fusion": lambda: refiner.run_fusion(b),
        "project": lambda: refiner.run_project(b),
        "steady residual": lambda: history.filter_residuals(history.cell_means(b.residual)),
        "write": lambda: refiner.write_frames(frames, 0, strength, 0, b),
        "  one block: conv": lambda: refiner.convolve(b.x, block.conv, b.raw, refiner.tiles.block, sums=sums),
        "  one block: fold": lambda: fold_sums_out(sums, block.norm.weight, block.norm.bias, b.fold, count=count),
        "  one block: norm+mix": lambda: refiner.mix(block, b, b.joined[..., : refiner.width]),
    }


CASES = [("4K", 1), ("4K", 4), ("1080p", 1), ("720p", 1), ("8K", 1)]
"""Size and batch."""


def run_final(*, quick: bool) -> dict[str, Any]:
    """The cases that matter."""
    return run(quick=quick, cases=CASES[:2])


@torch.no_grad()
def run(
    *, quick: bool, tiles: RefinerTiles | None = None, cases: list[tuple[str, int]] | None = None
) -> dict[str, Any]:
    net = perturbed_net().cuda()
    result: dict[str, Any] = {"stages": {}}
    cases = [("4K", 1), ("1080p", 1)] if quick else cases or CASES
    for name, batch in cases:
        width, height = SIZES[name]
        rows = result["stages"].setdefault(f"{name} B={batch}", {})
        try:
            step = FusedStep(
                net,
                FrameFormat(width, height, RGB8),
                batch=batch,
                grid_filter=SHIPPED_FILTER,
                tiles=tiles,
                graphs=False,
            )
            fill_frames(step)
            step._work(0)
            for stage, work in stages_of(step).items():
                try:
                    rows[stage] = round(graph_ms(work, inner=3, repeats=7) / batch, 4)
                except Exception as problem:
                    traceback.print_exc()
                    rows[stage] = repr(problem)[:100]
                print(name, batch, stage, rows[stage], flush=True)
            del step
        except Exception as problem:
            traceback.print_exc()
            rows["error"] = repr(problem)[:200]
        torch.cuda.empty_cache()
    return result

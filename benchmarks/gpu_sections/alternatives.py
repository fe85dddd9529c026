"""Other ways of cutting up the refiner's kernels, timed beside the defaults and checked first.

Picks, per kernel, what was both right and faster by more than the noise; the default stays otherwise.
"""

import dataclasses
import traceback
from collections.abc import Callable
from typing import Any

import torch

from gpu_sections.checks import check_conv, check_finish, check_structure
from gpu_sections.timing import SIZES, graph_ms
from libranet.cuda.refiner import Tiles
from libranet.ops.conv_triton import ConvTile, conv3x3_out, tile_count
from libranet.ops.frame_torch import enlargement
from libranet.ops.frame_triton import finish_frame_out
from libranet.ops.pointwise_triton import structure_apply_out

SUMS_TILES = [
    ConvTile(3, 64, 32, True, 4, 2),
    ConvTile(2, 128, 32, False, 4, 2),
    ConvTile(2, 64, 32, False, 4, 2),
    ConvTile(4, 32, 32, False, 4, 2),
]
"""For convolutions that leave sums."""
BIAS_TILES = [
    ConvTile(2, 64, 32, True, 4, 2),
    ConvTile(3, 64, 32, True, 4, 3),
    ConvTile(3, 64, 32, False, 4, 2),
    ConvTile(4, 32, 32, False, 4, 2),
]
"""For convolutions with a bias."""
TAILS = [(32, 4), (64, 4), (32, 2), (16, 2)]
"""Cells and warps per program that writes the frame; the default first."""
APPLIES = [(128, 4), (64, 2), (256, 8), (128, 8)]
"""Pixels and warps per program of the structure stream's first map; the default first."""
GAIN = 0.98
"""An alternative is picked when it takes less than this share of the default's time."""


class Race:
    """Times alternatives against a default and remembers every row."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def time(
        self, kernel: str, name: str, work: Callable[[], object], check: Callable[[], float], limit: float
    ) -> float:
        """Median milliseconds; infinite if it is wrong or does not run."""
        row: dict[str, Any] = {"kernel": kernel, "name": name, "ms": None}
        try:
            error = check()
            row |= {"error": error, "ok": error <= limit}  # NaN is not <= anything
            row["ms"] = round(graph_ms(work, inner=4, repeats=9), 4)
        except Exception as problem:
            traceback.print_exc()
            row |= {"ok": False, "why": repr(problem)[:160]}
        print(row, flush=True)
        self.rows.append(row)
        return row["ms"] if row["ok"] and row["ms"] else float("inf")

    def convolution(
        self, kernel: str, default: ConvTile, others: list[ConvTile], cin: int, *, bias: bool, size: tuple[int, int]
    ) -> ConvTile:
        """The fastest tile for one kind of convolution."""
        h, w = size
        xs = [torch.randn(1, h, w, cin, device="cuda").half() for _ in range(2)]
        out, weight = (
            torch.empty(1, h, w, 64, device="cuda").half(),
            (torch.randn(9, 64, cin, device="cuda") / 20).half(),
        )
        shift = torch.randn(64, device="cuda") if bias else None
        turn = [0]

        def work(tile: ConvTile) -> Callable[[], None]:
            sums = None if bias else torch.empty(1, tile_count(tile, h, w), 2, 8, device="cuda")

            def once() -> None:
                turn[0] ^= 1
                conv3x3_out(xs[turn[0]], weight, out, bias=shift, sums=sums, tile=tile)

            return once

        times = {
            tile: self.time(kernel, str(tile), work(tile), lambda t=tile: check_conv(t, cin), 2e-3)
            for tile in (default, *others)
        }
        return _fastest(times)


@torch.no_grad()
def run(*, quick: bool) -> dict[str, Any]:
    width, height = SIZES["720p" if quick else "4K"]
    size = h, w = height // 4, width // 4
    race, tiles = Race(), Tiles()

    block = race.convolution("conv 64>64 +sums", tiles.block, SUMS_TILES, 64, bias=False, size=size)
    join = race.convolution("conv 128>64 +bias", tiles.join, BIAS_TILES, 128, bias=True, size=size)
    project = race.convolution("conv 64>64 +bias", tiles.project, BIAS_TILES, 64, bias=True, size=size)

    frames = torch.randint(0, 256, (2, height, width, 3), dtype=torch.uint8, device="cuda")
    out = torch.empty_like(frames[:1])
    residual, delta = torch.randn(1, h, w, 64, device="cuda").half(), torch.randn(1, 3, h, w, device="cuda") * 0.05
    one, matrix = torch.ones(1, device="cuda"), enlargement().cuda()

    def tail(cut: tuple[int, int]) -> float:
        work = lambda: finish_frame_out(frames, residual, delta, one, matrix, out, cut=cut)  # noqa: E731
        return race.time("write frame", str(cut), work, lambda: check_finish(cut), 0.02)

    small, weight = torch.rand(1, 3, h, w, device="cuda"), (torch.randn(64, 32, device="cuda") / 5).half()
    fold, apply_out = torch.randn(1, 2, 64, device="cuda"), torch.empty(1, h, w, 64, device="cuda").half()

    def apply(cut: tuple[int, int]) -> float:
        work = lambda: structure_apply_out(small, weight, fold, apply_out, cut=cut)  # noqa: E731
        return race.time("structure apply", str(cut), work, lambda: check_structure(cut), 2e-3)

    picked = dataclasses.replace(
        tiles,
        stem=block,
        block=block,
        join=join,
        project=project,
        tail=_fastest({each: tail(each) for each in TAILS}),
        structure_apply=_fastest({each: apply(each) for each in APPLIES}),
    )
    return {"rows": race.rows, "tiles": dataclasses.asdict(picked), "changed": picked != tiles}


def _fastest(times: dict[Any, float]) -> Any:
    """The fastest, or the first, which is the default, where none gains."""
    default, best = next(iter(times)), min(times, key=lambda each: times[each])
    return best if times[best] < GAIN * times[default] else default

"""Compiles, on tiny maps, every kernel variant that later sections time. Several of these run side by side."""

import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from gpu_sections.tune import CONV_TILES, PIXEL_TILES
from libranet.kernels.conv3x3.gpu import conv3x3_out
from libranet.kernels.norm_mix.gpu import normalise_mix_out
from libranet.kernels.tiles import ConvTile, PixelTile

PARTS = 5


def _conv(tile: ConvTile, cin: int, *, bias: bool) -> None:
    x = torch.randn(1, 5, 20, cin, device="cuda").half()
    sums = None if bias else torch.empty(1, tile.parts(5, 20), 2, 8, device="cuda")
    weight = torch.randn(9, 64, cin, device="cuda").half()
    shift = torch.zeros(64, device="cuda") if bias else None
    conv3x3_out(x, weight, torch.empty(1, 5, 20, 64, device="cuda").half(), bias=shift, sums=sums, tile=tile)


def _point(tile: PixelTile, *, mixed: bool) -> None:
    raw, skip, out = (torch.randn(1, 5, 20, 64, device="cuda").half() for _ in range(3))
    fold, bias = torch.randn(1, 2, 64, device="cuda"), torch.zeros(64, device="cuda")
    mix = torch.zeros(64, 64, device="cuda").half()
    if mixed:
        normalise_mix_out(raw, fold, out, skip=skip, mix=mix, mix_bias=bias, tile=tile)
    else:
        normalise_mix_out(raw, fold, out, tile=tile)


def run(*, quick: bool, part: int) -> dict[str, Any]:
    kinds = ((64, False), (128, True), (64, True))
    jobs: list[Callable[[], None]] = [
        partial(_conv, tile, cin, bias=bias) for tile in CONV_TILES for cin, bias in kinds
    ]
    jobs += [partial(_point, tile, mixed=mixed) for tile in PIXEL_TILES for mixed in (True, False)]
    done = sum(_survives(job) for job in jobs[part :: PARTS * (4 if quick else 1)])
    torch.cuda.synchronize()
    return {"compiled": done}


def _survives(job: Callable[[], object]) -> bool:
    try:
        job()
    except Exception:
        traceback.print_exc()
        return False
    return True

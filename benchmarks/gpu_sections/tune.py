"""Times the kernels with every tile configuration at one size and keeps the fastest.

On Hopper the refiner uses weight-stationary kernels for most of these, which have tiles of their own.
"""

import dataclasses
import traceback
from collections.abc import Callable
from typing import Any

import torch

from gpu_sections.timing import SIZES, graph_ms
from libranet.kernels.conv3x3.gpu import conv3x3_out
from libranet.kernels.frame_io.gpu import finish_frame_out
from libranet.kernels.norm_mix.gpu import normalise_mix_out
from libranet.kernels.tiles import ConvTile, PixelTile
from libranet.runtime.gpu.refiner import RefinerTiles

CONV_TILES = [
    ConvTile(3, 64, 32, False, 4, 2),
    ConvTile(2, 128, 32, False, 4, 2),
    ConvTile(4, 64, 32, True, 4, 2),
    ConvTile(4, 64, 32, True, 4, 3),
    ConvTile(4, 64, 64, True, 4, 2),
    ConvTile(2, 128, 32, True, 4, 2),
    ConvTile(2, 128, 64, False, 4, 2),
    ConvTile(2, 128, 64, True, 8, 2),
    ConvTile(4, 128, 32, True, 8, 2),
    ConvTile(4, 64, 64, True, 8, 2),
    ConvTile(2, 64, 64, True, 4, 2),
    ConvTile(3, 64, 32, True, 4, 2),
    ConvTile(4, 64, 16, True, 4, 4),
    ConvTile(1, 128, 64, True, 4, 2),
]
PIXEL_TILES = [
    PixelTile(64, 4),
    PixelTile(128, 4),
    PixelTile(128, 8),
    PixelTile(64, 8),
    PixelTile(32, 2),
]


def _fastest(name: str, candidates: list[Any], make: Callable[[Any], Callable[[], None]], rows: list[dict]) -> Any:
    """The candidate with the least median time; one that fails is reported and passed over."""
    times = {}
    for candidate in candidates:
        try:
            times[candidate] = graph_ms(make(candidate), inner=4, repeats=7)
            row = {"kernel": name, "tile": str(candidate), "ms": round(times[candidate], 4)}
        except Exception as problem:
            traceback.print_exc()
            row = {"kernel": name, "tile": str(candidate), "ms": None, "why": repr(problem)[:160]}
        print(row, flush=True)
        rows.append(row)
    if not times:
        raise RuntimeError(f"every candidate of {name} failed")
    return sorted(times, key=lambda c: times[c])


def run(*, quick: bool) -> dict[str, Any]:
    width, height = SIZES["720p" if quick else "4K"]
    h, w = height // 4, width // 4
    rows: list[dict] = []
    device = "cuda"

    def maps(channels: int, count: int = 2) -> list[torch.Tensor]:
        return [torch.randn(1, h, w, channels, device=device).half() for _ in range(count)]

    sums = torch.empty(h * w * 16, device=device)

    def conv(cin: int, *, bias: bool) -> Callable[[ConvTile], Callable[[], None]]:
        xs, (out,) = maps(cin), maps(64, 1)
        weight = (torch.randn(9, 64, cin, device=device) * 0.05).half()
        shift = torch.randn(64, device=device) if bias else None
        turn = [0]

        def make(tile: ConvTile) -> Callable[[], None]:
            part = None if bias else sums[: tile.parts(h, w) * 16].view(1, -1, 2, 8)

            def work() -> None:
                turn[0] ^= 1
                conv3x3_out(xs[turn[0]], weight, out, bias=shift, sums=part, tile=tile)

            return work

        return make

    block = _fastest("conv 64>64 +sums", CONV_TILES[:4] if quick else CONV_TILES, conv(64, bias=False), rows)
    best = block[:5]
    join = _fastest("conv 128>64 +bias", best, conv(128, bias=True), rows)
    project = _fastest("conv 64>64 +bias", best[:3], conv(64, bias=True), rows)

    frames = torch.randint(0, 256, (2, height, width, 3), dtype=torch.uint8, device=device)
    out = torch.empty_like(frames[:1])
    delta, strength = torch.randn(1, 3, h, w, device=device) * 0.05, torch.ones(1, device=device)
    (x, skip), (raw,) = maps(64), maps(64, 1)
    bias = torch.zeros(64, device=device)

    finish_tile = PixelTile(64, 4)
    tail = graph_ms(lambda: finish_frame_out(frames, raw, delta, strength, out, tile=finish_tile), inner=4)
    rows.append({"kernel": "finish alone", "tile": "", "ms": round(tail, 4)})

    fold, mix = torch.randn(1, 2, 64, device=device), (torch.randn(64, 64, device=device) * 0.1).half()

    def point(tile: PixelTile) -> Callable[[], None]:
        return lambda: normalise_mix_out(raw, fold, x, skip=skip, mix=mix, mix_bias=bias, tile=tile)

    def plain(tile: PixelTile) -> Callable[[], None]:
        return lambda: normalise_mix_out(raw, fold, x, tile=tile)

    points = _fastest("norm+gelu+mix+skip", PIXEL_TILES, point, rows)
    _fastest("norm+gelu", points[:3], plain, rows)

    tiles = RefinerTiles(block[0], block[0], join[0], project[0], point=points[0])
    return {"rows": rows, "tiles": dataclasses.asdict(tiles)}


def tiles_from(result: dict[str, Any] | None) -> RefinerTiles | None:
    """Read back what `run` chose."""
    if not result or "tiles" not in result:
        return None
    stored = dict(result["tiles"])
    convs = {name: ConvTile(**stored[name]) for name in ("stem", "block", "join", "project")}
    pixels = {name: PixelTile(**stored[name]) for name in ("point", "write", "structure_apply")}
    return RefinerTiles(**convs, **pixels, weight_stationary=stored["weight_stationary"])

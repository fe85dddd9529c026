"""Every kernel against its reference implementation, on fresh random inputs and poisoned outputs."""

import traceback
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gpu_sections.timing import perturbed_net, random_frames
from gpu_sections.tune import CONV_TILES, PIXEL_TILES
from libranet.kernels.color_field import reference as field_reference
from libranet.kernels.color_field.gpu import apply_field_out
from libranet.kernels.conv3x3 import reference as conv_reference
from libranet.kernels.conv3x3.gpu import conv3x3_out
from libranet.kernels.frame_io import reference as frame_reference
from libranet.kernels.frame_io.gpu import finish_frame_out, read_cells_out
from libranet.kernels.norm_mix import reference as mix_reference
from libranet.kernels.norm_mix.gpu import fold_sums_out, normalise_mix_out, structure_apply_out, structure_sums_out
from libranet.kernels.resample.gpu import ResizeBands, reduce_frames_out
from libranet.kernels.resample.reference import downsample
from libranet.kernels.residual_norm import reference as norm_reference
from libranet.kernels.residual_norm.triton import residual_norm
from libranet.kernels.tiles import STRUCTURE_TILE, SUMS_STRIP, ConvTile, PixelTile
from libranet.runtime.gpu.fields import FusedFields
from libranet.runtime.gpu.refiner import RefinerTiles
from libranet.runtime.gpu.support import supports_weight_stationary

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def poison(*shape: int, dtype: torch.dtype = torch.float16) -> Tensor:
    return torch.full(shape, float("nan"), dtype=dtype, device=DEVICE)


def random(*shape: int, scale: float = 1.0) -> Tensor:
    return torch.randn(*shape, device=DEVICE) * scale


def error(out: Tensor, reference: Tensor) -> float:
    """|out - ref| / |ref|; not a number if anything was left unwritten."""
    return float((out.double() - reference.double()).norm() / reference.double().norm().clamp_min(1e-30))


def worst_error(
    reference: Callable[..., None],
    kernel: Callable[..., None],
    inputs: dict[str, Any],
    written: dict[str, Tensor],
    **kernel_only: object,
) -> float:
    """Call both with the same arguments and compare all they write; partial sums by their total."""
    wanted = {name: torch.zeros_like(out, dtype=torch.float64) for name, out in written.items()}
    reference(**inputs, **wanted)
    kernel(**inputs, **written, **kernel_only)
    pairs = ((name, out.double(), wanted[name]) for name, out in written.items())
    return max(error(a.sum(-3), b.sum(-3)) if name == "sums" else error(a, b) for name, a, b in pairs)


def check_conv(tile: ConvTile | None, cin: int, *, with_bias: bool, with_sums: bool) -> float:
    """Without a tile, the weight-stationary kernel."""
    b, h, w = 2, 22, 150
    weight = conv_reference.pack_weight(random(64, cin, 3, 3, scale=0.05))
    inputs = {"x": random(b, h, w, cin).half(), "weight": weight} | ({"bias": random(64)} if with_bias else {})
    written = {"out": poison(b, h, w, 64)}
    if with_sums:
        written["sums"] = poison(b, (tile or SUMS_STRIP).parts(h, w), 2, 8, dtype=torch.float32)
    if tile is not None:
        return worst_error(conv_reference.conv3x3_out, conv3x3_out, inputs, written, tile=tile)
    from libranet.kernels.conv3x3 import hopper

    return worst_error(conv_reference.conv3x3_out, hopper.conv3x3_out, inputs, written)


def check_fold() -> float:
    sums = torch.rand(2, 1500, 2, 8, device=DEVICE)
    sums[:, :, 1] += 1.0
    inputs = {"sums": sums, "weight": random(64), "bias": random(64), "count": 1500}
    return worst_error(
        mix_reference.fold_sums_out, fold_sums_out, inputs, {"fold": poison(2, 2, 64, dtype=torch.float32)}
    )


def check_point(tile: PixelTile | None, *, mixed: bool) -> float:
    """Without a tile, the weight-stationary kernel, `skip` overwritten as in the last block of the fusion."""
    b, h, w, c = 2, 21, 75, 64
    inputs = {"raw": random(b, h, w, c).half(), "fold": random(b, 2, c)}
    if mixed:
        inputs |= {"skip": random(b, h, w, c).half(), "mix": random(c, c, scale=0.1).half(), "mix_bias": random(c)}
    wide = poison(b, h, w, 2 * c)
    written = {"out": wide[..., c:]}
    if tile is not None:
        worst = worst_error(mix_reference.normalise_mix_out, normalise_mix_out, inputs, written, tile=tile)
    else:
        from libranet.kernels.norm_mix import hopper

        worst = worst_error(mix_reference.normalise_mix_out, hopper.normalise_mix_out, inputs, written)
        hopper.normalise_mix_out(**inputs, out=inputs["skip"])
        assert torch.equal(inputs["skip"], wide[..., c:]), "differs when it overwrites its input"
    assert wide[..., :c].isnan().all(), "wrote outside of its slice"
    return worst


def check_structure() -> float:
    b, h, w = 2, 21, 75
    weight = mix_reference.pack_structure_weight(random(64, 3, 3, 3, scale=0.2))
    inputs = {"small": torch.rand(b, 3, h, w, device=DEVICE), "weight": weight}
    sums = {"sums": poison(b, h * STRUCTURE_TILE.parts(w), 2, 8, dtype=torch.float32)}
    worst = worst_error(mix_reference.structure_sums_out, structure_sums_out, inputs, sums)
    inputs["fold"] = random(b, 2, 64)
    out = {"out": poison(b, h, w, 64)}
    return max(worst, worst_error(mix_reference.structure_apply_out, structure_apply_out, inputs, out))


def _ring(h: int, w: int) -> Tensor:
    return torch.randint(0, 256, (3, 4 * h, 4 * w, 3), dtype=torch.uint8, device=DEVICE)


def check_cells() -> float:
    written = {"low": poison(2, 3, 21, 75, dtype=torch.float32), "cells": poison(2, 21, 75, 64)}
    inputs = {"frames": _ring(21, 75), "first": 2}
    return worst_error(frame_reference.read_cells_out, read_cells_out, inputs, written)


def check_fields(batch: int) -> float:
    """Both fields of the network with random weights, from 8-bit frames to grids and planes."""
    net = perturbed_net().to(DEVICE)
    assert net.chromatic is not None
    assert net.temporal is not None
    frames = random_frames(batch, 640, 360).to(DEVICE)
    fields = FusedFields(net.chromatic, net.temporal, batch=batch, ring=batch, size=256, device=torch.device(DEVICE))
    windows = torch.randint(0, batch, (batch, 5), device=DEVICE)
    bands = ResizeBands.make(360, 640, 256).to(torch.device(DEVICE))
    reduce_frames_out(frames, fields.small, bands=bands)
    fields.encode(0)
    fields.predict_chroma(0)
    fields.predict_plane(windows)
    with torch.no_grad():
        small = downsample(frames.permute(0, 3, 1, 2) / 255.0, (256, 256)) * 2.0 - 1.0
        plane = net.temporal.mix(net.temporal.encode(small)[windows], centre_only=True)[:, :, 0]
        return max(error(fields.chroma, net.chromatic(small)), error(fields.plane, plane))


def check_finish(tile: PixelTile) -> float:
    """Bytes differ by at most one, where a sum lies within rounding of a half."""
    h, w = 21, 75
    inputs = {
        "frames": _ring(h, w),
        "residual": random(2, h, w, 64, scale=0.1).half(),
        "delta": random(2, 3, h, w, scale=0.1),
        "strength": torch.tensor([0.7, 0.4], device=DEVICE),
        "first": 2,
    }
    out, want = (torch.zeros(2, 4 * h, 4 * w, 3, dtype=torch.uint8, device=DEVICE) for _ in range(2))
    finish_frame_out(**inputs, out=out, tile=tile)
    frame_reference.finish_frame_out(**inputs, out=want)
    difference = (out.int() - want.int()).abs()
    assert difference.max() <= 1, f"bytes differ by up to {int(difference.max())}"
    return float(difference.float().mean())


def check_field() -> float:
    low = torch.rand(2, 3, 21, 300, device=DEVICE)
    inputs = {
        "low": low,
        "chromatic": random(2, 2, 12, 8, 16, 16, scale=0.3),
        "plane": random(2, 12, 16, 16, scale=0.3),
        "strength": torch.tensor([0.7, 0.4], device=DEVICE),
    }
    written = {name: poison(*low.shape, dtype=torch.float32) for name in ("small", "delta")}
    scratch = poison(2, 21, 2, 8, 16, 16, dtype=torch.float32)
    return worst_error(field_reference.apply_field_out, apply_field_out, inputs, written, scratch=scratch)


def check_group_norm(channels: int, *, gradients: bool) -> float:
    x = random(3, channels, 33, 31).contiguous(memory_format=torch.channels_last)
    leaves = [t.requires_grad_(gradients) for t in (x, random(channels), random(channels))]
    out, reference = (f(*leaves, 8) for f in (residual_norm, norm_reference.residual_norm))
    if not gradients:
        return error(out, reference)
    upstream = torch.randn_like(x)
    pairs = zip(*(torch.autograd.grad(y, leaves, upstream) for y in (out, reference)), strict=True)
    return max(error(a, b) for a, b in pairs)


def all_checks(tiles: list[ConvTile], points: list[PixelTile]) -> list[tuple[str, Callable[[], float], float]]:
    """Name, check, largest error allowed."""
    checks: list[tuple[str, Callable[[], float], float]] = []

    def conv(name: str, tile: ConvTile | None, cin: int, *, bias: bool, sums: bool) -> None:
        checks.append((f"conv {cin} {name}", lambda: check_conv(tile, cin, with_bias=bias, with_sums=sums), 2e-3))

    for tile in tiles:
        conv(str(tile), tile, 64, bias=True, sums=True)
    conv(str(tiles[0]), tiles[0], 128, bias=True, sums=True)
    if DEVICE == "cuda" and supports_weight_stationary(64, torch.device(DEVICE)):  # as the refiner uses them
        conv("weight-stationary, sums", None, 64, bias=False, sums=True)
        conv("weight-stationary, bias", None, 64, bias=True, sums=False)
        conv("weight-stationary, bias", None, 128, bias=True, sums=False)
        checks.append(("norm+gelu+mix weight-stationary", lambda: check_point(None, mixed=True), 2e-3))
    checks.append(("fold", check_fold, 1e-4))
    checks += [(f"norm+gelu+mix {p}", lambda t=p: check_point(t, mixed=True), 2e-3) for p in points]
    checks.append((f"norm+gelu {points[0]}", lambda: check_point(points[0], mixed=False), 2e-3))
    checks += [("structure stem", check_structure, 2e-3), ("read cells", check_cells, 1e-5)]
    checks.append(("finish", lambda: check_finish(RefinerTiles().write), 0.02))
    checks.append(("colour field", check_field, 1e-4))
    checks += [(f"encoders, batch {batch}", lambda b=batch: check_fields(b), 1e-2) for batch in (1, 8)]
    for channels in (24, 192):
        checks.append((f"groupnorm {channels}", lambda c=channels: check_group_norm(c, gradients=False), 1e-3))
        checks.append((f"groupnorm {channels} grad", lambda c=channels: check_group_norm(c, gradients=True), 1e-3))
    return checks


def run(*, quick: bool) -> dict[str, Any]:
    return run_checks(all_checks(CONV_TILES, PIXEL_TILES)[:: 4 if quick else 1])


def run_final(*, quick: bool) -> dict[str, Any]:
    """The kernels that are in use."""
    tiles = RefinerTiles()
    return run_checks(all_checks([tiles.block, tiles.project], [tiles.point])[:: 4 if quick else 1])


def run_checks(checks: list[tuple[str, Callable[[], float], float]]) -> dict[str, Any]:
    """One row per check."""
    rows = []
    for name, check, limit in checks:
        try:
            value = check()
            row = {"name": name, "error": value, "limit": limit, "ok": value <= limit}  # NaN is not <= anything
        except Exception as problem:
            traceback.print_exc()
            row = {"name": name, "error": None, "limit": limit, "ok": False, "why": repr(problem)[:200]}
        print(row, flush=True)
        rows.append(row)
    return {"rows": rows}

"""Every kernel against its plain twin, on fresh random inputs and poisoned outputs."""

import traceback
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gpu_sections.timing import perturbed_net, random_frames
from gpu_sections.tune import CONV_TILES, POINT_TILES
from libranet.fused.encoders import FusedEncoders
from libranet.fused.refiner import Tiles
from libranet.fused.support import can_hold_weights
from libranet.kernels.color_field import reference as field_reference
from libranet.kernels.color_field.triton import apply_field_out
from libranet.kernels.conv3x3.triton import ConvTile, conv3x3_out, held_tiles, pack_weight, tile_count
from libranet.kernels.frame_io import reference as frame_reference
from libranet.kernels.frame_io.triton import finish_frame_out, read_cells_out
from libranet.kernels.norm_mix.triton import (
    PointTile,
    fold_sums_out,
    normalise_mix_out,
    pack_structure_weight,
    structure_apply_out,
    structure_sums_out,
    structure_tiles,
)
from libranet.kernels.resample.reference import downsample
from libranet.kernels.residual_norm import reference as norm_reference
from libranet.kernels.residual_norm.triton import residual_norm

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def poison(*shape: int, dtype: torch.dtype = torch.float16) -> Tensor:
    return torch.full(shape, float("nan"), dtype=dtype, device=DEVICE)


def error(out: Tensor, reference: Tensor) -> float:
    """|out - ref| / |ref|; not a number if anything was left unwritten."""
    return float((out.double() - reference.double()).norm() / reference.double().norm().clamp_min(1e-30))


def check_conv(tile: ConvTile, cin: int) -> float:
    x, weight, bias = _conv_inputs(cin)
    b, h, w, _ = x.shape
    out, sums = poison(b, h, w, 64), poison(b, tile_count(tile, h, w), 2, 8, dtype=torch.float32)
    conv3x3_out(x, pack_weight(weight), out, bias=bias, sums=sums, tile=tile)
    return _conv_error(x, weight, bias, out, sums)


def check_held_conv(cin: int, *, with_sums: bool) -> float:
    """As the refiner uses it: sums without a bias, or a bias without sums."""
    from libranet.kernels.conv3x3.gluon import conv3x3_held_out

    x, weight, bias = _conv_inputs(cin)
    b, h, w, _ = x.shape
    out, sums = poison(b, h, w, 64), poison(b, held_tiles(h, w), 2, 8, dtype=torch.float32)
    bias = bias.zero_() if with_sums else bias
    shift, partial = (None, sums) if with_sums else (bias, None)
    conv3x3_held_out(x, pack_weight(weight), out, bias=shift, sums=partial)
    return _conv_error(x, weight, bias, out, partial)


def _conv_inputs(cin: int) -> tuple[Tensor, Tensor, Tensor]:
    x = torch.randn(2, 22, 150, cin, device=DEVICE).half()
    return x, torch.randn(64, cin, 3, 3, device=DEVICE) * 0.05, torch.randn(64, device=DEVICE)


def _conv_error(x: Tensor, weight: Tensor, bias: Tensor, out: Tensor, sums: Tensor | None) -> float:
    reference = F.conv2d(x.double().permute(0, 3, 1, 2), weight.half().double(), bias.double(), padding=1)
    worst = error(out, reference.permute(0, 2, 3, 1))
    if sums is None:
        return worst
    groups = reference.unflatten(1, (8, -1))
    totals = torch.stack([groups.sum((2, 3, 4)), groups.square().sum((2, 3, 4))], dim=1)
    return max(worst, error(sums.double().sum(1), totals))


def check_fold() -> float:
    sums = torch.rand(2, 1500, 2, 8, device=DEVICE)
    sums[:, :, 1] += 1.0
    weight, bias = torch.randn(64, device=DEVICE), torch.randn(64, device=DEVICE)
    fold = poison(2, 2, 64, dtype=torch.float32)
    fold_sums_out(sums, weight, bias, fold, count=1500)
    return error(fold, norm_reference.fold_sums(sums, weight, bias, 1500))


def check_point(tile: PointTile | None, *, mixed: bool) -> float:
    """Without a tile, the kernel that holds its weights, `skip` overwritten as in the last block of the fusion."""
    b, h, w, c = 2, 21, 75, 64
    raw, skip = (torch.randn(b, h, w, c, device=DEVICE).half() for _ in range(2))
    fold = torch.randn(b, 2, c, device=DEVICE)
    mix, mix_bias = (torch.randn(c, c, device=DEVICE) * 0.1).half(), torch.randn(c, device=DEVICE)
    wide = poison(b, h, w, 2 * c)
    reference = F.gelu(raw.float() * fold[:, 0, None, None] + fold[:, 1, None, None])
    if mixed:
        reference = skip.float() + reference @ mix.float().T + mix_bias
    if tile is None:
        from libranet.kernels.norm_mix.gluon import normalise_mix_held_out

        normalise_mix_held_out(raw, fold, wide[..., c:], skip=skip, mix=mix, mix_bias=mix_bias)
        normalise_mix_held_out(raw, fold, skip, skip=skip, mix=mix, mix_bias=mix_bias)
        assert torch.equal(skip, wide[..., c:]), "differs when it overwrites its input"
    elif mixed:
        normalise_mix_out(raw, fold, wide[..., c:], skip=skip, mix=mix, mix_bias=mix_bias, tile=tile)
    else:
        normalise_mix_out(raw, fold, wide[..., c:], tile=tile)
    assert wide[..., :c].isnan().all(), "wrote outside of its slice"
    return error(wide[..., c:], reference)


def check_structure(cut: tuple[int, int] = (128, 4)) -> float:
    small, weight = torch.rand(2, 3, 21, 75, device=DEVICE), torch.randn(64, 3, 3, 3, device=DEVICE) * 0.2
    raw = F.conv2d(small.half().float(), weight.half().float(), padding=1)
    sums = poison(2, structure_tiles(21, 75), 2, 8, dtype=torch.float32)
    structure_sums_out(small, pack_structure_weight(weight), sums)
    groups = raw.double().unflatten(1, (8, -1))
    totals = torch.stack([groups.sum((2, 3, 4)), groups.square().sum((2, 3, 4))], dim=1)
    fold, out = torch.randn(2, 2, 64, device=DEVICE), poison(2, 21, 75, 64)
    structure_apply_out(small, pack_structure_weight(weight), fold, out, cut=cut)
    reference = F.gelu(raw.permute(0, 2, 3, 1) * fold[:, 0, None, None] + fold[:, 1, None, None])
    return max(error(sums.double().sum(1), totals), error(out, reference))


def _ring(h: int, w: int) -> tuple[Tensor, list[int]]:
    return torch.randint(0, 256, (3, 4 * h, 4 * w, 3), dtype=torch.uint8, device=DEVICE), [2, 0]


def check_cells() -> float:
    ring, picked = _ring(21, 75)
    low, cells = poison(2, 3, 21, 75, dtype=torch.float32), poison(2, 21, 75, 64)
    read_cells_out(ring, low, cells, first=2)
    want_low, want_cells = frame_reference.read_cells(ring[picked])
    return max(error(low, want_low), error(cells, want_cells))


def check_encoders(batch: int) -> float:
    """Both fields of the network with random weights, from 8-bit frames to grids and planes."""
    net = perturbed_net().to(DEVICE)
    assert net.chromatic is not None
    assert net.temporal is not None
    frames = random_frames(batch, 640, 360).to(DEVICE)
    encoders = FusedEncoders(
        net.chromatic, net.temporal, batch=batch, ring=batch, frame_size=(360, 640), size=256,
        device=torch.device(DEVICE),
    )  # fmt: skip
    windows = torch.randint(0, batch, (batch, 5), device=DEVICE)
    encoders.read(frames, 0)
    encoders.encode(0)
    encoders.colour(0)
    encoders.mix(windows)
    with torch.no_grad():
        small = downsample(frames.permute(0, 3, 1, 2) / 255.0, (256, 256)) * 2.0 - 1.0
        plane = net.temporal.mix(net.temporal.encode(small)[windows], centre_only=True)[:, :, 0]
        return max(error(encoders.chroma, net.chromatic(small)), error(encoders.plane, plane))


def check_finish(cut: tuple[int, int] = (32, 4)) -> float:
    """Bytes differ by at most one, where a sum lies within rounding of a half."""
    h, w = 21, 75
    ring, picked = _ring(h, w)
    delta, strength = torch.randn(2, 3, h, w, device=DEVICE) * 0.1, torch.tensor([0.7], device=DEVICE)
    out = torch.zeros(2, 4 * h, 4 * w, 3, dtype=torch.uint8, device=DEVICE)
    x, weight = torch.randn(2, h, w, 64, device=DEVICE).half(), torch.randn(48, 64, 3, 3, device=DEVICE) * 0.005
    packed, bias = frame_reference.pack_project(weight, torch.randn(48, device=DEVICE) * 0.05)
    raw = F.conv2d(x.double().permute(0, 3, 1, 2), packed.half().double(), bias.double(), padding=1)
    residual = raw.permute(0, 2, 3, 1).half()
    finish_frame_out(ring, residual.contiguous(), delta, strength, out, first=2, cut=cut)
    reference = frame_reference.finish_frame(ring[picked], residual, delta, 0.7)
    difference = (out.int() - reference.int()).abs()
    assert difference.max() <= 1, f"bytes differ by up to {int(difference.max())}"
    return float(difference.float().mean())


def check_field() -> float:
    low = torch.rand(2, 3, 21, 300, device=DEVICE)
    chromatic = torch.randn(2, 2, 12, 8, 16, 16, device=DEVICE) * 0.3
    plane, strength = torch.randn(2, 12, 16, 16, device=DEVICE) * 0.3, torch.tensor([0.7], device=DEVICE)
    rows, small, delta = (poison(*s, dtype=torch.float32) for s in ((2, 21, 2, 8, 16, 16), low.shape, low.shape))
    apply_field_out(low, chromatic, plane, strength, rows, small, delta)
    reference, _ = field_reference.apply_field(low, chromatic, plane, strength=0.7)
    return max(error(small, reference), error(delta, reference - low))


def check_group_norm(channels: int, *, gradients: bool) -> float:
    x = torch.randn(3, channels, 33, 31, device=DEVICE).contiguous(memory_format=torch.channels_last)
    weight, bias = torch.randn(channels, device=DEVICE), torch.randn(channels, device=DEVICE)
    leaves = [t.requires_grad_(gradients) for t in (x, weight, bias)]
    out, reference = (f(*leaves, 8) for f in (residual_norm, norm_reference.residual_norm))
    if not gradients:
        return error(out, reference)
    upstream = torch.randn_like(x)
    pairs = zip(*(torch.autograd.grad(y, leaves, upstream) for y in (out, reference)), strict=True)
    return max(error(a, b) for a, b in pairs)


def all_checks(tiles: list[ConvTile], points: list[PointTile]) -> list[tuple[str, Callable[[], float], float]]:
    """Name, check, largest error allowed."""
    checks: list[tuple[str, Callable[[], float], float]] = []
    checks += [(f"conv 64 {tile}", lambda t=tile: check_conv(t, 64), 2e-3) for tile in tiles]
    checks.append((f"conv 128 {tiles[0]}", lambda: check_conv(tiles[0], 128), 2e-3))
    if DEVICE == "cuda" and can_hold_weights(64, torch.device(DEVICE)):
        checks.append(("conv 64 held, sums", lambda: check_held_conv(64, with_sums=True), 2e-3))
        checks += [(f"conv {c} held, bias", lambda c=c: check_held_conv(c, with_sums=False), 2e-3) for c in (64, 128)]
        checks.append(("norm+gelu+mix held", lambda: check_point(None, mixed=True), 2e-3))
    checks.append(("fold", check_fold, 1e-4))
    checks += [(f"norm+gelu+mix {p}", lambda t=p: check_point(t, mixed=True), 2e-3) for p in points]
    checks.append((f"norm+gelu {points[0]}", lambda: check_point(points[0], mixed=False), 2e-3))
    checks += [("structure stem", check_structure, 2e-3), ("read cells", check_cells, 1e-5)]
    checks.append(("finish", check_finish, 0.02))
    checks.append(("colour field", check_field, 1e-4))
    checks += [(f"encoders, batch {batch}", lambda b=batch: check_encoders(b), 1e-2) for batch in (1, 8)]
    for channels in (24, 192):
        checks.append((f"groupnorm {channels}", lambda c=channels: check_group_norm(c, gradients=False), 1e-3))
        checks.append((f"groupnorm {channels} grad", lambda c=channels: check_group_norm(c, gradients=True), 1e-3))
    return checks


def run(*, quick: bool) -> dict[str, Any]:
    return run_checks(all_checks(CONV_TILES, POINT_TILES)[:: 4 if quick else 1])


def run_final(*, quick: bool) -> dict[str, Any]:
    """The kernels that are in use, and their twins."""
    tiles = Tiles()
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

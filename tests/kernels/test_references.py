"""Every operation has a reference of the same signature, and references compute what torch's own layers compute."""

import ast
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import libranet.kernels
from libranet.kernels.conv3x3 import reference as conv3x3
from libranet.kernels.encoder_layers import reference as encoder_layers
from libranet.kernels.frame_io import reference as frame_io
from libranet.kernels.norm_mix import reference as norm_mix

ROOT = Path(libranet.kernels.__file__).parent
FOLDERS = sorted(
    path for path in ROOT.iterdir() if path.is_dir() and path.name not in ("__pycache__", "native", "machine_code")
)
KERNEL_ONLY = {"tile", "scratch", "bands", "codes"}
"""Parameters that say how a kernel computes, not what: `libranet.kernels` explains them."""


def public_functions(file: Path) -> dict[str, list[str]]:
    """Names and parameters, read without importing Triton; functions that run on the device are not public."""
    found = {}
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            on_device = any("jit" in ast.unparse(decorator) for decorator in node.decorator_list)
            if not on_device:
                arguments = node.args
                assert arguments.vararg is None
                assert arguments.kwarg is None
                found[node.name] = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_kernels_and_reference_have_the_same_functions(folder: Path) -> None:
    reference = public_functions(folder / "reference.py")
    functions = {file.stem: public_functions(file) for file in folder.glob("*.py")}
    launches = {
        name: found for name, found in functions.items() if name in ("gpu", "hopper", "planes", "triton") and found
    }
    assert launches, f"{folder} launches nothing"
    for found in launches.values():
        for name, parameters in found.items():
            assert name in reference, f"{folder.name}/reference.py lacks {name}"
            assert [p for p in parameters if p not in KERNEL_ONLY] == reference[name], name


def sums_of(x: torch.Tensor) -> torch.Tensor:  # [B, C, h, w] -> [B, 1, 2, 8]
    groups = x.unflatten(1, (8, -1))
    return torch.stack([groups.sum((2, 3, 4)), groups.square().sum((2, 3, 4))], dim=1)[:, None]


def test_the_refiners_convolution() -> None:
    x, weight, bias = torch.randn(2, 7, 9, 24).half(), torch.randn(16, 24, 3, 3).half(), torch.randn(16)
    out, sums = torch.zeros(2, 7, 9, 16), torch.full((2, 3, 2, 8), float("nan"))
    conv3x3.conv3x3_out(x, conv3x3.pack_weight(weight), out, bias=bias, sums=sums)
    wanted = F.conv2d(x.float().permute(0, 3, 1, 2), weight.float(), bias, padding=1)
    torch.testing.assert_close(out, wanted.permute(0, 2, 3, 1), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(sums.sum(1, keepdim=True), sums_of(wanted), atol=1e-2, rtol=1e-4)


def test_folded_sums_are_group_norm() -> None:
    x, weight, bias = torch.randn(2, 16, 9, 13) + 0.5, torch.randn(16), torch.randn(16)
    fold = torch.zeros(2, 2, 16)
    norm_mix.fold_sums_out(sums_of(x), weight, bias, fold, count=9 * 13 * 2)
    normed = x * fold[:, 0, :, None, None] + fold[:, 1, :, None, None]
    torch.testing.assert_close(normed, F.group_norm(x, 8, weight, bias), atol=1e-4, rtol=1e-4)


def test_normalise_and_mix() -> None:
    raw, skip, fold = torch.randn(2, 5, 7, 8), torch.randn(2, 5, 7, 8), torch.randn(2, 2, 8)
    mix, bias, out = torch.nn.Linear(8, 8), torch.randn(8), torch.zeros(2, 5, 7, 8)
    plain = F.gelu(raw * fold[:, :1, None] + fold[:, 1:, None])
    norm_mix.normalise_mix_out(raw, fold, out)
    torch.testing.assert_close(out, plain)
    norm_mix.normalise_mix_out(raw, fold, out, skip=skip, mix=mix.weight.detach(), mix_bias=bias)
    torch.testing.assert_close(out, skip + F.linear(plain, mix.weight, bias).detach())


def test_the_structure_streams_first_layer() -> None:
    small, weight, fold = torch.rand(2, 3, 6, 7).half().float(), torch.randn(16, 3, 3, 3).half(), torch.randn(2, 2, 16)
    packed, sums, out = norm_mix.pack_structure_weight(weight), torch.zeros(2, 4, 2, 8), torch.zeros(2, 6, 7, 16)
    norm_mix.structure_sums_out(small, packed, sums)
    norm_mix.structure_apply_out(small, packed, fold, out)
    raw = F.conv2d(small, weight.float(), padding=1)
    torch.testing.assert_close(sums.sum(1, keepdim=True), sums_of(raw), atol=1e-3, rtol=1e-4)
    wanted = F.gelu(raw * fold[:, 0, :, None, None] + fold[:, 1, :, None, None]).permute(0, 2, 3, 1)
    torch.testing.assert_close(out, wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("pack", "stride"), [("pack_weights", 1), ("pack_weights", 2), ("pack_pairs", 1)])
def test_the_encoders_convolutions(pack: str, stride: int) -> None:
    x, weights = torch.randn(2, 3, 8, 8, 24).half(), torch.randn(2, 16, 24, 3, 3).half()
    out, side = torch.zeros(2, 3, 8 // stride, 8 // stride, 16), 8 // stride
    packed = getattr(encoder_layers, pack)(weights)
    encoder_layers.conv_out(x, packed, out, stride=stride)
    for encoder in range(2):
        maps = x[encoder].float().permute(0, 3, 1, 2)
        wanted = F.conv2d(maps, weights[encoder].float(), stride=stride, padding=1)
        torch.testing.assert_close(out[encoder], wanted.permute(0, 2, 3, 1), atol=1e-4, rtol=1e-4)
    planes, bias = torch.zeros(2, 3, 16, side, side), torch.randn(16)
    encoder_layers.conv_out(x, packed, planes, stride=stride, bias=bias, activate=True, planes=True)
    torch.testing.assert_close(planes, F.gelu(out + bias).permute(0, 1, 4, 2, 3), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("channels", [8, 24])
def test_the_encoders_stem(channels: int) -> None:
    x, weights = torch.randn(3, 12, 12, 4).half(), torch.randn(2, channels, 3, 3, 3).half()
    out, sums = torch.zeros(2, 3, 6, 6, channels), torch.full((2, 3, 5, 2, 8), float("nan"))
    encoder_layers.stem_out(x, encoder_layers.pack_stem(weights), out, sums)
    for encoder in range(2):
        image = x[..., :3].float().permute(0, 3, 1, 2)
        wanted = F.conv2d(image, weights[encoder].float(), stride=2, padding=1)
        torch.testing.assert_close(out[encoder], wanted.permute(0, 2, 3, 1), atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(sums[encoder].sum(1, keepdim=True), sums_of(wanted), atol=1e-2, rtol=1e-4)


@pytest.mark.parametrize("skipped", [True, False])
def test_the_encoders_norm(skipped: bool) -> None:
    raw, skip, weight, bias = torch.randn(2, 3, 6, 6, 24), torch.randn(2, 3, 6, 6, 24), *torch.randn(2, 2, 24).unbind()
    out, maps = torch.zeros(2, 3, 6, 6, 24), raw.permute(0, 1, 4, 2, 3)
    sums = torch.stack([sums_of(encoder) for encoder in maps])
    encoder_layers.normalise_out(raw, sums, weight, bias, out, skip=skip if skipped else None)
    for encoder in range(2):
        y = F.group_norm(maps[encoder], 8, weight[encoder], bias[encoder]).permute(0, 2, 3, 1)
        wanted = y + skip[encoder] if skipped else F.gelu(y)
        torch.testing.assert_close(out[encoder], wanted, atol=1e-4, rtol=1e-4)


def test_cells_are_pixel_unshuffle() -> None:
    frame = torch.randint(0, 256, (1, 16, 24, 3), dtype=torch.uint8)
    weight = torch.randn(8, 48, 3, 3) * 0.1
    image = frame.permute(0, 3, 1, 2) / 255.0
    low, cells = torch.zeros(1, 3, 4, 6), torch.zeros(1, 4, 6, 64)
    frame_io.read_cells_out(frame, low, cells)
    by_cells = F.conv2d(cells.permute(0, 3, 1, 2), frame_io.pack_cell_weight(weight), padding=1)
    torch.testing.assert_close(by_cells, F.conv2d(F.pixel_unshuffle(image, 4), weight, padding=1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("strength", [0.0, 0.7])
def test_the_finished_frame_is_pixel_shuffle(strength: float) -> None:
    h, w = 3, 5
    ring = torch.randint(0, 256, (3, 4 * h, 4 * w, 3), dtype=torch.uint8)
    x, delta = torch.randn(2, 16, h, w), torch.randn(2, 3, h, w) * 0.1
    weight, bias = torch.randn(48, 16, 3, 3) * 0.02, torch.randn(48) * 0.05
    packed, packed_bias = frame_io.pack_project(weight, bias)
    cells = F.conv2d(x, packed, packed_bias, padding=1).permute(0, 2, 3, 1)
    out = torch.zeros(2, 4 * h, 4 * w, 3, dtype=torch.uint8)
    factors = torch.tensor([strength, 0.5 * strength])
    frame_io.finish_frame_out(ring, cells, delta, factors, out, first=2)
    residual = F.pixel_shuffle(F.conv2d(x, weight, bias, padding=1), 4)
    upsampled = F.interpolate(delta, scale_factor=4, mode="bilinear", align_corners=False)
    image = ring[[2, 0]].permute(0, 3, 1, 2) / 255.0
    wanted = (image + upsampled + factors.view(2, 1, 1, 1) * residual).clamp(0, 1) * 255
    assert (out.permute(0, 3, 1, 2).float() - wanted).abs().max() <= 0.5 + 1e-3

"""The passes between the refiner's convolutions against their references."""

import pytest
import torch
import torch.nn.functional as F

from kernel_agreement import assert_agree, poison
from libranet.kernels.norm_mix import reference
from libranet.kernels.tiles import STRUCTURE_TILE, PixelTile

B, H, W, C = SHAPE = (2, 5, 13, 16)


@pytest.fixture
def mixed(device: str) -> dict[str, torch.Tensor]:
    """Inputs of a pass with mix and skip."""
    return {
        "raw": torch.randn(SHAPE, device=device).half(),
        "fold": torch.randn(B, 2, C, device=device),
        "skip": torch.randn(SHAPE, device=device).half(),
        "mix": (torch.randn(C, C, device=device) * 0.2).half(),
        "mix_bias": torch.randn(C, device=device),
    }


def test_gelu_is_close_everywhere(device: str) -> None:
    from libranet.kernels.norm_mix.gpu import normalise_mix_out

    x = torch.linspace(-12, 12, 64 * 16, device=device).half().view(1, 8, 8, 16)
    fold = torch.stack([torch.ones(16), torch.zeros(16)])[None].to(device)
    out = torch.empty_like(x)
    normalise_mix_out(x, fold, out, tile=PixelTile())
    torch.testing.assert_close(out.float(), F.gelu(x.float()), atol=5e-5, rtol=6e-4)


def test_mix_writes_only_its_slice(device: str, mixed: dict[str, torch.Tensor]) -> None:
    from libranet.kernels.norm_mix.gpu import normalise_mix_out

    wide = poison(B, H, W, 2 * C, device=device)
    written, tile = {"out": wide[..., C:]}, PixelTile(32, 4)
    assert_agree(reference.normalise_mix_out, normalise_mix_out, mixed, written, atol=5e-3, rtol=2e-3, tile=tile)
    assert wide[..., :C].isnan().all()


def test_mix_in_place(device: str, mixed: dict[str, torch.Tensor]) -> None:
    from libranet.kernels.norm_mix.gpu import normalise_mix_out

    apart = poison(*SHAPE, device=device)
    normalise_mix_out(**mixed, out=apart, tile=PixelTile(32, 4))
    normalise_mix_out(**mixed, out=mixed["skip"], tile=PixelTile(32, 4))
    assert torch.equal(mixed["skip"], apart)


def test_folded_sums(device: str) -> None:
    from libranet.kernels.norm_mix.gpu import fold_sums_out

    parts = 1100  # a program takes two steps
    sums = torch.rand(B, parts, 2, 8, device=device)
    sums[:, :, 1] += 1.0
    inputs = {"sums": sums, "weight": torch.randn(C, device=device), "bias": torch.randn(C, device=device)}
    written = {"fold": poison(B, 2, C, device=device, dtype=torch.float32)}
    inputs |= {"count": parts}
    assert_agree(reference.fold_sums_out, fold_sums_out, inputs, written, atol=1e-4, rtol=1e-4)


def test_structure_stem(device: str) -> None:
    from libranet.kernels.norm_mix.gpu import structure_apply_out, structure_sums_out

    weight = reference.pack_structure_weight(torch.randn(C, 3, 3, 3, device=device) * 0.3)
    inputs = {"small": torch.rand(B, 3, H, W, device=device), "weight": weight}
    sums = {"sums": poison(B, H * STRUCTURE_TILE.parts(W), 2, 8, device=device, dtype=torch.float32)}
    assert_agree(reference.structure_sums_out, structure_sums_out, inputs, sums, atol=0, rtol=0, sums_atol=1e-2)
    inputs["fold"] = torch.randn(B, 2, C, device=device)
    out = {"out": poison(*SHAPE, device=device)}
    assert_agree(reference.structure_apply_out, structure_apply_out, inputs, out, atol=2e-3, rtol=2e-3)

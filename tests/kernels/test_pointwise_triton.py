"""The passes between the refiner's convolutions against plain torch."""

import torch
import torch.nn.functional as F

from libranet.kernels.residual_norm import reference as norm_reference

SHAPE = (2, 9, 13, 16)


def affine(raw: torch.Tensor, fold: torch.Tensor) -> torch.Tensor:
    return F.gelu(raw.float() * fold[:, 0, None, None] + fold[:, 1, None, None])


def test_gelu_is_close_everywhere(device: str) -> None:
    from libranet.kernels.norm_mix.triton import PointTile, normalise_mix_out

    x = torch.linspace(-12, 12, 64 * 16, device=device).half().view(1, 8, 8, 16)
    fold = torch.stack([torch.ones(16), torch.zeros(16)])[None].to(device)
    out = torch.empty_like(x)
    normalise_mix_out(x, fold, out, tile=PointTile())
    torch.testing.assert_close(out.float(), F.gelu(x.float()), atol=5e-5, rtol=6e-4)


def test_mix_writes_only_its_slice(device: str) -> None:
    from libranet.kernels.norm_mix.triton import PointTile, normalise_mix_out

    b, h, w, c = SHAPE
    raw, skip = (torch.randn(SHAPE, device=device).half() for _ in range(2))
    fold, mix_bias = torch.randn(b, 2, c, device=device), torch.randn(c, device=device)
    mix = (torch.randn(c, c, device=device) * 0.2).half()
    wide = torch.full((b, h, w, 2 * c), float("nan"), device=device).half()

    normalise_mix_out(raw, fold, wide[..., c:], skip=skip, mix=mix, mix_bias=mix_bias, tile=PointTile(32, 4))

    reference = skip.float() + affine(raw, fold) @ mix.float().T + mix_bias
    torch.testing.assert_close(wide[..., c:].float(), reference, atol=5e-3, rtol=2e-3)
    assert wide[..., :c].isnan().all()


def test_mix_in_place(device: str) -> None:
    from libranet.kernels.norm_mix.triton import PointTile, normalise_mix_out

    b, _, _, c = SHAPE
    raw, x = (torch.randn(SHAPE, device=device).half() for _ in range(2))
    fold, mix = torch.randn(b, 2, c, device=device), (torch.randn(c, c, device=device) * 0.2).half()
    reference = x.float() + affine(raw, fold) @ mix.float().T
    normalise_mix_out(raw, fold, x, skip=x, mix=mix, mix_bias=torch.zeros(c, device=device), tile=PointTile(32, 4))
    torch.testing.assert_close(x.float(), reference, atol=5e-3, rtol=2e-3)


def test_folded_sums_are_group_norm(device: str) -> None:
    from libranet.kernels.norm_mix.triton import fold_sums_out

    b, h, w, c = SHAPE
    x = torch.randn(SHAPE, device=device) + 0.5
    weight, bias = torch.randn(c, device=device), torch.randn(c, device=device)
    groups = x.view(b, h, w, 8, c // 8)  # one partial sum per image row
    sums = torch.stack([groups.sum((2, 4)), groups.square().sum((2, 4))], dim=2)
    fold = torch.empty(b, 2, c, device=device)

    fold_sums_out(sums, weight, bias, fold, count=h * w * c // 8)

    torch.testing.assert_close(fold, norm_reference.fold_sums(sums, weight, bias, h * w * c // 8))
    normed = x * fold[:, 0, None, None] + fold[:, 1, None, None]
    reference = F.group_norm(x.permute(0, 3, 1, 2), 8, weight, bias).permute(0, 2, 3, 1)
    torch.testing.assert_close(normed, reference, atol=1e-4, rtol=1e-4)


def test_structure_stem(device: str) -> None:
    from libranet.kernels.norm_mix import triton as kernels

    b, h, w, c = SHAPE
    small, weight = torch.rand(b, 3, h, w, device=device), torch.randn(c, 3, 3, 3, device=device) * 0.3
    packed, fold = kernels.pack_structure_weight(weight), torch.randn(b, 2, c, device=device)
    sums = torch.full((b, kernels.structure_tiles(h, w), 2, 8), float("nan"), device=device)
    out = torch.full(SHAPE, float("nan"), device=device).half()

    kernels.structure_sums_out(small, packed, sums)
    kernels.structure_apply_out(small, packed, fold, out)

    raw = F.conv2d(small.half().float(), weight.half().float(), padding=1)
    groups = raw.unflatten(1, (8, -1))
    totals = torch.stack([groups.sum((2, 3, 4)), groups.square().sum((2, 3, 4))], dim=1)
    torch.testing.assert_close(sums.sum(1), totals, atol=1e-2, rtol=1e-3)
    torch.testing.assert_close(out.float(), affine(raw.permute(0, 2, 3, 1), fold), atol=2e-3, rtol=2e-3)

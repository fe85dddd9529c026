"""GroupNorm + GELU + residual against torch, values and gradients."""

import pytest
import torch

from libranet.ops import group_norm_torch


@pytest.mark.parametrize("channels", [24, 64])
@pytest.mark.parametrize("activate", [True, False])
@pytest.mark.parametrize("with_residual", [True, False])
def test_values_and_gradients(device: str, channels: int, activate: bool, with_residual: bool) -> None:
    from libranet.ops import residual_norm_triton

    torch.manual_seed(0)
    shape = (2, channels, 9, 11)
    leaves = [torch.randn(s, device=device, requires_grad=True) for s in (shape, channels, channels, shape)]
    keep = torch.tensor([1.25, 0.0], device=device) if with_residual else None
    leaves = leaves if with_residual else leaves[:3]
    upstream = torch.randn(shape, device=device)
    results = []
    for module in (residual_norm_triton, group_norm_torch):
        x, weight, bias = leaves[:3]
        residual = leaves[3] if with_residual else None
        out = module.residual_norm(x, weight, bias, 8, activate=activate, residual=residual, keep=keep)
        results.append((out, *torch.autograd.grad(out, leaves, upstream)))
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours, plain, atol=3e-4 * float(plain.abs().max()), rtol=3e-4)


def test_many_chunks_and_half_precision(device: str) -> None:
    from libranet.ops.residual_norm_triton import _Cut, residual_norm

    x = (torch.randn(1, 48, 90, 100, device=device) + 2.0).bfloat16()
    weight, bias = torch.randn(48, device=device), torch.randn(48, device=device)
    assert _Cut(x, 8).steps > 1  # so that a program adds up more than one block
    out = residual_norm(x, weight, bias, 8)
    assert out.dtype == torch.bfloat16
    reference = group_norm_torch.residual_norm(x.float(), weight, bias, 8)
    torch.testing.assert_close(out.float(), reference, atol=2e-2, rtol=1e-2)

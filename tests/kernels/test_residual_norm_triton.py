"""GroupNorm + GELU + residual against the reference, values and gradients."""

import pytest
import torch

from libranet.kernels.residual_norm import reference


@pytest.mark.parametrize("channels", [24, 64])
@pytest.mark.parametrize("activate", [True, False])
@pytest.mark.parametrize("with_residual", [True, False])
def test_values_and_gradients(device: str, channels: int, activate: bool, with_residual: bool) -> None:
    from libranet.kernels.residual_norm.triton import residual_norm

    torch.manual_seed(0)
    shape = (2, channels, 9, 11)
    leaves = [torch.randn(s, device=device, requires_grad=True) for s in (shape, channels, channels, shape)]
    keep = torch.tensor([1.25, 0.0], device=device) if with_residual else None
    leaves = leaves if with_residual else leaves[:3]
    upstream = torch.randn(shape, device=device)
    results = []
    for function in (residual_norm, reference.residual_norm):
        x, weight, bias = leaves[:3]
        residual = leaves[3] if with_residual else None
        out = function(x, weight, bias, 8, activate=activate, residual=residual, keep=keep)
        results.append((out, *torch.autograd.grad(out, leaves, upstream)))
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours, plain, atol=3e-4 * float(plain.detach().abs().max()), rtol=3e-4)


def test_many_chunks_and_half_precision(device: str) -> None:
    from libranet.kernels.residual_norm.triton import _Tiling, residual_norm

    x = (torch.randn(1, 48, 90, 100, device=device) + 2.0).bfloat16()
    weight, bias = torch.randn(48, device=device), torch.randn(48, device=device)
    assert _Tiling(x, 8).steps > 1  # so that a program adds up more than one block
    out = residual_norm(x, weight, bias, 8)
    assert out.dtype == torch.bfloat16
    plain = reference.residual_norm(x.float(), weight, bias, 8)
    torch.testing.assert_close(out.float(), plain, atol=2e-2, rtol=1e-2)


@pytest.mark.parametrize("with_residual", [True, False])
def test_bias_and_its_gradient(device: str, with_residual: bool) -> None:
    from libranet.kernels.residual_norm.triton import add_bias

    shape = (2, 48, 9, 11)
    leaves = [torch.randn(s, device=device, requires_grad=True) for s in (shape, 48, shape)]
    leaves = leaves if with_residual else leaves[:2]
    upstream = torch.randn(shape, device=device)
    ours, plain = (function(*leaves) for function in (add_bias, reference.add_bias))
    torch.testing.assert_close(ours, plain)
    gradients = (torch.autograd.grad(out, leaves, upstream) for out in (ours, plain))
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)

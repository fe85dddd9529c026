"""GroupNorm + GELU against torch, values and gradients."""

import pytest
import torch

from libranet.ops import group_norm_torch


@pytest.mark.parametrize("channels", [24, 64])
@pytest.mark.parametrize("activate", [True, False])
def test_values_and_gradients(device: str, channels: int, activate: bool) -> None:
    from libranet.ops.group_norm_triton import group_norm_gelu

    shape = (2, channels, 9, 11)
    leaves = [torch.randn(s, device=device, requires_grad=True) for s in (shape, channels, channels, shape)]
    upstream = torch.randn(shape, device=device)
    results = []
    for function in (group_norm_gelu, group_norm_torch.group_norm_gelu):
        x, weight, bias, residual = leaves
        out = function(x, weight, bias, 8, activate=activate, residual=residual)
        results.append((out, *torch.autograd.grad(out, leaves, upstream)))
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours, plain, atol=5e-5, rtol=1e-4)


def test_many_chunks_and_half_precision(device: str) -> None:
    from libranet.ops.group_norm_triton import MAX_CHUNKS, _Shape, group_norm_gelu

    x = (torch.randn(1, 128, 60, 70, device=device) + 2.0).half()
    weight, bias = torch.randn(128, device=device), torch.randn(128, device=device)
    assert _Shape(x, 8).blocks > MAX_CHUNKS  # so that a program adds up more than one block
    out = group_norm_gelu(x, weight, bias, 8)
    assert out.dtype == torch.float16
    reference = group_norm_torch.group_norm_gelu(x.float(), weight, bias, 8)
    torch.testing.assert_close(out.float(), reference, atol=4e-3, rtol=2e-3)

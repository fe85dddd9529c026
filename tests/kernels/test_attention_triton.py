"""Attention over short sequences against its reference, values and gradients."""

import pytest
import torch

from libranet.kernels.attention import reference


@pytest.mark.parametrize(("t", "heads", "d"), [(5, 1, 6), (1, 1, 4), (3, 2, 8)])
def test_values_and_gradients(device: str, t: int, heads: int, d: int) -> None:
    from libranet.kernels.attention.triton import attend

    torch.manual_seed(0)
    leaves = [torch.randn(7, t, heads * w, device=device, requires_grad=True) for w in (d, 2 * d)]
    upstream = torch.randn(7, t, heads * d, device=device)
    ours, plain = (module_attend(*leaves, heads) for module_attend in (attend, reference.attend))
    torch.testing.assert_close(ours, plain)
    gradients = (torch.autograd.grad(out, leaves, upstream) for out in (ours, plain))
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)

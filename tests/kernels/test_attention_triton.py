"""Attention over short sequences against torch, values and gradients."""

import pytest
import torch
import torch.nn.functional as F


@pytest.mark.parametrize(("t", "heads", "d"), [(5, 2, 6), (1, 1, 4), (3, 2, 8)])
def test_values_and_gradients(device: str, t: int, heads: int, d: int) -> None:
    from libranet.kernels.attention.triton import attend

    torch.manual_seed(0)
    query, key_value = (torch.randn(7, t, heads * w, device=device, requires_grad=True) for w in (d, 2 * d))
    upstream = torch.randn(7, t, heads * d, device=device)

    def split(x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (heads, d)).transpose(1, 2)

    key, value = key_value.chunk(2, dim=-1)
    plain = F.scaled_dot_product_attention(split(query), split(key), split(value)).transpose(1, 2).flatten(2)
    ours = attend(query, key_value, heads)
    torch.testing.assert_close(ours, plain)
    expected = torch.autograd.grad(plain, [query, key_value], upstream)
    for a, b in zip(torch.autograd.grad(ours, [query, key_value], upstream), expected, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)

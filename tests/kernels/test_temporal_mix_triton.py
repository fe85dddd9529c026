"""The mix along time against its reference, and that against the module."""

import pytest
import torch

from kernel_agreement import poison
from libranet.kernels.temporal_mix import reference
from libranet.network.layers import Encoder, TemporalField


@pytest.mark.parametrize(("width", "heads", "window"), [(24, 2, 3), (16, 2, 1), (72, 4, 5)])
def test_agrees_with_reference_and_module(device: str, width: int, heads: int, window: int) -> None:
    from libranet.kernels.temporal_mix.gpu import mix_out

    torch.manual_seed(0)
    encoder = Encoder((8, width), 1, 0.0)
    field = TemporalField(encoder, hidden=8, window=window, heads=heads, ffn_ratio=3, dropout=0.0)
    a = field.attention
    with torch.no_grad():
        for parameter in (*field.attention.parameters(), field.position):
            parameter.add_(0.2 * torch.randn_like(parameter))
    expand, _, shrink = a.ffn
    field.to(device)
    weights = reference.pack_mix(field.position, a.norm1, a.query, a.key_value, a.out, a.norm2, expand, shrink, heads)

    side, batch, ring = 5, 2, 7
    features = torch.randn(ring, side, side, width, device=device).half()
    windows = torch.randint(0, ring, (batch, window), device=device)
    keys = poison(batch, window, side * side, weights.keys.shape[0], device=device)
    out, want = poison(batch, side, side, width, device=device), torch.zeros(batch, side, side, width, device=device)
    mix_out(features, windows, weights, out, scratch=keys)
    reference.mix_out(features, windows, weights, want)
    assert (out.float() - want).norm() / want.norm() < 2e-3

    tokens = features.float()[windows].flatten(2, 3).transpose(1, 2) + field.position.flatten(2)  # [B, P, T, C]
    middle = slice(window // 2, window // 2 + 1)
    with torch.no_grad():
        module = a(tokens.flatten(0, 1), middle).view(batch, side, side, width)
    assert (want - module).norm() / module.norm() < 1e-3

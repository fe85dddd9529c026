"""The encoders' norms against torch."""

import pytest
import torch
import torch.nn.functional as F

B = 2


@pytest.mark.parametrize("skipped", [True, False])
def test_normalise(device: str, skipped: bool) -> None:
    from libranet.kernels.encoder_conv.triton import make_maps
    from libranet.kernels.encoder_norm.triton import normalise_out

    raw, skip = torch.randn(2, B, 10, 10, 24, device=device).half(), make_maps(2, B, 10, 24, device)
    skip.copy_(torch.randn(2, B, 10, 10, 24, device=device).half())
    weight, bias = torch.randn(2, 24, device=device), torch.randn(2, 24, device=device)
    groups = raw.float().unflatten(4, (8, -1))
    totals = torch.stack([groups.sum((2, 3, 5)), groups.square().sum((2, 3, 5))], dim=2)  # [2, B, 2, 8]
    sums = totals[:, :, None] * torch.tensor([0.25, 0.75, 0.0], device=device).view(3, 1, 1)
    ring = torch.full((2, B + 3, 10, 10, 24), float("nan"), device=device).half()
    normalise_out(raw, sums, weight, bias, ring[:, 1 : 1 + B], skip=skip if skipped else None, block=1024)
    for encoder in range(2):
        y = F.group_norm(raw[encoder].float().permute(0, 3, 1, 2), 8, weight[encoder], bias[encoder])
        y = y.permute(0, 2, 3, 1)
        reference = y + skip[encoder].float() if skipped else F.gelu(y)
        torch.testing.assert_close(ring[encoder, 1 : 1 + B].float(), reference, atol=4e-3, rtol=2e-3)
    target = make_maps(2, B, 10, 24, device)
    normalise_out(raw, sums, weight, bias, target, skip=skip if skipped else None)
    assert torch.equal(target, ring[:, 1 : 1 + B])
    assert not target.as_strided((2 * B * 10, 24), (11 * 24, 1), 0).any()  # gaps stay zero
    assert ring[:, 0].isnan().all()
    assert ring[:, 1 + B :].isnan().all()

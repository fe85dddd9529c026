"""The colour field in one pass against slicing, fusing, mapping and applying step by step."""

import pytest
import torch

from libranet.ops.field_torch import apply_field


def run(device: str, low: torch.Tensor, chromatic: torch.Tensor, plane: torch.Tensor, strength: float) -> tuple:
    from libranet.ops.field_triton import apply_field_out

    b, _, h, _ = low.shape
    d, _, gw = chromatic.shape[3:]
    small, delta = torch.full_like(low, float("nan")), torch.full_like(low, float("nan"))
    rows = torch.empty(b, h, 2, d, gw, 16, device=device)
    apply_field_out(low, chromatic, plane, torch.tensor([strength], device=device), rows, small, delta)
    return small, delta


@pytest.mark.parametrize("strength", [0.5, 1.0])
def test_matches_torch(device: str, strength: float) -> None:
    low = torch.rand(2, 3, 7, 21, device=device)
    low[0, :, 0, :4] = torch.tensor([0.0, 1.0, 0.5, 1e-3], device=device)  # the ends of the colour axis
    chromatic, plane = (
        torch.randn(2, 2, 12, 8, 4, 4, device=device) * 0.3,
        torch.randn(2, 12, 4, 4, device=device) * 0.3,
    )
    small, delta = run(device, low, chromatic, plane, strength)
    reference = apply_field(low, chromatic, plane, strength=strength)
    torch.testing.assert_close(small, reference, atol=2e-5, rtol=1e-5)
    torch.testing.assert_close(delta, reference - low, atol=2e-5, rtol=1e-5)


def test_zero_grids_change_nothing(device: str) -> None:
    low = torch.rand(1, 3, 4, 9, device=device)
    zero = torch.zeros(1, 2, 12, 8, 4, 4, device=device)
    small, delta = run(device, low, zero, zero[:, 0, :, 0], 1.0)
    assert torch.equal(small, low)
    assert not delta.any()


def test_singular_matrix_is_the_identity(device: str) -> None:
    low = torch.rand(1, 3, 4, 9, device=device)
    chromatic, plane = torch.zeros(1, 2, 12, 8, 4, 4, device=device), torch.zeros(1, 12, 4, 4, device=device)
    plane[:, [0, 4, 8]] = 2.0  # I - M / 2 = 0
    small, _ = run(device, low, chromatic, plane, 1.0)
    torch.testing.assert_close(small, low, atol=1e-6, rtol=0)

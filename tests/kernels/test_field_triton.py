"""The colour field in one pass against slicing, fusing, mapping and applying step by step."""

import pytest
import torch

from libranet.kernels.color_field.reference import apply_field


def run(device: str, low: torch.Tensor, chromatic: torch.Tensor, plane: torch.Tensor, strength: float) -> tuple:
    from libranet.kernels.color_field.triton import apply_field_out

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
    reference, _ = apply_field(low, chromatic, plane, strength=strength)
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


@pytest.mark.parametrize("size", [(19, 21), (3, 70)])
def test_gradients_match_torch(device: str, size: tuple[int, int]) -> None:
    from libranet.kernels.color_field import triton as field_triton

    low = torch.rand(2, 3, *size, device=device)
    low[0, :, 0, :4] = torch.tensor([0.0, 1.0, 0.5, 1e-3], device=device)
    leaves = [(torch.randn(s, device=device) * 0.3).requires_grad_() for s in ((2, 2, 12, 8, 4, 4), (2, 12, 4, 4))]
    with torch.no_grad():
        leaves[1][1, [0, 4, 8]] = 2.0  # some pixels may be singular, all are far from the identity
    upstream = [torch.randn(low.shape, device=device) for _ in range(2)]
    small, _ = apply_field(low, *leaves)
    plain = torch.autograd.grad([small, small - low], leaves, upstream)
    ours = field_triton.apply_field(low, *leaves)
    torch.testing.assert_close(ours[0], small, atol=1e-4, rtol=1e-4)
    for a, b in zip(torch.autograd.grad(ours, leaves, upstream), plain, strict=True):
        torch.testing.assert_close(a, b, atol=1e-3 * float(b.abs().max()), rtol=1e-3)


def test_no_gradient_from_singular_matrices(device: str) -> None:
    from libranet.kernels.color_field import triton as field_triton

    low = torch.rand(1, 3, 8, 9, device=device)
    chromatic = torch.zeros(1, 2, 12, 8, 4, 4, device=device, requires_grad=True)
    plane = torch.zeros(1, 12, 4, 4, device=device)
    plane[:, [0, 4, 8]] = 2.0
    field_triton.apply_field(low, chromatic, plane)[0].sum().backward()
    assert chromatic.grad is not None
    assert not chromatic.grad[:, :, :9].any()
    assert chromatic.grad[:, :, 9:].any()

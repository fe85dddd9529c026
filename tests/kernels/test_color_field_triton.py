"""The colour field in one pass against its reference: slicing, fusing, mapping and applying step by step."""

import pytest
import torch

from kernel_agreement import assert_agree, poison
from libranet.kernels.color_field import reference


def test_agrees_with_the_reference(device: str) -> None:
    from libranet.kernels.color_field import triton as kernels

    low = torch.rand(2, 3, 5, 130, device=device)  # a row takes two programs
    low[0, :, 0, :4] = torch.tensor([0.0, 1.0, 0.5, 1e-3], device=device)  # the ends of the colour axis
    inputs = {
        "low": low,
        "chromatic": torch.randn(2, 2, 12, 8, 4, 4, device=device) * 0.3,
        "plane": torch.randn(2, 12, 4, 4, device=device) * 0.3,
        "strength": torch.tensor([0.5, 0.9], device=device),
    }
    written = {name: poison(*low.shape, device=device, dtype=torch.float32) for name in ("small", "delta")}
    scratch = torch.empty(2, 5, 2, 8, 4, 16, device=device)
    assert_agree(
        reference.apply_field_out, kernels.apply_field_out, inputs, written, atol=2e-5, rtol=1e-5, scratch=scratch
    )


def test_zero_grids_change_nothing(device: str) -> None:
    from libranet.kernels.color_field.triton import apply_field

    low = torch.rand(1, 3, 4, 9, device=device)
    zero = torch.zeros(1, 2, 12, 8, 4, 4, device=device)
    small, delta = apply_field(low, zero, zero[:, 0, :, 0])
    assert torch.equal(small, low)
    assert not delta.any()


def test_singular_matrices_are_the_identity_and_pass_no_gradient(device: str) -> None:
    from libranet.kernels.color_field.triton import apply_field

    low = torch.rand(1, 3, 4, 9, device=device)
    chromatic = torch.zeros(1, 2, 12, 8, 4, 4, device=device, requires_grad=True)
    plane = torch.zeros(1, 12, 4, 4, device=device)
    plane[:, [0, 4, 8]] = 2.0  # I - M / 2 = 0
    small, _ = apply_field(low, chromatic, plane)
    torch.testing.assert_close(small, low, atol=1e-6, rtol=0)
    small.sum().backward()
    assert chromatic.grad is not None
    assert not chromatic.grad[:, :, :9].any()
    assert chromatic.grad[:, :, 9:].any()


# More rows than cells, and fewer; 70 columns take two steps.
@pytest.mark.parametrize(("b", "size"), [(1, (9, 21)), (2, (3, 70))])
def test_gradients_agree_with_the_reference(device: str, b: int, size: tuple[int, int]) -> None:
    from libranet.kernels.color_field.triton import apply_field

    torch.manual_seed(0)
    low = torch.rand(b, 3, *size, device=device)
    low[0, :, 0, :4] = torch.tensor([0.0, 1.0, 0.5, 1e-3], device=device)
    leaves = [(torch.randn(s, device=device) * 0.3).requires_grad_() for s in ((b, 2, 12, 8, 4, 4), (b, 12, 4, 4))]
    with torch.no_grad():
        leaves[1][-1, [0, 4, 8]] = 2.0  # some pixels may be singular, all are far from the identity
    upstream = [torch.randn(low.shape, device=device) for _ in range(2)]
    ours, plain = (function(low, *leaves) for function in (apply_field, reference.apply_field))
    torch.testing.assert_close(ours[0], plain[0], atol=1e-4, rtol=1e-4)
    gradients = (torch.autograd.grad(out, leaves, upstream) for out in (ours, plain))
    for found, wanted in zip(*gradients, strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-3 * float(wanted.abs().max()), rtol=1e-3)

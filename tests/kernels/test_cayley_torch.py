import math

import pytest
import torch

from libranet.kernels.color_field.reference import SINGULAR_DET, cayley


def by_solving(m: torch.Tensor) -> torch.Tensor:
    eye = torch.eye(3, dtype=torch.float64)
    return torch.linalg.solve(eye - m.double() / 2, eye + m.double() / 2)


def test_matches_a_linear_solve_on_random_matrices():
    m = torch.randn(4096, 3, 3, generator=torch.Generator().manual_seed(1)) * 0.5
    a, singular = cayley(m)
    expected = by_solving(m)
    relative = (a.double() - expected).flatten(1).norm(dim=1) / expected.flatten(1).norm(dim=1)
    assert not singular.any()
    assert relative.median() < 2e-7
    assert relative.max() < 2e-4


def test_matches_a_linear_solve_on_badly_conditioned_matrices():
    # Eigenvalues of M near 2 put I - M/2 near singular: its smallest eigenvalue is `gap`.
    generator = torch.Generator().manual_seed(2)
    for gap in (1e-1, 1e-2, 1e-3):
        basis = torch.linalg.qr(torch.randn(64, 3, 3, dtype=torch.float64, generator=generator)).Q
        diagonal = torch.diag(torch.tensor([2.0 - 2 * gap, 0.3, -0.4], dtype=torch.float64))
        m = (basis @ diagonal @ basis.mT).float()
        a, singular = cayley(m)
        expected = by_solving(m)
        assert not singular.any()
        relative = (a.double() - expected).flatten(1).norm(dim=1) / expected.flatten(1).norm(dim=1)
        assert relative.max() < 1e-6 / gap, gap


def test_zero_gives_the_identity_bit_for_bit():
    a, singular = cayley(torch.zeros(2, 3, 3, 5, 7))
    eye = torch.eye(3).view(1, 3, 3, 1, 1).expand_as(a)
    assert torch.equal(a, eye)
    assert singular.shape == (2, 5, 7)


def test_gradients_by_finite_differences():
    m = (torch.randn(4, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3)) * 0.4).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: cayley(x)[0], (m,))


def test_singular_places_hold_the_identity_are_counted_and_pass_no_gradient():
    m = torch.zeros(3, 3, 3)
    m[1] = torch.diag(torch.tensor([2.0, 0.0, 0.0]))  # det(I - M/2) = 0
    m[2] = torch.diag(torch.tensor([2.0 - SINGULAR_DET, 0.0, 0.0]))  # half the threshold
    m.requires_grad_()
    a, singular = cayley(m)
    assert singular.tolist() == [False, True, True]
    assert torch.equal(a[1], torch.eye(3))
    a.sum().backward()
    assert torch.isfinite(m.grad).all()
    assert m.grad[1].abs().max() == 0
    assert m.grad[0].abs().max() > 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    m = (torch.randn(100, 3, 3, generator=torch.Generator().manual_seed(4)) * 0.3).to(dtype)
    a, _ = cayley(m)
    assert a.dtype == torch.float32
    torch.testing.assert_close(a, cayley(m.float())[0], rtol=0, atol=0)


def test_the_shape_is_checked():
    with pytest.raises(ValueError, match=r"expected matrices as \[B, 3, 3, \.\.\.\], got shape \(2, 9\)"):
        cayley(torch.zeros(2, 9))


def composition_error(m1: torch.Tensor, m2: torch.Tensor) -> torch.Tensor:
    together, _ = cayley(m1 + m2)
    composed = cayley(m1)[0] @ cayley(m2)[0]
    return (together - composed).flatten(1).norm(dim=1)


def slope(sizes: torch.Tensor, errors: torch.Tensor) -> float:
    x, y = sizes.log(), errors.log()
    return float(((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum())


def test_proposition_1_error_of_adding_instead_of_composing_is_quadratic():
    generator = torch.Generator().manual_seed(5)
    m1, m2 = torch.randn(2, 200, 3, 3, dtype=torch.float64, generator=generator).unbind(0)
    m1, m2 = (m / m.flatten(1).norm(dim=1)[:, None, None] for m in (m1, m2))
    sizes = torch.logspace(-3, -1, 9, dtype=torch.float64)
    errors = torch.stack([composition_error(m1 * s, m2 * s).mean() for s in sizes])
    assert abs(slope(sizes, errors) - 2.0) < 0.1
    # The leading term is half the commutator.
    s = 1e-3
    commutator = (m1 @ m2 - m2 @ m1).flatten(1).norm(dim=1) * s**2 / 2
    torch.testing.assert_close(composition_error(m1 * s, m2 * s), commutator, rtol=0.02, atol=0)


def test_proposition_1_commuting_pairs_are_exact_to_second_order():
    generator = torch.Generator().manual_seed(6)
    d1, d2 = (torch.diag_embed(torch.randn(200, 3, dtype=torch.float64, generator=generator)) for _ in range(2))
    sizes = torch.logspace(-3, -1, 9, dtype=torch.float64)
    errors = torch.stack([composition_error(d1 * s, d2 * s).mean() for s in sizes])
    assert slope(sizes, errors) > 2.9
    assert errors[0] < 1e-2 * float(sizes[0]) ** 2


def test_the_map_is_invertible_and_its_determinant_is_the_quotient_of_the_paper():
    m = torch.randn(64, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(7)) * 0.5
    eye = torch.eye(3, dtype=torch.float64)
    expected = torch.linalg.det(eye + m / 2) / torch.linalg.det(eye - m / 2)
    torch.testing.assert_close(torch.linalg.det(cayley(m)[0]), expected)
    torch.testing.assert_close(cayley(m)[0] @ cayley(-m)[0], eye.expand(64, 3, 3))
    assert math.isclose(float(cayley(torch.full((1, 3, 3), 1e-9))[0][0, 0, 0]), 1.0, rel_tol=1e-6)

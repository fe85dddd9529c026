"""The colour field's reference: slicing, the Cayley map and the affine transform against their definitions."""

import math

import pytest
import torch

from libranet.kernels.color_field.reference import SINGULAR_DET, apply_affine, cayley, slice_grid, slice_plane


def by_solving(m: torch.Tensor) -> torch.Tensor:
    eye = torch.eye(3, dtype=torch.float64)
    return torch.linalg.solve(eye - m.double() / 2, eye + m.double() / 2)


def test_cayley_matches_a_linear_solve_on_random_matrices():
    m = torch.randn(4096, 3, 3, generator=torch.Generator().manual_seed(1)) * 0.5
    a, singular = cayley(m)
    expected = by_solving(m)
    relative = (a.double() - expected).flatten(1).norm(dim=1) / expected.flatten(1).norm(dim=1)
    assert not singular.any()
    assert relative.median() < 2e-7
    assert relative.max() < 2e-4


def test_cayley_matches_a_linear_solve_on_badly_conditioned_matrices():
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


def test_a_zero_matrix_gives_the_identity_bit_for_bit():
    a, singular = cayley(torch.zeros(2, 3, 3, 5, 7))
    eye = torch.eye(3).view(1, 3, 3, 1, 1).expand_as(a)
    assert torch.equal(a, eye)
    assert singular.shape == (2, 5, 7)


def test_cayley_gradients_by_finite_differences():
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
def test_half_precision_matrices_are_mapped_in_float32(dtype):
    m = (torch.randn(100, 3, 3, generator=torch.Generator().manual_seed(4)) * 0.3).to(dtype)
    a, _ = cayley(m)
    assert a.dtype == torch.float32
    torch.testing.assert_close(a, cayley(m.float())[0], rtol=0, atol=0)


def test_the_shape_of_matrices_is_checked():
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


def slice_by_loop(grid: torch.Tensor, guide: torch.Tensor) -> torch.Tensor:
    """Trilinear interpolation straight from its definition: cell centres, clamped at the border."""
    b, c, *cells = grid.shape
    h, w = guide.shape[1:]
    out = torch.zeros(b, c, h, w, dtype=grid.dtype)
    for n in range(b):
        for i in range(h):
            for j in range(w):
                unit = ((float(guide[n, i, j]) + 1) / 2, (i + 0.5) / h, (j + 0.5) / w)  # z, y, x in [0, 1]
                corners = []
                for u, size in zip(unit, cells, strict=True):
                    position = min(max(u * size - 0.5, 0.0), size - 1.0)
                    low = min(math.floor(position), size - 1)
                    part = position - low
                    corners.append(((low, 1 - part), (min(low + 1, size - 1), part)))
                for z, wz in corners[0]:
                    for y, wy in corners[1]:
                        for x, wx in corners[2]:
                            out[n, :, i, j] += wz * wy * wx * grid[n, :, z, y, x]
    return out


def random_grid(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("cells", "size"), [((8, 16, 16), (9, 13)), ((5, 4, 3), (7, 2)), ((1, 1, 1), (3, 3)), ((8, 16, 16), (40, 24))]
)
def test_slicing_equals_its_definition(cells, size):
    grid = random_grid(2, 3, *cells)
    guide = torch.rand(2, *size, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 2 - 1
    torch.testing.assert_close(slice_grid(grid, guide), slice_by_loop(grid, guide), rtol=1e-9, atol=1e-9)


def test_slicing_in_float32_stays_close_to_the_definition():
    grid, guide = random_grid(1, 12, 8, 16, 16), torch.rand(1, 30, 40, dtype=torch.float64) * 2 - 1
    found = slice_grid(grid.float(), guide.float())
    torch.testing.assert_close(found.double(), slice_by_loop(grid, guide), rtol=0, atol=2e-5)


def test_guides_beyond_the_ends_read_the_end_cells():
    grid = random_grid(1, 2, 8, 4, 4)
    shape = (1, 6, 6)
    for guide, plane in ((-1.0, 0), (-7 / 8, 0), (-5.0, 0), (1.0, 7), (3.0, 7)):
        found = slice_grid(grid, torch.full(shape, guide, dtype=torch.float64))
        torch.testing.assert_close(found, slice_plane(grid[:, :, plane], (6, 6)))


def test_corner_pixels_read_the_corner_cells():
    grid = random_grid(1, 2, 1, 4, 4)
    found = slice_grid(grid, torch.zeros(1, 64, 64, dtype=torch.float64))
    torch.testing.assert_close(found[..., 0, 0], grid[:, :, 0, 0, 0])
    torch.testing.assert_close(found[..., -1, -1], grid[:, :, 0, -1, -1])


@pytest.mark.parametrize("window", [1, 3, 5, 7])
def test_tau_zero_is_exactly_the_centre_plane(window):
    grid = random_grid(2, 12, window, 16, 16)
    found = slice_grid(grid, torch.zeros(2, 33, 47, dtype=torch.float64))
    torch.testing.assert_close(found, slice_plane(grid[:, :, window // 2], (33, 47)), rtol=1e-10, atol=1e-10)


def test_slicing_gives_gradients_to_grid_and_guide():
    grid = random_grid(1, 2, 4, 3, 3).requires_grad_()
    # Away from cell centres, where the interpolation has kinks.
    guide = (torch.tensor([[-0.61, -0.1, 0.33], [0.4, 0.55, 0.07]], dtype=torch.float64)[None]).requires_grad_()
    assert torch.autograd.gradcheck(slice_grid, (grid, guide))


def test_half_precision_grids_are_sliced_in_float32():
    grid = random_grid(1, 12, 8, 16, 16)
    guide = torch.rand(1, 8, 2000) * 2 - 1
    found = slice_grid(grid.half(), guide)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, slice_grid(grid.half().float(), guide))


def test_shapes_of_grid_and_guide_are_checked():
    with pytest.raises(ValueError, match=r"got \(2, 12, 8, 16, 16\) and \(1, 4, 4\)"):
        slice_grid(torch.zeros(2, 12, 8, 16, 16), torch.zeros(1, 4, 4))


def test_equals_a_matrix_product_per_pixel():
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(2, 3, 3, 4, 5, dtype=torch.float64, generator=generator)
    offset, image = torch.randn(2, 2, 3, 4, 5, dtype=torch.float64, generator=generator).unbind(0)
    found = apply_affine(matrix, offset, image)
    for i in range(4):
        for j in range(5):
            expected = matrix[1, :, :, i, j] @ image[1, :, i, j] + offset[1, :, i, j]
            torch.testing.assert_close(found[1, :, i, j], expected)


def test_the_identity_and_a_zero_offset_return_the_image_bit_for_bit():
    image = torch.rand(1, 3, 6, 7)
    eye = torch.eye(3).view(1, 3, 3, 1, 1).expand(1, 3, 3, 6, 7)
    assert torch.equal(apply_affine(eye, torch.zeros_like(image), image), image)


def test_gradients_of_the_affine_transform():
    inputs = tuple(
        torch.randn(1, *shape, dtype=torch.float64).requires_grad_() for shape in ((3, 3, 2, 2), (3, 2, 2), (3, 2, 2))
    )
    assert torch.autograd.gradcheck(apply_affine, inputs)

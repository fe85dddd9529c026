import math

import pytest
import torch

from libranet.kernels.color_field.reference import slice_grid, slice_plane


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
def test_equals_the_definition(cells, size):
    grid = random_grid(2, 3, *cells)
    guide = torch.rand(2, *size, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 2 - 1
    torch.testing.assert_close(slice_grid(grid, guide), slice_by_loop(grid, guide), rtol=1e-9, atol=1e-9)


def test_float32_stays_close_to_the_definition():
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


def test_gradients_to_grid_and_guide():
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


def test_shapes_are_checked():
    with pytest.raises(ValueError, match=r"got \(2, 12, 8, 16, 16\) and \(1, 4, 4\)"):
        slice_grid(torch.zeros(2, 12, 8, 16, 16), torch.zeros(1, 4, 4))

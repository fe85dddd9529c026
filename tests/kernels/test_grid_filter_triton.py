"""The filter of the grids in one kernel against its reference, both ends of a stream included."""

import pytest
import torch

from libranet.kernels.grid_filter import reference
from libranet.kernels.grid_filter.reference import GridFilter

FILTER = GridFilter(0.5, 10.0)
"""Reaches four frames back."""


@pytest.mark.parametrize(
    ("first", "count", "ahead"),
    [
        pytest.param(3, 2**40, 2, id="begin"),
        pytest.param(40, 2**40, 2, id="middle"),
        pytest.param(40, 39, 2, id="end"),
        pytest.param(40, 2**40, 0, id="live"),
    ],
)
def test_matches_its_reference(device: str, first: int, count: int, ahead: int) -> None:
    from libranet.kernels.grid_filter.gpu import filter_out

    generator = torch.Generator().manual_seed(0)
    grids = torch.randn(9, 2, 5, 3, 4, 5, generator=generator).to(device)
    looks = torch.rand(9, 3, 4, 5, generator=generator).to(device) * 0.3
    clock = torch.tensor([first, count], device=device)
    want, got = (torch.zeros(2, 2, 5, 3, 4, 5, device=device) for _ in range(2))
    settings = {"grid_filter": FILTER, "delay": 3, "ahead": ahead}

    reference.filter_out(grids, looks, clock, want, **settings)
    filter_out(grids, looks, clock, got, **settings)

    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)
    assert (want[0] - grids[(first - 3) % 9]).abs().max() > 0.05  # the filter did something


def test_no_filter_returns_the_grids_bit_for_bit(device: str) -> None:
    from libranet.kernels.grid_filter.gpu import filter_out

    grids, looks = torch.randn(6, 12, 4, 4, device=device), torch.rand(6, 3, 4, 4, device=device)
    out = torch.zeros(2, 12, 4, 4, device=device)
    clock = torch.tensor([15, 2**40], device=device)
    filter_out(grids, looks, clock, out, grid_filter=GridFilter(0.0), delay=2, ahead=0)
    assert torch.equal(out, grids[[13 % 6, 14 % 6]])

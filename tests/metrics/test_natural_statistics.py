"""The AGGD fit on samples whose distribution is known."""

import math

import pytest
import torch

from libranet.metrics.natural_statistics import fit_aggd, luminance, smooth


def test_a_normal_sample_has_shape_two() -> None:
    sample = torch.randn(2, 200_000, generator=torch.Generator().manual_seed(0)) * 1.5
    shape, mean, left, right = fit_aggd(sample)
    assert shape.tolist() == pytest.approx([2.0, 2.0], abs=0.05)
    assert mean.abs().max() < 0.02
    assert left.tolist() == pytest.approx([1.5, 1.5], abs=0.02)
    assert right.tolist() == pytest.approx([1.5, 1.5], abs=0.02)


def test_a_laplace_sample_has_shape_one() -> None:
    uniform = torch.rand(400_000, generator=torch.Generator().manual_seed(1), dtype=torch.float64) - 0.5
    sample = -uniform.sign() * torch.log1p(-2 * uniform.abs())
    shape, _, left, _ = fit_aggd(sample)
    assert float(shape) == pytest.approx(1.0, abs=0.02)
    assert float(left) == pytest.approx(math.sqrt(2), abs=0.02)


def test_a_skewed_sample_has_a_mean() -> None:
    sample = torch.randn(100_000, generator=torch.Generator().manual_seed(2))
    skewed = torch.where(sample > 0, 3 * sample, sample)
    _, mean, left, right = fit_aggd(skewed)
    assert float(right) == pytest.approx(3 * float(left), rel=0.05)
    assert float(mean) > 1.0


def test_zeros_can_be_left_out_of_both_sides() -> None:
    sample = torch.tensor([-1.0, -1.0, 0.0, 0.0, 2.0, 2.0])
    assert float(fit_aggd(sample, zeros="neither")[3]) == pytest.approx(2.0)
    assert float(fit_aggd(sample)[3]) == pytest.approx(math.sqrt(2.0))


def test_a_flat_sample_gives_finite_numbers() -> None:
    assert all(bool(value.isfinite()) for value in fit_aggd(torch.zeros(100)))


def test_smoothing_keeps_a_constant_and_luma_is_bt601() -> None:
    torch.testing.assert_close(smooth(torch.full((20, 26), 7.0)), torch.full((14, 20), 7.0))
    red = torch.tensor([1.0, 0.0, 0.0])[:, None, None].expand(3, 2, 2)
    assert float(luminance(red)[0, 0]) == pytest.approx(0.299 * 255, abs=1e-4)

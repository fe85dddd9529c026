"""The scattering model against its closed form, its inverse and its gradients; the regime table and its use."""

import math
from collections import Counter

import pytest
import torch

from libranet.errors import InputError
from libranet.haze.scattering import REGIMES, add_haze, airlight_sums, assign_regimes, transmission


def scene(batch: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return torch.rand(batch, 3, 24, 32, generator=generator), torch.rand(batch, 1, 24, 32, generator=generator)


@pytest.mark.parametrize(
    ("beta", "channels"),
    [(1.3, 1), (torch.tensor(1.3), 1), (torch.tensor([1.3, 1.3]), 1), (torch.full((2, 3), 1.3), 3)],
)
def test_transmission_is_the_exponential_for_every_shape_of_beta(beta: torch.Tensor | float, channels: int) -> None:
    _, depth = scene()
    t = transmission(depth, beta)
    assert t.shape == (2, channels, 24, 32)
    torch.testing.assert_close(t, torch.exp(-1.3 * depth).expand_as(t))
    torch.testing.assert_close(transmission(depth[:, 0], beta), t)


def test_beta_belongs_to_its_frame_and_channel() -> None:
    depth = torch.ones(2, 1, 16, 16)
    t = transmission(depth, torch.tensor([[0.5, 1.0, 2.0], [0.1, 0.2, 0.3]]))
    assert t[0, 2, 0, 0].item() == pytest.approx(math.exp(-2.0))
    assert t[1, 0, 0, 0].item() == pytest.approx(math.exp(-0.1))


@pytest.mark.parametrize(
    ("airlight", "shape"),
    [
        (0.8, (1, 1, 1, 1)),
        (torch.tensor([0.8, 0.7]), (2, 1, 1, 1)),
        (torch.tensor([0.8, 0.7, 0.9]), (1, 3, 1, 1)),
        (torch.tensor([[0.8, 0.7, 0.9], [0.6, 0.5, 0.4]]), (2, 3, 1, 1)),
    ],
)
def test_solving_the_model_for_the_clear_frame_inverts_it(
    airlight: torch.Tensor | float, shape: tuple[int, ...]
) -> None:
    clear, depth = scene()
    t = transmission(depth, 1.5)
    light = torch.as_tensor(airlight)
    light = (
        light.view(2, 1, 1, 1) if light.shape == (2,) else light.view(-1, light.shape[-1] if light.dim() else 1, 1, 1)
    )
    inverted = (add_haze(clear, t, airlight) - light) / t + light
    torch.testing.assert_close(inverted, clear, atol=2e-6, rtol=0)


def test_the_limits_are_the_clear_frame_and_the_airlight() -> None:
    clear, depth = scene()
    light = torch.tensor([0.9, 0.8, 0.7])
    assert torch.equal(add_haze(clear, transmission(depth, 0.0), light), clear)
    fog = add_haze(clear, transmission(depth + 1, 200.0), light)
    torch.testing.assert_close(fog, light.view(1, 3, 1, 1).expand_as(fog))


def test_eight_bit_files_still_give_the_airlight() -> None:
    clear, depth = scene()
    light = torch.tensor([[0.83, 0.74, 0.91], [0.66, 0.58, 0.47]])
    clear = (clear * 255).round() / 255
    t = transmission(depth, torch.tensor([0.9, 2.0])).half().float()
    hazy = (add_haze(clear, t, light) * 255).round() / 255
    numerator, denominator = airlight_sums(hazy, clear, t)
    assert (numerator / denominator - light).abs().max() < 1 / 255


def test_noise_has_the_asked_strength_and_a_seed() -> None:
    clear = torch.full((2, 3, 64, 64), 0.5)
    t = torch.ones(2, 1, 64, 64)
    hazy = add_haze(clear, t, 0.8, noise=0.02, generator=torch.Generator().manual_seed(1))
    again = add_haze(clear, t, 0.8, noise=0.02, generator=torch.Generator().manual_seed(1))
    assert torch.equal(hazy, again)
    assert torch.equal(add_haze(clear, t, 0.8), clear)
    assert hazy.std().item() == pytest.approx(0.02, rel=0.05)


def test_gradients_match_finite_differences() -> None:
    depth = torch.rand(1, 1, 3, 3, dtype=torch.float64, requires_grad=True)
    beta = torch.tensor([[0.7, 0.9, 1.1]], dtype=torch.float64, requires_grad=True)
    clear = torch.rand(1, 3, 3, 3, dtype=torch.float64) * 0.8 + 0.1
    light = torch.tensor([[0.7, 0.6, 0.5]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda d, b, a: add_haze(clear, transmission(d, b), a), (depth, beta, light))


def test_wrong_shapes_are_named() -> None:
    clear, depth = scene()
    with pytest.raises(InputError, match=r"depth as .* got \(2, 3, 24, 32\)"):
        transmission(clear, 1.0)
    with pytest.raises(InputError, match="beta as"):
        transmission(depth, torch.ones(2, 2))
    with pytest.raises(InputError, match="airlight as"):
        add_haze(clear, transmission(depth, 1.0), torch.ones(2, 4))


def test_nine_regimes_of_three_densities_and_three_lights() -> None:
    assert len(REGIMES) == len({regime.name for regime in REGIMES}) == 9
    assert len({regime.beta for regime in REGIMES}) == 3
    assert len({regime.airlight for regime in REGIMES}) == 3


def test_every_nine_clips_use_each_regime_once() -> None:
    drawn = assign_regimes(27, seed=4)
    for start in (0, 9, 18):
        assert set(Counter(regime.name for regime in drawn[start : start + 9]).values()) == {1}
    assert [regime.name for regime in drawn] == [regime.name for regime in assign_regimes(27, seed=4)]
    assert [regime.name for regime in drawn] != [regime.name for regime in assign_regimes(27, seed=5)]
    assert assign_regimes(4, seed=4) == drawn[:4]


def test_blue_scatters_more_where_the_wavelength_counts() -> None:
    regime = REGIMES[0]
    assert regime.betas() == (regime.beta,)
    red, green, blue = regime.betas(1.3)
    assert red < green < blue
    assert green == pytest.approx(regime.beta)

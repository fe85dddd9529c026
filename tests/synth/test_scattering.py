"""The scattering model against its closed form, its inverse and its gradients."""

import math

import pytest
import torch

from libranet.errors import InputError
from libranet.synth.scattering import add_haze, estimate_airlight, remove_haze, transmission


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
    "airlight",
    [0.8, torch.tensor([0.8, 0.7]), torch.tensor([0.8, 0.7, 0.9]), torch.tensor([[0.8, 0.7, 0.9], [0.6, 0.5, 0.4]])],
)
def test_haze_comes_off_again(airlight: torch.Tensor | float) -> None:
    clear, depth = scene()
    t = transmission(depth, 1.5)
    torch.testing.assert_close(remove_haze(add_haze(clear, t, airlight), t, airlight), clear, atol=2e-6, rtol=0)


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
    assert (estimate_airlight(hazy, clear, t) - light).abs().max() < 1 / 255


def test_noise_has_the_asked_strength_and_a_seed() -> None:
    clear = torch.full((2, 3, 64, 64), 0.5)
    t = torch.ones(2, 1, 64, 64)
    sigma = torch.tensor([0.0, 0.02])
    hazy = add_haze(clear, t, 0.8, noise=sigma, generator=torch.Generator().manual_seed(1))
    again = add_haze(clear, t, 0.8, noise=sigma, generator=torch.Generator().manual_seed(1))
    assert torch.equal(hazy, again)
    assert torch.equal(hazy[0], clear[0])
    assert hazy[1].std().item() == pytest.approx(0.02, rel=0.05)


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

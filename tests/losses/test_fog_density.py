"""The density of fog as training sees it, held to the metric, and what it can and cannot be lowered by."""

from dataclasses import dataclass

import pytest
import safetensors.torch
import torch
import torch.nn.functional as F

from libranet.errors import InputError
from libranet.lab.perception.fade import fade
from libranet.losses.fog_density import FogDensity, by_gain_and_offset
from libranet.losses.objective import FogWeights, LossConfig, Objective


@pytest.fixture
def parameters(tmp_path):
    """Made-up statistics of images: those of fog have less contrast and less colour."""
    generator = torch.Generator().manual_seed(0)
    spread = torch.randn(12, 12, generator=generator, dtype=torch.float64) * 0.1
    clear = torch.tensor([0.3, 0.1, 0.1, 2.5, 0.2, 1.6, 0.4, 0.4, 1.5, 0.2, 0.3, 2.5], dtype=torch.float64)
    foggy = torch.tensor([0.2, 0.05, 0.05, 1.2, 0.05, 1.2, 0.2, 0.2, 1.2, 0.45, 0.05, 1.0], dtype=torch.float64)
    covariance = spread @ spread.T + torch.eye(12, dtype=torch.float64) * 0.2
    state = {"clear_mean": clear, "foggy_mean": foggy, "clear_covariance": covariance, "foggy_covariance": covariance}
    safetensors.torch.save_file({name: tensor.clone() for name, tensor in state.items()}, tmp_path / "fade")
    return tmp_path / "fade"


@dataclass(frozen=True)
class Guess:
    """A prediction of a network without grids."""

    image: torch.Tensor
    grids: None = None
    small: None = None


def scene(seed=0, size=128):
    """Coloured shapes of several sizes, in 8-bit levels."""
    generator = torch.Generator().manual_seed(seed)
    image = torch.zeros(1, 3, size, size)
    for cells, share in ((4, 0.5), (16, 0.3), (64, 0.2)):
        image += share * F.interpolate(torch.rand(1, 3, cells, cells, generator=generator), size=(size, size))
    return (image * 255).round() / 255


def add_haze(image, transmission):
    return image * transmission + 0.8 * (1 - transmission)


@pytest.mark.parametrize("transmission", [1.0, 0.5, 0.2])
def test_it_agrees_with_the_metric(parameters, transmission):
    image = (add_haze(scene(), transmission) * 255).round() / 255
    expected = fade(image[0], safetensors.torch.load_file(parameters))
    # Entropy of a bell instead of that of the levels is the difference.
    assert float(FogDensity(parameters)(image)) == pytest.approx(expected, rel=0.15)


def test_more_haze_is_denser(parameters):
    density = FogDensity(parameters)
    values = [float(density(add_haze(scene(), t))) for t in (1.0, 0.6, 0.3, 0.1)]
    assert values == sorted(values)


def test_an_even_image_has_no_density_and_no_broken_gradient(parameters):
    image = torch.full((2, 3, 64, 64), 0.5, requires_grad=True)
    FogDensity(parameters)(by_gain_and_offset(image, image.detach())).sum().backward()
    assert torch.isfinite(image.grad).all()


def test_only_gain_and_offset_of_the_input_count():
    hazy, torn = add_haze(scene(), 0.3), torch.rand(1, 3, 128, 128, generator=torch.Generator().manual_seed(1))
    cleared = 2.0 * hazy - 0.6
    # Where every 16x16 pixels have contrast, a gain and an offset stay as they are but for the guard against noise.
    assert (by_gain_and_offset(cleared, hazy) - cleared).abs().mean() < 0.01
    noise = 0.2 * (torn.mean(dim=1, keepdim=True) - 0.5)
    kept = by_gain_and_offset(cleared + noise, hazy) - by_gain_and_offset(cleared, hazy)
    assert kept.std() < 0.25 * noise.std()


def test_the_gradient_pulls_at_all_channels_alike(parameters):
    hazy = add_haze(scene(), 0.3)
    restored = hazy.clone().requires_grad_()
    FogDensity(parameters)(by_gain_and_offset(restored, hazy)).sum().backward()
    assert restored.grad.abs().max() > 0
    assert torch.allclose(restored.grad, restored.grad.mean(dim=1, keepdim=True).expand(-1, 3, -1, -1), atol=1e-7)


def test_darkness_and_light_are_not_rewarded(parameters):
    hazy = add_haze(scene(), 0.3)
    restored = hazy.clone().requires_grad_()
    FogDensity(parameters)(by_gain_and_offset(restored, hazy)).sum().backward()
    more_contrast = hazy - hazy.mean(dim=1, keepdim=True).mean(dim=(2, 3), keepdim=True)
    gain = (restored.grad * more_contrast / more_contrast.std()).sum()
    assert gain < 0
    assert abs(restored.grad.sum()) < 0.02 * abs(gain)


def test_the_objective_judges_filmed_samples_alone(parameters):
    clear = torch.cat([scene(0), scene(1)])
    hazy = add_haze(clear, 0.2)
    fog = FogWeights(density=0.5, structure=0.0, density_source=str(parameters))
    objective = Objective(LossConfig(perceptual="none", fog=fog), torch.device("cpu"))
    prediction = Guess(hazy)
    both, first, none = (
        objective(prediction, clear, hazy, torch.tensor(filmed)) for filmed in ([1.0, 1.0], [1.0, 0.0], [0.0, 0.0])
    )
    assert 0 < float(first.density) < float(both.density)
    assert float(none.density) == 0
    assert torch.isclose(both.total, both.pixel + 0.5 * both.density)


def test_missing_parameters_are_named(tmp_path):
    with pytest.raises(InputError, match="libranet weights pull fade"):
        FogDensity(tmp_path / "none.safetensors")


@pytest.mark.parametrize(
    ("setting", "message"), [({"structure": 1.0}, "without loss.fog.density"), ({"reduce": 0}, "at least 1")]
)
def test_settings_that_would_do_nothing_or_break_are_refused(setting, message):
    with pytest.raises(InputError, match=message):
        FogWeights(**setting)


def test_invented_texture_costs_and_gain_does_not(parameters):
    clear, generator = scene(), torch.Generator().manual_seed(2)
    hazy = add_haze(clear, 0.3)
    fog = FogWeights(density=0.1, structure=2.0, density_source=str(parameters))
    objective = Objective(LossConfig(perceptual="none", fog=fog), torch.device("cpu"))
    cleared = 2.0 * hazy - 0.6
    painted = cleared + 0.1 * torch.randn(1, 1, 128, 128, generator=generator)
    honest, invented = (objective(Guess(image), clear, hazy) for image in (cleared, painted))
    assert float(invented.structure) > 5 * float(honest.structure)
    terms = invented.pixel + 0.1 * invented.density + 2.0 * invented.structure
    assert torch.isclose(invented.total, terms)

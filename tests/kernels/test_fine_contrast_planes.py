"""Fine contrast in C equals the reference for every level of instructions and size; noise and even places get none."""

import pytest
import torch

from libranet.kernels.fine_contrast import planes, reference
from libranet.kernels.native.library import LEVELS


def misty(height: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Faint stripes on the left of an even frame, as it came and twice as strong: [H, W] each."""
    columns = torch.arange(width, dtype=torch.float32).expand(height, width)
    stripes = torch.sin(columns * (2 * torch.pi / 12)) * (columns < width / 2)
    return 0.6 + 0.01 * stripes, 0.6 + 0.02 * stripes


def change(twin, given: torch.Tensor, luma: torch.Tensor, gain: float = 8.0) -> torch.Tensor:
    return reference.fine_contrast(given, luma, (luma, 1.0 - luma), gain, twin)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("height", "width"), [(400, 512), (413, 301), (16, 20), (720, 333), (1080, 1923)])
def test_both_twins_agree(height: int, width: int, level: str, use_level) -> None:
    use_level(level)
    generator = torch.Generator().manual_seed(0)
    given, luma = (one + 0.02 * torch.rand(height, width, generator=generator) for one in misty(height, width))
    expected, found = (change(twin, given, luma) for twin in (reference, planes))
    assert expected.abs().max() > 0.01
    assert (expected - found).abs().max() < 1e-4


def test_faint_contrast_grows_and_keeps_its_mean() -> None:
    given, luma = misty(400, 600)
    added = change(reference, given, luma)[:, 60:240]
    stripes = luma[:, 60:240] - 0.6
    assert ((added * stripes).sum() / (stripes * stripes).sum()) > 1.5, "the gain is added to what is there"
    assert added.mean().abs() < 0.02 * added.abs().max()


def test_noise_and_even_places_stay() -> None:
    generator = torch.Generator().manual_seed(0)
    even = torch.full((800, 800), 0.7)
    noise = 1.0 / 255 * torch.randn(800, 800, generator=generator)
    assert change(reference, even, even).abs().max() == 0
    added = change(reference, even + noise, even + 2 * noise)
    assert added.std() < 0.3 * (2 * noise).std()


def test_nothing_leaves_its_room() -> None:
    given, luma = misty(400, 600)
    for level in (0.012, 0.97):
        moved = luma - 0.6 + level
        result = moved + change(reference, given, moved, gain=50.0)
        assert result.min() >= 0.0
        assert result.max() <= 1.0


def test_strong_contrast_gets_less() -> None:
    given, luma = misty(400, 600)
    strong = 0.6 + 10 * (luma - 0.6)
    faint, plenty = (change(reference, given, one).abs().max() / (one - 0.6).abs().max() for one in (luma, strong))
    assert plenty < 0.2 * faint

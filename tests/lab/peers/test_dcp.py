"""The dark channel baseline on haze made by the scattering model, where the answer is known."""

import pytest
import torch

from libranet.lab.peers import dcp
from libranet.lab.peers.dcp import (
    dark_channel,
    dark_channel_dehaze,
    estimate_airlight,
    guided_coefficients,
)
from libranet.metrics import psnr

AIRLIGHT = torch.tensor([0.85, 0.88, 0.92])


def _scene(height: int, width: int, t: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Dark, colourful texture under even haze, with a strip of plain haze at the top where the airlight shows."""
    generator = torch.Generator().manual_seed(5)
    clear = torch.rand(3, height, width, generator=generator) ** 3 * 0.8
    hazy = clear * t + AIRLIGHT[:, None, None] * (1 - t)
    hazy[:, : height // 5] = AIRLIGHT[:, None, None]
    clear[:, : height // 5] = AIRLIGHT[:, None, None]
    return hazy, clear


def test_even_haze_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dcp, "GUIDE_RADIUS", 8)
    hazy, clear = _scene(160, 200, t=0.5)
    restored = dark_channel_dehaze(hazy)
    airlight = estimate_airlight(hazy, dark_channel(hazy[None], 15)[0, 0], 1e-3)
    torch.testing.assert_close(airlight, AIRLIGHT, atol=0.02, rtol=0)
    ground = slice(60, None)
    assert psnr(restored[:, ground], clear[:, ground]) > psnr(hazy[:, ground], clear[:, ground]) + 8


def test_a_large_frame_is_treated_like_its_thumbnail(monkeypatch: pytest.MonkeyPatch) -> None:
    coarse, _ = _scene(15, 20, t=0.6)  # enlarged twice, it has no texture that reducing could lose
    hazy, large = (
        torch.nn.functional.interpolate(coarse[None], size=size, mode="bicubic").clamp(0, 1)[0]
        for size in ((120, 160), (480, 640))
    )
    monkeypatch.setattr(dcp, "WORK_SIZE", 120)
    monkeypatch.setattr(dcp, "GUIDE_RADIUS", 12)
    small_result = dark_channel_dehaze(hazy)
    large_result = dark_channel_dehaze(large)
    assert large_result.shape == large.shape
    reduced = torch.nn.functional.interpolate(large_result[None], size=(120, 160), mode="bilinear", antialias=True)[0]
    assert psnr(reduced, small_result) > 25


def test_dark_channel_by_hand() -> None:
    image = torch.ones(1, 3, 5, 5)
    image[0, 1, 2, 2] = 0.25
    dark = dark_channel(image, 3)[0, 0]
    assert dark[1:4, 1:4].eq(0.25).all()
    assert dark.eq(0.25).sum() == 9


def test_airlight_is_the_mean_of_the_haziest() -> None:
    image = torch.zeros(3, 10, 10)
    image[:, 0, 0] = torch.tensor([0.9, 0.8, 0.7])
    torch.testing.assert_close(estimate_airlight(image, image.amin(0), 0.01), torch.tensor([0.9, 0.8, 0.7]))


def test_guided_filter_reproduces_a_linear_relation() -> None:
    guide = torch.rand(1, 1, 30, 40, generator=torch.Generator().manual_seed(6))
    slope, offset = guided_coefficients(guide, 2 * guide - 0.3, radius=4, epsilon=1e-8)
    torch.testing.assert_close(slope * guide + offset, 2 * guide - 0.3, atol=1e-4, rtol=0)


def test_output_is_a_frame() -> None:
    frame = torch.rand(3, 33, 47, generator=torch.Generator().manual_seed(7))
    restored = dark_channel_dehaze(frame)
    assert restored.shape == frame.shape
    assert 0.0 <= float(restored.min()) <= float(restored.max()) <= 1.0

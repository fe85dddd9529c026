"""PSNR and SSIM against scikit-image, on natural-looking and on awkward frames."""

import math

import pytest
import torch

from libranet.errors import InputError
from libranet.metrics import fidelity, psnr, ssim

metrics = pytest.importorskip("skimage.metrics", reason="scikit-image is the second implementation")


def _pair(height: int, width: int, *, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """A smooth coloured image with fine texture, and a hazy, noisy copy of it."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(1, 3, 6, 8, generator=generator)
    clear = torch.nn.functional.interpolate(coarse, size=(height, width), mode="bicubic").clamp(0, 1)[0]
    clear = (clear + 0.1 * torch.randn(3, height, width, generator=generator)).clamp(0, 1)
    hazy = (0.6 * clear + 0.35 + 0.02 * torch.randn(3, height, width, generator=generator)).clamp(0, 1)
    return hazy, clear


@pytest.mark.parametrize("size", [(11, 12), (64, 97), (139, 200)])
def test_psnr_is_the_one_of_scikit_image(size: tuple[int, int]) -> None:
    hazy, clear = _pair(*size)
    expected = metrics.peak_signal_noise_ratio(clear.double().numpy(), hazy.double().numpy(), data_range=1)
    assert psnr(hazy, clear) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("size", [(11, 12), (64, 97), (139, 200)])
def test_ssim_is_the_one_of_scikit_image(size: tuple[int, int]) -> None:
    hazy, clear = _pair(*size, seed=1)
    expected = metrics.structural_similarity(
        clear.double().numpy(),
        hazy.double().numpy(),
        data_range=1,
        gaussian_weights=True,
        sigma=1.5,
        use_sample_covariance=False,
        channel_axis=0,
    )
    assert ssim(hazy, clear) == pytest.approx(expected, abs=1e-5)


def test_the_strips_of_a_gpu_give_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    hazy, clear = _pair(139, 64, seed=3)
    expected = psnr(hazy, clear), ssim(hazy, clear)
    monkeypatch.setattr(fidelity, "_strip_rows", lambda image: 1080)
    assert (psnr(hazy, clear), ssim(hazy, clear)) == pytest.approx(expected, rel=1e-9)


def test_ssim_keeps_its_digits_on_flat_bright_frames() -> None:
    generator = torch.Generator().manual_seed(2)
    clear = 0.98 + 0.004 * torch.rand(3, 40, 40, generator=generator)
    hazy = clear + 0.004 * torch.rand(3, 40, 40, generator=generator)
    expected = metrics.structural_similarity(
        clear.double().numpy(),
        hazy.double().numpy(),
        data_range=1,
        gaussian_weights=True,
        sigma=1.5,
        use_sample_covariance=False,
        channel_axis=0,
    )
    assert ssim(hazy, clear) == pytest.approx(expected, abs=1e-4)


def test_equal_frames() -> None:
    _, clear = _pair(32, 32)
    assert psnr(clear, clear) == math.inf
    assert ssim(clear, clear) == pytest.approx(1.0, abs=1e-6)


def test_a_uniform_error_of_a_tenth_is_twenty_decibels() -> None:
    clear = torch.full((3, 20, 20), 0.4)
    assert psnr(clear + 0.1, clear) == pytest.approx(20.0, abs=1e-5)


@pytest.mark.parametrize("metric", [psnr, ssim])
def test_bad_frames_are_refused(metric: object) -> None:
    assert callable(metric)
    with pytest.raises(InputError, match="reference's size, 20x16, got 16x16"):
        metric(torch.zeros(3, 16, 16), torch.zeros(3, 16, 20))
    with pytest.raises(InputError, match=r"\[3, H, W\]"):
        metric(torch.zeros(1, 3, 16, 16), torch.zeros(1, 3, 16, 16))
    with pytest.raises(InputError, match="divide by 255"):
        metric(torch.zeros(3, 16, 16, dtype=torch.uint8), torch.zeros(3, 16, 16, dtype=torch.uint8))


def test_ssim_needs_room_for_its_window() -> None:
    with pytest.raises(InputError, match="got 10x64"):
        ssim(torch.zeros(3, 64, 10), torch.zeros(3, 64, 10))

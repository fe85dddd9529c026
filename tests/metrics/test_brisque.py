"""BRISQUE against OpenCV: its features always, its scores where the published regression is at hand."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from libranet.errors import InputError
from libranet.metrics.brisque import brisque, brisque_features

cv2 = pytest.importorskip("cv2")
if not hasattr(cv2, "quality"):
    pytest.skip("this OpenCV is built without its quality module", allow_module_level=True)

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


def _picture(seed: int, height: int = 157, width: int = 212) -> Tensor:
    """Texture at all scales, on the 8-bit grid."""
    generator = torch.Generator().manual_seed(seed)
    total = torch.zeros(1, 3, height, width)
    for octave in range(6):
        noise = torch.randn(1, 3, max(2, height >> octave), max(2, width >> octave), generator=generator)
        total += torch.nn.functional.interpolate(noise, size=(height, width), mode="bicubic") * 2.0 ** (octave - 5)
    return ((0.45 + 0.15 * total[0]).clamp(0, 1) * 255).round() / 255


def _bgr(image: Tensor) -> np.ndarray:
    return np.ascontiguousarray((image.flip(0) * 255).round().to(torch.uint8).permute(1, 2, 0).numpy())


def _degraded(image: Tensor) -> dict[str, Tensor]:
    kernel = torch.ones(3, 1, 5, 5) / 25
    blurred = torch.nn.functional.conv2d(image[None], kernel, padding=2, groups=3)[0].clamp(0, 1)
    noisy = (image + 0.1 * torch.randn(image.shape, generator=torch.Generator().manual_seed(9))).clamp(0, 1)
    versions = {"plain": image, "blurred": blurred, "noisy": noisy, "hazy": 0.5 * image + 0.45}
    return {name: (version * 255).round() / 255 for name, version in versions.items()}


@pytest.mark.parametrize("version", ["plain", "blurred", "noisy", "hazy"])
def test_features_are_those_of_opencv(version: str) -> None:
    image = _degraded(_picture(0))[version]
    expected = cv2.quality.QualityBRISQUE_computeFeatures(_bgr(image)).ravel()
    np.testing.assert_allclose(brisque_features(image).numpy(), expected, atol=2e-3)


def test_scores_are_within_one_of_opencv(tmp_path: Path, published: Callable[[str], dict[str, Tensor]]) -> None:
    regression = published("brisque")
    model, ranges = _write_opencv_model(regression, tmp_path)
    for image in _degraded(_picture(1, 240, 320)).values():
        expected = cv2.quality.QualityBRISQUE_compute(_bgr(image), str(model), str(ranges))[0]
        assert brisque(image, regression) == pytest.approx(expected, abs=1.0)


def test_a_burnt_out_sky_does_not_count_as_texture() -> None:
    image = _picture(2)
    burnt = image.clone()
    burnt[:, :60] = 1.0
    slightly_darker = burnt.clone()
    slightly_darker[:, :60] = 254 / 255
    torch.testing.assert_close(brisque_features(burnt), brisque_features(slightly_darker), atol=0.02, rtol=0)


def test_small_frames_are_refused() -> None:
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

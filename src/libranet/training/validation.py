"""Compares checkpoints on pairs unlike the training data."""

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor

from libranet.backends import make_backend, rgb_frames, rgb_of
from libranet.errors import InputError
from libranet.metrics.fidelity import psnr
from libranet.models import Network
from libranet.training.config import ValidationConfig

EXAMPLES = 4
"""Images of each set that the log shows."""


@dataclass(frozen=True)
class ImagePair:
    """A hazy image and its clear one, [3, H, W] uint8."""

    hazy: Tensor
    clear: Tensor


@dataclass(frozen=True)
class ValidationScore:
    """Means over the pairs of one set."""

    hazy_psnr: float
    psnr: float
    examples: list[Tensor]
    """[3, H, 3 W] in [0, 1] each: hazy, restored and clear side by side."""


def load_pairs(config: ValidationConfig) -> list[list[ImagePair]]:
    """Read the sets of pairs: for each, two folders with the same file names."""
    return [_load_set(Path(hazy), Path(clear)) for hazy, clear in zip(config.hazy, config.clear, strict=True)]


def validate(model: Network, pairs: list[ImagePair]) -> ValidationScore:
    """Restore the hazy images through the same backend as the product, and compare them with the clear ones."""
    backend = make_backend(model)
    before: list[float] = []
    after: list[float] = []
    examples: list[Tensor] = []
    for pair in pairs:
        hazy, clear = (image.to(backend.device).float()[None] / 255 for image in (pair.hazy, pair.clear))
        (result,) = [*backend.push(rgb_frames(hazy)), *backend.flush()]  # one frame is a whole stream
        restored = rgb_of(result)
        before.append(psnr(hazy[0], clear[0]))
        after.append(psnr(restored, clear[0]))
        if len(examples) < EXAMPLES:
            examples.append(torch.cat([hazy[0], restored, clear[0]], dim=-1).cpu())
    return ValidationScore(float(np.mean(before)), float(np.mean(after)), examples)


def _load_set(hazy_folder: Path, clear_folder: Path) -> list[ImagePair]:
    for folder in (hazy_folder, clear_folder):
        if not folder.is_dir():
            raise InputError(f"no validation images at {folder}: check the recipe's [validation]")
    names = sorted(path.name for path in hazy_folder.iterdir() if (clear_folder / path.name).is_file())
    if not names:
        raise InputError(f"no file name occurs both in {hazy_folder} and in {clear_folder}")
    return [ImagePair(_read(hazy_folder / name), _read(clear_folder / name)) for name in names]


def _read(path: Path) -> Tensor:
    image = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if image is None:
        raise InputError(f"cannot read {path} as an image")
    return torch.from_numpy(cv2.cvtColor(image, cv2.COLOR_BGR2RGB)).permute(2, 0, 1)

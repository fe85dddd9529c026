"""Comparing checkpoints on pairs unlike the training data."""

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor

from libranet.errors import InputError
from libranet.metrics.fidelity import psnr
from libranet.models.libranet import LiBrANet
from libranet.training.config import ValidationConfig


@dataclass(frozen=True)
class Pair:
    """A hazy image and its clear one, [3, H, W] uint8."""

    name: str
    hazy: Tensor
    clear: Tensor


def load_pairs(config: ValidationConfig) -> list[list[Pair]]:
    """Read the sets of pairs: for each, two folders with the same file names."""
    return [
        _load_set(Path(hazy), Path(clear), config.limit) for hazy, clear in zip(config.hazy, config.clear, strict=True)
    ]


def _load_set(hazy_folder: Path, clear_folder: Path, limit: int) -> list[Pair]:
    for folder in (hazy_folder, clear_folder):
        if not folder.is_dir():
            raise InputError(f"no validation images at {folder}: check the recipe's [validation]")
    names = sorted(path.name for path in hazy_folder.iterdir() if (clear_folder / path.name).is_file())
    if not names:
        raise InputError(f"no file name occurs both in {hazy_folder} and in {clear_folder}")
    names = names[: limit or None]
    return [Pair(name, _read(hazy_folder / name), _read(clear_folder / name)) for name in names]


@torch.no_grad()
def validate(model: LiBrANet, pairs: list[Pair], device: torch.device) -> tuple[float, float, list[Tensor]]:
    """Mean PSNR of the hazy images and of the restored ones, and the first restored images for a picture.

    A still image is a window of T equal frames.
    """
    before: list[float] = []
    after: list[float] = []
    pictures: list[Tensor] = []
    for pair in pairs:
        hazy, clear = (image.to(device).float()[None] / 255 for image in (pair.hazy, pair.clear))
        restored = model(hazy[:, None], still=True)
        before.append(psnr(hazy[0], clear[0]))
        after.append(psnr(restored[0], clear[0]))
        if len(pictures) < 4:
            pictures.append(torch.cat([hazy[0], restored[0], clear[0]], dim=-1).cpu())
    return float(np.mean(before)), float(np.mean(after)), pictures


def _read(path: Path) -> Tensor:
    image = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if image is None:
        raise InputError(f"cannot read {path} as an image")
    return torch.from_numpy(cv2.cvtColor(image, cv2.COLOR_BGR2RGB)).permute(2, 0, 1)

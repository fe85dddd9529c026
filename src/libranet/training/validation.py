"""Compares checkpoints on pairs unlike the training data: images, or clips that were held out of training."""

import hashlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.data import PairedClip, folder_pairs
from libranet.data.frames import FrameFiles, RgbImage, VideoFrames, to_8_bit
from libranet.engine import Dehazer
from libranet.errors import InputError
from libranet.metrics.fidelity import psnr
from libranet.network import Network
from libranet.training.config import ValidationConfig

EXAMPLES = 4  # images of each set that the log shows
EXAMPLE_LINES = 540  # most lines of such an image


@dataclass(frozen=True)
class ImagePair:
    """A hazy image and its clear one, [3, H, W] uint8."""

    hazy: Tensor
    clear: Tensor

    def frames(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The one pair."""
        yield self.hazy, self.clear


@dataclass(frozen=True)
class HeldOutClip:
    """A clip that training does not see; frames are read when they are asked for."""

    clip: PairedClip
    count: int  # frames to restore, from the middle of the clip

    def frames(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Hazy and clear frames, [3, H, W] uint8, in order."""
        count = min(self.count, len(self.clip))
        first = (len(self.clip) - count) // 2
        for index in range(first, first + count):
            yield _planes(to_8_bit(self.clip.hazy.read(index))), _planes(to_8_bit(self.clip.clear.read(index)))


ValidationSet = Sequence[ImagePair] | Sequence[HeldOutClip]  # images, or clips


@dataclass(frozen=True)
class ValidationScore:
    """Means over the pairs of one set."""

    hazy_psnr: float
    psnr: float
    examples: list[Tensor]
    """[3, H, 3 W] in [0, 1] each, reduced to `EXAMPLE_LINES`: hazy, restored and clear side by side."""


def load_pairs(config: ValidationConfig) -> list[list[ImagePair]]:
    """Read the sets of pairs: for each, two folders, as `libranet.data.folder_pairs` reads them."""
    return [_load_set(Path(hazy), Path(clear)) for hazy, clear in zip(config.hazy, config.clear, strict=True)]


def hold_out(clips: list[PairedClip], share: float) -> tuple[list[PairedClip], list[PairedClip]]:
    """Split clips into those to train on and those to validate on.

    The names decide, not their order, so that a set that grows keeps its split. Versions of one clear clip stay
    together.
    """
    if not share:
        return clips, []
    scenes = sorted({_scene(clip) for clip in clips}, key=lambda name: hashlib.sha256(name.encode()).digest())
    chosen = set(scenes[: max(1, round(share * len(scenes)))])
    parts = [clip for clip in clips if _scene(clip) not in chosen], [clip for clip in clips if _scene(clip) in chosen]
    if not parts[0]:
        raise InputError(
            f"expected at least two scenes to hold one out for validation, got {len(scenes)}: "
            "with validation.held_out = 0 none is held out"
        )
    return parts


def validate(model: Network, pairs: ValidationSet) -> ValidationScore:
    """Restore images or clips as `Dehazer` does it for a user, in 8 bits, and compare them with the clear ones."""
    dehazer = Dehazer(model)
    before: list[float] = []
    after: list[float] = []
    examples: list[Tensor] = []
    for pair in pairs:
        scores: list[tuple[float, float]] = []
        for frames in _restore(dehazer, pair):
            hazy, restored, clear = (image.to(model.device).float() / 255 for image in frames)
            if not scores and len(examples) < EXAMPLES:
                examples.append(_example(hazy, restored, clear))
            scores.append((psnr(hazy, clear), psnr(restored, clear)))
        before.append(float(np.mean([score[0] for score in scores])))
        after.append(float(np.mean([score[1] for score in scores])))
    return ValidationScore(float(np.mean(before)), float(np.mean(after)), examples)


def _restore(dehazer: Dehazer, pair: ImagePair | HeldOutClip) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Hazy, restored and clear frames, [3, H, W] uint8 each, one stream from first to last."""
    waiting: deque[tuple[Tensor, Tensor]] = deque()
    for hazy, clear in pair.frames():
        waiting.append((hazy, clear))
        for restored in dehazer.push(hazy):
            before, truth = waiting.popleft()
            yield before, restored, truth
    for restored in dehazer.flush():
        before, truth = waiting.popleft()
        yield before, restored, truth


def _example(hazy: Tensor, restored: Tensor, clear: Tensor) -> Tensor:  # [3, H, W] each -> [3, h, 3 w]
    strip = torch.cat([hazy, restored, clear], dim=-1)
    if strip.shape[-2] > EXAMPLE_LINES:
        size = (EXAMPLE_LINES, round(strip.shape[-1] * EXAMPLE_LINES / strip.shape[-2]))
        strip = F.interpolate(strip[None], size=size, mode="area")[0]
    return strip.cpu()


def _scene(clip: PairedClip) -> str:
    """What versions of one clear clip have in common."""
    if isinstance(clip.clear, FrameFiles):
        return "/".join(clip.clear.paths[0].parts[-4:])
    return clip.clear.path.name if isinstance(clip.clear, VideoFrames) else clip.name


def _load_set(hazy_folder: Path, clear_folder: Path) -> list[ImagePair]:
    for folder in (hazy_folder, clear_folder):
        if not folder.is_dir():
            raise InputError(f"no validation images at {folder}: check the recipe's [validation]")
    return [
        ImagePair(_planes(to_8_bit(clip.hazy.read(index))), _planes(to_8_bit(clip.clear.read(index))))
        for clip in folder_pairs(hazy_folder, clear_folder)
        for index in range(len(clip))
    ]


def _planes(image: RgbImage) -> Tensor:  # [3, H, W] uint8
    return torch.from_numpy(image).permute(2, 0, 1)

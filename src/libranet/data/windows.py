"""A torch Dataset of windows of T frames with the ground truth of the centre frame."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from libranet.data.frames import Box, RgbSamples
from libranet.data.maps import read_map
from libranet.data.pairs import PairedClip
from libranet.errors import InputError


@dataclass(frozen=True)
class WindowConfig:
    """The layout of one training or test sample."""

    window: int = 5
    """T, odd; the centre frame is to be restored. Beyond a clip's ends its first or last frame is repeated."""
    crop: int | None = 512
    """Side of the square crop, at the same place in every frame; None for whole frames. Smaller frames are continued by
    reflection."""
    random: bool = True
    """Crop and flip at random, by seed, epoch and index; False crops the centre."""
    maps: tuple[str, ...] = ()
    """Maps of the centre frame to add: any of depth, transmission, flow."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.window < 1 or self.window % 2 == 0:
            raise InputError(f"expected an odd window length, got T={self.window}")
        if self.crop is not None and self.crop < 16:
            raise InputError(f"expected a crop of at least 16, got {self.crop}")
        if self.random and "flow" in self.maps:
            raise InputError("expected random=False with flow maps: a mirrored flow would point the wrong way")


class ClipWindows(Dataset[dict[str, Tensor]]):
    """Every frame of every clip once, as {"hazy": [T, 3, h, w], "clear": [3, h, w], maps [C, h, w]}, in [0, 1].

    A sample depends only on the seed, the epoch and its index. So an interrupted run resumes exactly, and any number of
    dataloader workers gives the same data.
    """

    def __init__(self, clips: Sequence[PairedClip], config: WindowConfig | None = None) -> None:
        self.clips = list(clips)
        self.config = config or WindowConfig()
        self.epoch = 0
        self.places = [(clip, frame) for clip in range(len(self.clips)) for frame in range(len(self.clips[clip]))]
        if not self.places:
            raise InputError("expected at least one clip with frames, got none")
        for clip in self.clips:
            missing = [name for name in self.config.maps if name not in clip.maps]
            if missing:
                raise InputError(f"expected the maps {missing} in {clip.name}; this set has {sorted(clip.maps)}")

    def __len__(self) -> int:
        return len(self.places)

    def set_epoch(self, epoch: int) -> None:
        """Draw other crops. Call it before the epoch's dataloader starts its workers."""
        self.epoch = epoch

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        config = self.config
        number, centre = self.places[index]
        clip = self.clips[number]
        rng = np.random.default_rng((config.seed, self.epoch, index))
        box = self._box(clip, rng)
        mirror = config.random and bool(rng.integers(2))
        radius = config.window // 2
        frames = [min(max(centre + step, 0), len(clip) - 1) for step in range(-radius, radius + 1)]
        hazy = torch.stack([frame_to_tensor(clip.hazy.read(frame, box)) for frame in frames])
        sample = {"hazy": hazy, "clear": frame_to_tensor(clip.clear.read(centre, box))}
        for name in config.maps:
            sample[name] = torch.from_numpy(read_map(clip.maps[name][centre], name, box))
        if config.crop is not None:
            sample = {name: _fill(value, config.crop) for name, value in sample.items()}
        return {name: value.flip(-1) for name, value in sample.items()} if mirror else sample

    def _box(self, clip: PairedClip, rng: np.random.Generator) -> Box | None:
        side = self.config.crop
        if side is None:
            return None
        width, height = clip.hazy.size
        rows, columns = min(side, height), min(side, width)
        if not self.config.random:
            return Box((height - rows) // 2, (width - columns) // 2, rows, columns)
        top, left = int(rng.integers(height - rows + 1)), int(rng.integers(width - columns + 1))
        return Box(top, left, rows, columns)


def _fill(value: Tensor, side: int) -> Tensor:  # [..., h, w] -> [..., side, side]
    """Continue a frame smaller than the crop by reflection at the right and the bottom."""
    h, w = value.shape[-2:]
    if h >= side and w >= side:
        return value
    edges = [(0, 0)] * (value.dim() - 2) + [(0, side - h), (0, side - w)]
    return torch.from_numpy(np.pad(value.numpy(), edges, mode="reflect"))


def frame_to_tensor(image: RgbSamples) -> Tensor:  # [H, W, 3] of 8 or 16 bits -> [3, H, W] in [0, 1]
    return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))).float() / float(np.iinfo(image.dtype).max)

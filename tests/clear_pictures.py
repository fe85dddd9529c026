"""Clear pictures for training tests, made in memory."""

import numpy as np
import torch

from libranet.training.batches import HazeOnTheFly
from libranet.training.haze_config import HazeConfig
from libranet.training.photo_bank import PhotoBank, Picture, load_bank


def coloured_blocks(seed: int, *, height: int = 72, width: int = 128, depth: bool = True) -> Picture:
    """A picture of coloured blocks on a ground that comes nearer towards the bottom."""
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    image = cells.repeat(height // 6, 0).repeat(width // 8, 1)
    ramp = np.linspace(255, 0, height).astype(np.uint8)[:, None].repeat(width, 1)
    return Picture(f"blocks-{seed}", image, ramp if depth else None, rendered=False)


def small_bank(count: int = 6, lines: int = 72) -> PhotoBank:
    pictures = [coloured_blocks(seed, depth=seed % 3 > 0) for seed in range(count)]
    return load_bank(pictures, lines=lines, device=torch.device("cpu"))


def small_source(*, batch: int = 4, seed: int = 0, haze: HazeConfig | None = None) -> HazeOnTheFly:
    return HazeOnTheFly(
        small_bank(),
        haze=haze or HazeConfig(),
        batch=batch,
        crops=((32, 32), (32, 48)),
        window=5,
        scene_share=0.0,
        seed=seed,
    )

"""Clear images for training tests, made in memory, and haze over them."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from libranet.haze.images import ImageBank
from libranet.haze.kinds import HazeConfig
from libranet.training.dataloader import OnlineHazeSource
from libranet.training.image_bank import ClearImage, load_bank


def haze_config(base: HazeConfig | None = None, **groups: dict[str, Any]) -> HazeConfig:
    """Change some settings of some groups: `haze_config(density={"beta": (1, 2)})`."""
    base = base or HazeConfig()
    return replace(base, **{name: replace(getattr(base, name), **values) for name, values in groups.items()})


def only(kind: str, **settings: Any) -> dict[str, dict[str, Any]]:
    """Groups for `haze_config` that leave one kind of haze, with these settings."""
    kinds = ("regimes", "pairs", "outdoor_pairs", "varied", "footage")
    return {name: {"share": 0.0} for name in kinds if name != kind} | {kind: {"share": 1.0, **settings}}


NO_HAZE = haze_config(
    density={"clear_probability": 1.0, "residual_probability": 0.0},
    camera={"noise_std": 0.0, "dull_probability": 0.0},
)
STILL = {"zoom": (1, 1), "still_probability": 1.0}
"""Geometry: the whole image, without motion."""
PLAIN = haze_config(
    NO_HAZE,
    density={
        "near": (0, 0), "depth_gamma": (1, 1), "min_transmission": (0, 0), "wavelength_spread": 0,
        "clear_probability": 0, "uniform_probability": 0, "patch_probability": 0,
    },
    varied={"scene_probability": 0, "tint_std": 0, "gradient": 0},
    geometry=STILL,
)  # fmt: skip
"""Haze over the image's own depth and nothing else that is random, but for its density and the airlight."""


def coloured_blocks(seed: int, *, height: int = 72, width: int = 128, depth: bool = True) -> ClearImage:
    """An image of coloured blocks on a ground that comes nearer towards the bottom."""
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    image = cells.repeat(height // 6, 0).repeat(width // 8, 1)
    ramp = np.linspace(255, 0, height).astype(np.uint8)[:, None].repeat(width, 1)
    return ClearImage(f"blocks-{seed}", image, ramp if depth else None)


def sky_over_ground(
    *, rows: int = 36, sky: tuple[int, ...] = (120, 120, 120), ground: tuple[int, ...] = (120, 120, 120)
) -> ClearImage:
    """An image of two colours: so many of 72 rows are sky."""
    image = coloured_blocks(0)
    image.depth[:], image.image[:] = 100, ground
    image.depth[:rows], image.image[:rows] = 255, sky
    return image


def bank_of(*images: ClearImage, lines: int = 72) -> ImageBank:
    return load_bank(images, lines=lines, device=torch.device("cpu"))


def small_bank(count: int = 6) -> ImageBank:
    return bank_of(*(coloured_blocks(seed, depth=seed % 3 > 0) for seed in range(count)))


def source_over(
    bank: ImageBank,
    haze: HazeConfig,
    *,
    batch: int = 8,
    crops: tuple[tuple[int, int], ...] = ((64, 96),),
    window: int = 5,
    seed: int = 0,
    outputs: int = 1,
) -> OnlineHazeSource:
    return OnlineHazeSource(bank, haze=haze, batch=batch, crops=crops, window=window, seed=seed, outputs=outputs)


def small_source(
    *, batch: int = 4, seed: int = 0, haze: HazeConfig | None = None, outputs: int = 1
) -> OnlineHazeSource:
    return source_over(
        small_bank(), haze or HazeConfig(), batch=batch, crops=((32, 32), (32, 48)), seed=seed, outputs=outputs
    )

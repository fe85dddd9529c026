"""Clips that no training sees: moving cameras over rendered scenes with exact depth, one haze regime each."""

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor

from libranet.atomic import write_atomically
from libranet.haze.scattering import Regime, add_haze, assign_regimes, transmission
from libranet.lab.scenes import SKY_DEPTH, render_clip
from libranet.synth.depth_maps import DepthRange

FIRST_SCENE = 900_000
"""Scenes from here on are held back; training takes those from its own small seed on."""
_FPS = 10.0


def write_held_back_clips(
    folder: Path,
    *,
    clips: int,
    frames: int,
    size: tuple[int, int],
    device: torch.device | None = None,
    part: tuple[int, int] = (1, 1),
    may_begin: Callable[[str], bool] = lambda name: True,
) -> bool:
    """Write paired clips as folders of PNG files, `hazy/CLIP` beside `clear/CLIP`. What is there already is kept.

    Args:
        clips: How many; nine have every regime once.
        part: (2, 5) renders the second of every five clips alone: processes share the work.
        may_begin: Asked with a clip's name before it is rendered; False ends the work.

    Returns:
        Whether all clips of the part are there.
    """
    for index, regime in enumerate(assign_regimes(clips, seed=0)):
        name = f"{index:02d}-{regime.name}"
        if index % part[1] != part[0] - 1:
            continue
        if (folder / "clear" / name / f"{frames - 1:03d}.png").is_file():
            continue
        if not may_begin(name):
            return False
        rendered = list(
            render_clip(
                FIRST_SCENE + index, frames=frames, width=size[0], height=size[1], fps=_FPS, device=device or "cpu"
            )
        )
        metres = [np.where(f.depth.cpu() >= 0.999 * SKY_DEPTH, np.float32(np.inf), f.depth.cpu()) for f in rendered]
        depth = DepthRange.from_metres(metres)
        for number, (frame, raw) in enumerate(zip(rendered, metres, strict=True)):
            _write_pair(folder, name, number, frame.image.cpu(), torch.from_numpy(depth.normalise(raw)), regime)
    return True


def _write_pair(
    folder: Path,
    clip: str,
    number: int,
    clear: Tensor,  # [3, H, W] in [0, 1]
    depth: Tensor,  # [H, W], 0 near to 1 far
    regime: Regime,
) -> None:
    hazy = add_haze(clear[None], transmission(depth[None, None], regime.beta), torch.tensor([regime.airlight]))[0]
    for side, image in (("hazy", hazy), ("clear", clear)):  # the clear one last: it says that the pair is complete
        place = folder / side / clip
        place.mkdir(parents=True, exist_ok=True)
        pixels = (image.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).numpy()
        ok, data = cv2.imencode(".png", np.ascontiguousarray(pixels[..., ::-1]), [cv2.IMWRITE_PNG_COMPRESSION, 1])
        assert ok
        write_atomically(place / f"{number:03d}.png", data.tobytes())

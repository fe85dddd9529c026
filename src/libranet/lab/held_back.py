"""Clips that no training sees, as pairs of PNG files: moving cameras over scenes and photos, one haze regime each."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal

import cv2
import numpy as np
import torch
from torch import Tensor

from libranet.atomic import write_atomically
from libranet.haze.scattering import REGIMES, Regime, add_haze, assign_regimes, transmission
from libranet.synth.depth_estimators import LayoutPrior
from libranet.synth.depth_maps import DepthRange
from libranet.synth.manifest import OPEN_MANIFEST, locate, read_manifest
from libranet.synth.sources import ClipSource, FrameRequest, SceneSource
from libranet.synth.synthesize import PRESETS

FIRST_SCENE = 900_000
"""Scenes from here on are held back; training takes those from its own small seed on."""
CARRIED = ".webp"
"""Photos of the open set on a machine without a network: reduced to what a clip shows, and compressed."""
_FPS = 10.0


@dataclass(frozen=True)
class HeldBackClip:
    """One clip: where its clear frames come from, and its haze."""

    name: str
    source: ClipSource
    request: FrameRequest
    regime: Regime


def plan_scenes(clips: int, *, frames: int, size: tuple[int, int], device: str = "cpu") -> list[HeldBackClip]:
    """Clips of rendered scenes; nine have every regime once."""
    request = FrameRequest(frames, _FPS, size, size[0], 0, LayoutPrior(0))
    return [
        HeldBackClip(f"{index:02d}-{regime.name}", SceneSource(FIRST_SCENE + index, device), request, regime)
        for index, regime in enumerate(assign_regimes(clips, seed=0))
    ]


def plan_open_set(
    photos: Path, *, part: Literal["train", "test"] = "test", size: tuple[int, int] | None = None, device: str = "cpu"
) -> list[HeldBackClip]:
    """The clips of the preset `uhv4k-open`, with the camera moves, things and regimes that they have there.

    Args:
        photos: Folder with the carried photos of that part and their depth maps (research/pack_open_set.py).
        size: Another width and height than the preset's 3840x2160.
    """
    config, regimes = PRESETS["uhv4k-open"], {regime.name: regime for regime in REGIMES}
    rows = [(index, row) for index, row in enumerate(read_manifest(OPEN_MANIFEST)) if row.part == part]
    carried = [replace(row, file=carried_name(row.file), sha256="") for _, row in rows]
    request = FrameRequest(config.frames, config.fps, size or config.size, config.proxy, 0, LayoutPrior(0))
    return [
        # A clip's seed is its place in the manifest, as in `libranet synth`.
        HeldBackClip(f"{index:04d}-{Path(row.file).stem}", source, replace(request, seed=index), regimes[row.regime])
        for (index, row), source in zip(rows, locate(carried, [photos], device), strict=True)
    ]


def carried_name(file: str) -> str:
    """The name of a manifest's photo where it is carried; scenes keep theirs."""
    return str(Path(file).with_suffix(CARRIED)) if "/" in file else file


def write_held_back_clips(
    folder: Path,
    clips: list[HeldBackClip],
    *,
    frames: int,
    part: tuple[int, int] = (1, 1),
    may_begin: Callable[[str], bool] = lambda name: True,
) -> bool:
    """Write the first frames of clips as folders of PNG files, `hazy/CLIP` beside `clear/CLIP`. What is there is kept.

    Args:
        part: (2, 5) makes the second of every five clips alone: processes share the work.
        may_begin: Asked with a clip's name before it is made; False ends the work.

    Returns:
        Whether all clips of the part are there.
    """
    for clip in clips[part[0] - 1 :: part[1]]:
        if (folder / "clear" / clip.name / f"{frames - 1:03d}.png").is_file():
            continue
        if not may_begin(clip.name):
            return False
        made = list(islice(clip.source.frames(clip.request), frames))
        depths = [frame.depth for frame in made if frame.depth is not None]
        metric = clip.source.depth_kind == "metres"
        depth_range = DepthRange.from_metres(depths) if metric else DepthRange("distance", 0.0, 1.0)
        for number, (frame, depth) in enumerate(zip(made, depths, strict=True)):
            clear = torch.from_numpy(frame.image).permute(2, 0, 1).float() / 255
            _write_pair(folder, clip, number, clear, torch.from_numpy(depth_range.normalise(depth)))
    return True


def _write_pair(
    folder: Path,
    clip: HeldBackClip,
    number: int,
    clear: Tensor,  # [3, H, W] in [0, 1]
    depth: Tensor,  # [H, W], 0 near to 1 far
) -> None:
    t = transmission(depth[None, None], clip.regime.beta)
    hazy = add_haze(clear[None], t, torch.tensor([clip.regime.airlight]))[0]
    for side, image in (("hazy", hazy), ("clear", clear)):  # the clear one last: it says that the pair is complete
        place = folder / side / clip.name
        place.mkdir(parents=True, exist_ok=True)
        pixels = (image * 255).round().byte().permute(1, 2, 0).numpy()
        ok, data = cv2.imencode(".png", np.ascontiguousarray(pixels[..., ::-1]), [cv2.IMWRITE_PNG_COMPRESSION, 1])
        assert ok
        write_atomically(place / f"{number:03d}.png", data.tobytes())

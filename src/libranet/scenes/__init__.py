"""Procedural outdoor scenes with camera motion, exact depth and exact flow: a clean source that needs no download."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from libranet.errors import InputError
from libranet.scenes.motion import flow_between
from libranet.scenes.render import exposed, render_view
from libranet.scenes.world import build_world

SKY_DEPTH: float = 10_000.0
"""Metres that stand for the sky in `SceneFrame.depth`; nothing else reaches as far."""
_MIN_SIZE = 16


@dataclass(frozen=True)
class SceneFrame:
    """One rendered frame and what is known exactly about it."""

    image: Tensor  # [3, H, W] float32 in [0, 1], display values, clear weather
    depth: Tensor  # [H, W] float32, metres along the ray; sky pixels hold SKY_DEPTH
    flow: Tensor  # [2, H, W] float32, forward flow (dx, dy) in pixels to the next frame of the clip
    occluded: Tensor  # [H, W] bool, True where the pixel's point is hidden or outside in the next frame


def render_clip(
    seed: int,
    *,
    frames: int,
    width: int,
    height: int,
    fps: float = 5.0,
    device: str | torch.device = "cpu",
) -> Iterator[SceneFrame]:
    """Yield the frames of the clip that `seed` stands for; the same seed always gives the same clip.

    The scene depends on the seed alone, so that one seed can be rendered at several sizes and frame rates.
    """
    if frames < 1:
        raise InputError(f"a clip needs at least 1 frame, got frames={frames}")
    if min(width, height) < _MIN_SIZE:
        raise InputError(f"a scene needs at least {_MIN_SIZE}x{_MIN_SIZE} pixels, got {width}x{height}")
    if not 0 < fps < float("inf"):
        raise InputError(f"the frame rate must be a positive number, got fps={fps}")
    if seed < 0:
        raise InputError(f"a seed must not be negative, got seed={seed}")
    return _frames(seed, frames, (width, height), fps, torch.device(device))


@torch.no_grad()
def _frames(seed: int, frames: int, size: tuple[int, int], fps: float, device: torch.device) -> Iterator[SceneFrame]:
    world = exposed(build_world(seed, device))
    cameras = [world.path.at(i / fps, *size) for i in range(frames + 1)]
    view = render_view(world, cameras[0], 0.0, colour=True)
    for i in range(frames):
        following = render_view(world, cameras[i + 1], (i + 1) / fps, colour=i + 1 < frames)
        flow, occluded = flow_between(world, view, following)
        depth = view.distance.clamp(max=SKY_DEPTH)
        assert view.image is not None
        yield SceneFrame(image=view.image, depth=depth, flow=flow, occluded=occluded)
        view = following

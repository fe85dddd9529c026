"""Procedural outdoor scenes with exact geometry (`render_clip`).

Nothing is downloaded, and the same seed always gives the same result. These names are all that other packages use.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from libranet.errors import InputError
from libranet.haze.images import SKY_DEPTH
from libranet.lab.scenes.world import build_world, exposed, flow_between, render_view

__all__ = ["SKY_DEPTH", "SceneFrame", "check_request", "render_clip"]

_MIN_SIZE = 16


@dataclass(frozen=True)
class SceneFrame:
    """One frame of an outdoor clip with its exact geometry."""

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
    """Render an outdoor clip, frame by frame.

    Args:
        seed: Decides the scene and the camera path, whatever the size and the frame rate.
        width: Pixels, at least 16.
        height: Pixels, at least 16.
        fps: Frames per second of the camera's path.
        device: Where to render; the result stays there.

    Returns:
        An iterator that renders each frame when it is asked for.

    Raises:
        InputError: An argument is out of range.
    """
    if frames < 1:
        raise InputError(f"a clip needs at least 1 frame, got frames={frames}")
    if not 0 < fps < float("inf"):
        raise InputError(f"the frame rate must be a positive number, got fps={fps}")
    check_request("a scene", seed, width, height)
    return _frames(seed, frames, (width, height), fps, torch.device(device))


def check_request(what: str, seed: int, width: int, height: int) -> None:
    """Refuse sizes and seeds that cannot be rendered."""
    if min(width, height) < _MIN_SIZE:
        raise InputError(f"{what} needs at least {_MIN_SIZE}x{_MIN_SIZE} pixels, got {width}x{height}")
    if seed < 0:
        raise InputError(f"a seed must not be negative, got seed={seed}")


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

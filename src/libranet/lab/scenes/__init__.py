"""Procedural scenes with exact geometry: outdoor clips (`render_clip`) and furnished rooms (`render_room`).

Nothing is downloaded, and the same seed always gives the same result. These five names are all that other packages use.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from libranet.errors import InputError
from libranet.haze.images import SKY_DEPTH
from libranet.lab.scenes.room_plan import draw_plan
from libranet.lab.scenes.room_render import RoomRenderer
from libranet.lab.scenes.world import build_world, exposed, flow_between, render_view

__all__ = ["SKY_DEPTH", "RoomImage", "SceneFrame", "render_clip", "render_room"]

_MIN_SIZE = 16


@dataclass(frozen=True)
class SceneFrame:
    """One frame of an outdoor clip with its exact geometry."""

    image: Tensor  # [3, H, W] float32 in [0, 1], display values, clear weather
    depth: Tensor  # [H, W] float32, metres along the ray; sky pixels hold SKY_DEPTH
    flow: Tensor  # [2, H, W] float32, forward flow (dx, dy) in pixels to the next frame of the clip
    occluded: Tensor  # [H, W] bool, True where the pixel's point is hidden or outside in the next frame


@dataclass(frozen=True)
class RoomImage:
    """One image of a room with its exact depth."""

    image: Tensor  # [3, H, W] float32 in [0, 1], display values, clear air
    depth: Tensor  # [H, W] float32, metres along the ray


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
    _check("a scene", seed, width, height)
    return _frames(seed, frames, (width, height), fps, torch.device(device))


@torch.no_grad()
def render_room(seed: int, *, width: int, height: int, device: str | torch.device = "cpu") -> RoomImage:
    """Render one image of a furnished room.

    Args:
        seed: Decides the room and the view, whatever the size.
        width: Pixels, at least 16.
        height: Pixels, at least 16.
        device: Where to render; the result stays there.

    Raises:
        InputError: An argument is out of range.
    """
    _check("a room", seed, width, height)
    rng = random.Random(seed)
    image, depth = RoomRenderer(draw_plan(rng), rng, torch.device(device)).render(width, height)
    return RoomImage(image, depth)


def _check(what: str, seed: int, width: int, height: int) -> None:
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

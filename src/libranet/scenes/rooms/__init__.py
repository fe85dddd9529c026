"""Procedural rooms with exact depth: pale walls, furniture and saturated things as clear truth for indoor haze."""

import random
from dataclasses import dataclass

import torch
from torch import Tensor

from libranet.errors import InputError
from libranet.scenes.rooms.plan import draw_plan
from libranet.scenes.rooms.render import Renderer

_MIN_SIZE = 16


@dataclass(frozen=True)
class RoomPicture:
    """One rendered room."""

    image: Tensor  # [3, H, W] float32 in [0, 1], display values, clear air
    depth: Tensor  # [H, W] float32, metres along the ray


@torch.no_grad()
def render_room(seed: int, *, width: int, height: int, device: str | torch.device = "cpu") -> RoomPicture:
    """The room that `seed` stands for; the same seed always gives the same room and view, at any size."""
    if min(width, height) < _MIN_SIZE:
        raise InputError(f"a room needs at least {_MIN_SIZE}x{_MIN_SIZE} pixels, got {width}x{height}")
    if seed < 0:
        raise InputError(f"a seed must not be negative, got seed={seed}")
    rng = random.Random(seed)
    image, depth = Renderer(draw_plan(rng), rng, torch.device(device)).picture(width, height)
    return RoomPicture(image, depth)

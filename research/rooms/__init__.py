"""Furnished rooms as still images with exact depth, for training: networks that know landscapes alone take a pale wall
for haze. Nothing is downloaded, and the same seed always gives the same room.
"""

import random
from dataclasses import dataclass

import torch
from torch import Tensor

from libranet.lab.scenes import check_request
from rooms.plan import draw_plan
from rooms.render import RoomRenderer


@dataclass(frozen=True)
class RoomImage:
    """One image of a room with its exact depth."""

    image: Tensor  # [3, H, W] float32 in [0, 1], display values, clear air
    depth: Tensor  # [H, W] float32, metres along the ray


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
    check_request("a room", seed, width, height)
    rng = random.Random(seed)
    image, depth = RoomRenderer(draw_plan(rng), rng, torch.device(device)).render(width, height)
    return RoomImage(image, depth)

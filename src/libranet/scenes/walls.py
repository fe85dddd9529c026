"""The pattern of a house wall: windows fitted between its corners, frames, bricks, stains."""

from dataclasses import dataclass

import torch
from torch import Tensor

from libranet.scenes.noise import hash01, pulse, smoothstep, step


@dataclass(frozen=True)
class Face:
    """Points on the faces of solids. All [N] unless said otherwise."""

    number: Tensor  # which solid
    u: Tensor  # metres along the face, 0 in its middle
    y: Tensor  # metres above the solid's base
    half: Tensor  # half the face's width
    height: Tensor  # of the walls
    storey: Tensor
    bay: Tensor
    key: Tensor
    colour: Tensor  # [3, N]
    footprint: Tensor  # metres a pixel covers
    stretched: Tensor  # and in the direction in which the face turns away
    fine: Tensor  # [4, N] texture
    large: Tensor  # [4, N] texture

    def draw(self, salt: int) -> Tensor:
        """A number in [0, 1) per solid."""
        return hash01(self.number, torch.full_like(self.number, salt))


@dataclass(frozen=True)
class Wall:
    """What a wall looks like at each point."""

    albedo: Tensor  # [3, N]
    glass: Tensor  # [N] how much of the point mirrors
    frame: Tensor  # [N] window frames, a little recessed


def draw_wall(face: Face) -> Wall:
    """Windows and wall at each point, averaged over the pixel."""
    # Whole windows only.
    count = (2 * face.half / face.bay).floor().clamp(min=1)
    column, across = (face.u + face.half) / (2 * face.half) * count, face.stretched * count / (2 * face.half)
    floors = (face.height / face.storey).round().clamp(min=1)
    level, up = face.y / face.height * floors, face.footprint * floors / face.height

    tower = face.height > 14.0
    glazed = (face.draw(3) < 0.22) & tower
    wide = torch.where(glazed, 0.9, 0.32 + 0.38 * face.draw(5))
    tall = torch.where(glazed, 0.82, 0.42 + 0.2 * face.draw(7))
    left, below = 0.5 - wide / 2, 0.27
    inside = step(face.y, face.footprint) * step(face.height - 0.25 - face.y, face.footprint)
    window = pulse(column - left, wide, across) * pulse(level - below, tall, up) * inside
    rim_u, rim_v = 0.16 / (2 * face.half) * count, 0.16 * floors / face.height
    outer = pulse(column - left + rim_u / 2, wide + rim_u, across) * pulse(level - below + rim_v / 2, tall + rim_v, up)
    frame = (outer * inside - window).clamp(min=0)
    glass = window * pulse(column * 2, 0.93, across * 2) * pulse(level * 2 - 0.1, 0.95, up * 2)
    blinds = hash01(column.floor(), level.floor(), face.number) < 0.3
    # The top of a pane lies in the shadow of its lintel.
    within = ((level - below).remainder(1.0) / tall).clamp(0, 1)

    joints = pulse(face.y / 0.085, 0.84, face.footprint / 0.085)
    joints = joints * (0.5 + 0.5 * pulse(face.u / 0.24, 0.93, face.stretched / 0.24))
    wall = face.colour * (1 + 0.07 * face.fine[0] + 0.09 * face.large[0] + 0.05 * face.fine[2])
    wall = torch.where(face.draw(11) < 0.3, wall * (0.72 + 0.3 * joints), wall)
    # Streaks below eaves, dirt near the ground, a band between storeys on some houses, darker shop fronts.
    eaves = 0.12 * smoothstep(1.2, 0.0, face.height - face.y) * (0.6 + 0.4 * face.large[2]).clamp(0, 1)
    bands = pulse(level + 0.04, 0.08, up) * (face.key > 0.55)
    sills = pulse(level - below + 0.09, 0.07, up) * pulse(column - left + 0.04, wide + 0.08, across) * inside
    wall = wall * (1 - 0.22 * torch.exp(-face.y.clamp(min=0) / 0.9) - eaves) * (1 - 0.25 * bands + 0.2 * sills)
    wall = torch.where((face.key > 0.4) & tower & (face.y < face.storey), wall * 0.55, wall)
    trim = torch.where(face.key > 0.5, 0.7, 0.18).expand_as(wall)
    wall = torch.lerp(wall, trim, (frame * 0.75 + (window - glass)).clamp(0, 1))
    pane = torch.where(blinds, 0.30 * (1 - 0.5 * smoothstep(0.75, 1.0, within)), 0.02).expand_as(wall)
    return Wall(torch.lerp(wall, pane, glass), glass * torch.where(blinds, 0.35, 1.0), frame)

"""Houses, towers, cars, trunks, poles and walls: boxes standing on the ground, with or without a gable roof."""

import math
from dataclasses import dataclass, field
from enum import IntEnum

import torch
from torch import Tensor

from libranet.scenes.rays import Rays, Window

Colour = tuple[float, float, float]


class Stuff(IntEnum):
    """What a solid is made of."""

    BUILDING = 0
    CAR = 1
    CABIN = 2
    TRUNK = 3
    POLE = 4
    WALL = 5


@dataclass(frozen=True)
class Solid:
    """One box: x and z half sizes in its own axes, turned by `yaw`; its ridge, if any, runs along its z axis."""

    x: float
    z: float
    base: float
    """Height of the ground under it; the box goes on below."""
    half_x: float
    half_z: float
    height: float
    """Of the walls, above `base`."""
    yaw: float = 0.0
    slope: float = 0.0
    """Of the roof, metres per metre; 0 is flat."""
    stuff: Stuff = Stuff.BUILDING
    colour: Colour = (0.5, 0.5, 0.5)
    roof: Colour = (0.3, 0.2, 0.15)
    storey: float = 3.0
    bay: float = 2.5
    key: float = 0.0
    """A number in [0, 1) from which details are drawn."""
    hovers: bool = False
    """Ends at `base` instead of going on into the ground: lamps, cornices, cars."""
    velocity: tuple[float, float] = (0.0, 0.0)
    """Metres per second along x and z."""


_FIELDS = 20


@dataclass
class Solids:
    """All solids of a scene as one table, for culling on the host and for shading on the device."""

    items: list[Solid]
    device: torch.device
    table: Tensor = field(init=False)  # [_FIELDS, N] on the device, at time 0

    def __post_init__(self) -> None:
        rows = [
            [
                *(s.x, s.z, s.base, s.half_x, s.half_z, s.height, math.cos(s.yaw), math.sin(s.yaw), s.slope),
                *(float(s.stuff), *s.colour, *s.roof, s.storey, s.bay, s.key, float(s.hovers)),
            ]
            for s in self.items
        ]
        self.rows = rows
        self.table = torch.tensor(rows, dtype=torch.float32).reshape(-1, _FIELDS).T.contiguous().to(self.device)
        self.velocity = (
            torch.tensor([s.velocity for s in self.items], dtype=torch.float32).reshape(-1, 2).T.contiguous()
        ).to(self.device)
        self.moving = [i for i, s in enumerate(self.items) if s.velocity != (0.0, 0.0)]

    def place(self, index: int, time: float) -> tuple[float, float]:
        solid = self.items[index]
        return solid.x + solid.velocity[0] * time, solid.z + solid.velocity[1] * time

    def corners(self, time: float) -> Tensor:  # [3, N, 8] on the host
        table = torch.tensor(self.rows, dtype=torch.float32).reshape(-1, _FIELDS).T
        speed = torch.tensor([s.velocity for s in self.items], dtype=torch.float32).reshape(-1, 2).T
        x, z, base, hx, hz, h, c, s, slope = (table[i][:, None] for i in range(9))
        sx, sy, sz = (
            torch.tensor(v, dtype=torch.float32)
            for v in ([-1, 1, -1, 1] * 2, [0, 0, 0, 0, 1, 1, 1, 1], [-1, -1, 1, 1] * 2)
        )
        lx, lz = sx * hx, sz * hz
        top = base + h + slope * hx
        y = torch.where(sy > 0, top, base - 2.0)
        return torch.stack(
            [x + speed[0][:, None] * time + lx * c + lz * s, y, z + speed[1][:, None] * time - lx * s + lz * c]
        )

    def intersect(self, rays: Rays, index: int, window: Window, time: float) -> None:
        """Meet the rays inside the window with one solid. Surface numbers start at 1."""
        _, _, base, hx, hz, h, c, s, slope, *_ = self.rows[index]
        x, z = self.place(index, time)
        origin, direction = rays.cut(window)
        ox, oy, oz = (
            origin[0] + (rays.anchor[0] - x),
            origin[1] + (rays.anchor[1] - base),
            origin[2] + (rays.anchor[2] - z),
        )
        dx, dy, dz = direction[0], direction[1], direction[2]
        # Into the box's own axes.
        ox, oz = ox * c - oz * s, ox * s + oz * c
        dx, dz = dx * c - dz * s, dx * s + dz * c
        ix, iz = 1.0 / _nonzero(dx), 1.0 / _nonzero(dz)
        mx, kx = -ox * ix, hx * ix.abs()
        mz, kz = -oz * iz, hz * iz.abs()
        enter, leave = torch.maximum(mx - kx, mz - kz), torch.minimum(mx + kx, mz + kz)
        top = h + slope * hx
        for sign in (1.0, -1.0) if slope else (0.0,):
            rate = _nonzero(dy + sign * slope * dx)
            t = (top - oy - sign * slope * ox) / rate
            enter = torch.where(rate < 0, torch.maximum(enter, t), enter)
            leave = torch.where(rate > 0, torch.minimum(leave, t), leave)
        if self.items[index].hovers:
            rate = _nonzero(dy)
            t = -oy / rate
            enter = torch.where(rate > 0, torch.maximum(enter, t), enter)
            leave = torch.where(rate < 0, torch.minimum(leave, t), leave)
        hit = (enter < leave) & (enter > 0.05)
        rays.meet(window, torch.where(hit, enter, torch.inf), index + 1)


def _nonzero(x: Tensor) -> Tensor:
    return torch.where(x.abs() < 1e-7, 1e-7, x)

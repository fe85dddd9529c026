"""Boxes, balls and upright drums: how rays meet them, and where on them a point lies."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum

import torch
from torch import Tensor

from libranet.scenes.noise import normalised
from libranet.scenes.rays import Rays, Window
from libranet.scenes.rooms.finishes import Finish

Point = tuple[float, float, float]
SHELL = 0
"""Surface number of the room's own walls, floor and ceiling; shapes follow from 1."""
_NEAR = 0.05


class Form(IntEnum):
    BOX = 0
    BALL = 1
    DRUM = 2


@dataclass(frozen=True)
class Shape:
    """One body with half sizes in its own axes, turned by `yaw` about the vertical."""

    centre: Point
    half: Point
    finish: Finish
    yaw: float = 0.0
    form: Form = Form.BOX
    casts: bool = True
    """Throws a shadow; small things and what light passes do not."""


def block(x: tuple[float, float], y: tuple[float, float], z: tuple[float, float], finish: Finish) -> Shape:
    """A box from its bounds; thin ones throw no shadow."""
    half = tuple(0.5 * (b - a) for a, b in (x, y, z))
    centre = tuple(0.5 * (a + b) for a, b in (x, y, z))
    casts = sorted(half)[1] > 0.035
    return Shape((centre[0], centre[1], centre[2]), (half[0], half[1], half[2]), finish, casts=casts)


def moved(shapes: Iterable[Shape], x: float, y: float, z: float, yaw: float = 0.0) -> list[Shape]:
    """The shapes turned about the vertical through the origin, then shifted."""
    c, s = math.cos(yaw), math.sin(yaw)
    return [
        replace(
            shape,
            centre=(
                x + shape.centre[0] * c + shape.centre[2] * s,
                y + shape.centre[1],
                z - shape.centre[0] * s + shape.centre[2] * c,
            ),
            yaw=shape.yaw + yaw,
        )
        for shape in shapes
    ]


@dataclass(frozen=True)
class Spot:
    """Where points lie on their surfaces."""

    normal: Tensor  # [3, N] towards the viewer's side
    u: Tensor  # [N] metres along the surface
    v: Tensor  # [N] metres along the surface, upwards on upright ones
    across: Tensor  # [N] u in units of the face's half size
    upward: Tensor  # [N] v likewise
    tall: Tensor  # [N] bool, the face is longer along v
    row: Tensor  # [N] of the finish table: six faces of the shell, then the shapes


@dataclass
class Shapes:
    """All bodies of a room inside its shell, as one table."""

    items: list[Shape]
    room: Point  # half sizes of the shell, which stands on y = 0 around x = z = 0
    device: torch.device
    table: Tensor = field(init=False)  # [9, 1 + N]: centre, half sizes, cos, sin, form; the shell first

    def __post_init__(self) -> None:
        shell = [0.0, self.room[1], 0.0, *self.room, 1.0, 0.0, float(Form.BOX)]
        rows = [[*s.centre, *s.half, math.cos(s.yaw), math.sin(s.yaw), float(s.form)] for s in self.items]
        self.rows = [shell, *rows]
        self.table = torch.tensor(self.rows, dtype=torch.float32).T.contiguous().to(self.device)

    def corners(self) -> Tensor:  # [3, N, 8] on the host
        table = torch.tensor(self.rows[1:], dtype=torch.float32).reshape(-1, 9).T[..., None]
        centre, half = table[:3], table[3:6]
        c, s = table[6], table[7]
        signs = torch.tensor([[i & 1, i >> 1 & 1, i >> 2] for i in range(8)]).T[:, None] * 2.0 - 1.0
        lx, ly, lz = half * signs
        return torch.stack([centre[0] + lx * c + lz * s, centre[1] + ly, centre[2] - lx * s + lz * c])

    def meet_shell(self, rays: Rays) -> None:
        """Start the rays with the walls that they leave the room through."""
        leave = torch.full_like(rays.distance, math.inf)
        for axis in range(3):
            origin = rays.origin[axis] + (rays.anchor[axis] - self.rows[0][axis])
            inverse = 1.0 / _nonzero(rays.direction[axis])
            leave = torch.minimum(leave, -origin * inverse + self.room[axis] * inverse.abs())
        rays.distance, rays.surface = leave, torch.full_like(rays.surface, SHELL)

    def meet(self, rays: Rays, number: int, window: Window) -> None:
        """Meet the rays inside the window with shape `number`, counted from 1."""
        x, y, z, hx, hy, hz, c, s, form = self.rows[number]
        origin, direction = rays.cut(window)
        ox, oy, oz = (origin[i] + (rays.anchor[i] - at) for i, at in enumerate((x, y, z)))
        dx, dy, dz = direction[0], direction[1], direction[2]
        if s:
            ox, oz = ox * c - oz * s, ox * s + oz * c
            dx, dz = dx * c - dz * s, dx * s + dz * c
        if form == Form.BALL:
            enter, leave = _quadratic((ox / hx, oy / hy, oz / hz), (dx / hx, dy / hy, dz / hz))
        else:
            enter, leave = _slab(oy, dy, hy)
            if form == Form.DRUM:
                sides = [_quadratic((ox / hx, oz / hz), (dx / hx, dz / hz))]
            else:
                sides = [_slab(ox, dx, hx), _slab(oz, dz, hz)]
            for near, far in sides:
                enter, leave = torch.maximum(enter, near), torch.minimum(leave, far)
        hit = (enter < leave) & (enter > _NEAR)
        rays.meet(window, torch.where(hit, enter, torch.inf), number)

    def spots(self, points: Tensor, surface: Tensor) -> Spot:
        """Normals and surface coordinates of points [3, N] on surfaces [N]."""
        x, y, z, hx, hy, hz, c, s, form = self.table[:, surface]
        half = torch.stack([hx, hy, hz])
        ox, oy, oz = points[0] - x, points[1] - y, points[2] - z
        local = torch.stack([ox * c - oz * s, oy, ox * s + oz * c])
        unit = local / half
        face = unit.abs().argmax(dim=0)
        ball, side = form == Form.BALL, (form == Form.DRUM) & (unit[1].abs() < 0.999)
        axes = torch.nn.functional.one_hot(face, 3).T * unit.sign()
        round_ = unit / half * torch.stack([torch.ones_like(x), ball.to(x.dtype), torch.ones_like(x)])
        normal = normalised(torch.where(ball | side, round_, axes))
        lid = (form == Form.DRUM) & ~side
        normal = torch.where(lid, torch.stack([0 * x, unit[1].sign(), 0 * x]), normal)
        around = torch.atan2(local[0], local[2])
        u = torch.where(face == 0, local[2], local[0])
        v = torch.where((face == 1) | lid, local[2], local[1])
        u, v = torch.where(side, around * hx, u), torch.where(side, local[1], v)
        half_u, half_v = torch.where((face == 0) & ~side, hz, hx), torch.where((face == 1) & ~side, hz, hy)
        shell = surface == SHELL
        row = torch.where(shell, 2 * face + (unit.gather(0, face[None])[0] > 0), surface + 5)
        turned = torch.stack([normal[0] * c + normal[2] * s, normal[1], normal[2] * c - normal[0] * s])
        return Spot(torch.where(shell, -turned, turned), u, v, u / half_u, v / half_v, half_v > half_u, row)


def _slab(origin: Tensor, direction: Tensor, half: float) -> tuple[Tensor, Tensor]:
    inverse = 1.0 / _nonzero(direction)
    middle, reach = -origin * inverse, half * inverse.abs()
    return middle - reach, middle + reach


def _quadratic(origin: tuple[Tensor, ...], direction: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Where a ray enters and leaves the unit ball or circle; never enters where it passes by."""
    zero = torch.zeros(())
    a = sum((d * d for d in direction), zero).clamp(min=1e-12)
    b = sum((o * d for o, d in zip(origin, direction, strict=True)), zero)
    root = b * b - a * (sum((o * o for o in origin), zero) - 1.0)
    width = root.clamp(min=0).sqrt()
    return torch.where(root > 0, (-b - width) / a, torch.inf), (-b + width) / a


def _nonzero(x: Tensor) -> Tensor:
    return torch.where(x.abs() < 1e-7, 1e-7, x)

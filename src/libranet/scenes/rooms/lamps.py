"""Light in a room: lamps and windows as a few small area lights with soft shadows, and what the walls throw back."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.scenes.rays import Rays, Window
from libranet.scenes.rooms.shapes import Point, Shapes
from libranet.scenes.solids import Colour

_LAMP_MAP, _BOUNCE_MAP = 160, 72  # texels along the side of a shadow map
_RAYS = 1 << 17  # cast at once: few enough for the cache
_BOUNCES = (2, 2, 4, 3, 2, 2)  # samples on the faces -x, +x, floor, ceiling, -z, +z
_SOFT = 0.35  # m2 added to squared distances: no light is a point
_AMBIENT = 0.42  # share of light that has been thrown back more than once


@dataclass(frozen=True)
class Lamp:
    """A small surface that shines to one side, most along its normal."""

    position: Point
    normal: Point
    power: Colour


@dataclass(frozen=True)
class _ShadowMap:
    """Mean distance and mean squared distance to the first body, over a hemisphere folded out to a square."""

    lamp: Lamp
    side: Point
    ahead: Point
    moments: Tensor  # [1, 2, n, n]

    def light(self, points: Tensor, normal: Tensor) -> Tensor:  # [N]
        """What reaches points [3, N] that face along normals [3, N], for unit power."""
        x, y, z = (points[i] - self.lamp.position[i] for i in range(3))
        a, b, c = (x * e[0] + y * e[1] + z * e[2] for e in (self.side, self.ahead, self.lamp.normal))
        c = c.clamp(min=0)
        square = x * x + y * y + z * z
        distance = (square + 1e-6).sqrt()
        facing = -(x * normal[0] + y * normal[1] + z * normal[2]).clamp(max=0)
        inverse = 1.0 / (a.abs() + b.abs() + c + 1e-6)
        grid = torch.stack([(a + b) * inverse, (a - b) * inverse], dim=-1)[None, None]
        mean, second = F.grid_sample(self.moments, grid, padding_mode="border", align_corners=False)[0, :, 0]
        spread = (second - mean * mean).clamp(min=2e-3)
        behind = (distance - mean - 0.04).clamp(min=0)
        open_ = ((spread / (spread + behind * behind) - 0.25) / 0.75).clamp(min=0)
        return c * facing * open_ / (square * (square + _SOFT) + 1e-6)


class RoomLight:
    """All light of a room, ready to be asked for at any point."""

    def __init__(self, lamps: Sequence[Lamp], shapes: Shapes, faces: Sequence[Colour], rng: random.Random) -> None:
        self.shapes = shapes
        bounced = _bounces(lamps, shapes.room, faces, rng)
        self.maps = _cast(lamps, shapes, _LAMP_MAP) + _cast(bounced, shapes, _BOUNCE_MAP)
        x, y, z = shapes.room
        area = 8 * (x * y + y * z + z * x)
        self.ambient = [_AMBIENT * math.pi * sum(lamp.power[i] for lamp in bounced) / area for i in range(3)]

    def at(self, points: Tensor, normal: Tensor) -> Tensor:  # [3, N]
        """Light that falls on points [3, N] with normals [3, N]."""
        out = torch.tensor(self.ambient, device=points.device).reshape(3, 1) * self._openness(points, normal)
        for shadow in self.maps:
            light = shadow.light(points, normal)
            for i in range(3):
                out[i] += shadow.lamp.power[i] * light
        return out

    def _openness(self, points: Tensor, normal: Tensor) -> Tensor:  # [1, N]
        """Less where walls meet."""
        open_ = torch.ones_like(points[:1])
        for axis in range(3):
            middle, half = (self.shapes.room[1] if axis == 1 else 0.0), self.shapes.room[axis]
            gap = (half - (points[axis] - middle).abs()).clamp(min=0)
            open_ = open_ * (1 - 0.55 * (1 - normal[axis].abs()) * torch.exp(-gap / 0.22))
        return open_


def _frame(normal: Point) -> tuple[Point, Point]:
    """Two unit vectors across a normal that lies along an axis."""
    side = (0.0, 0.0, 1.0) if abs(normal[0]) > 0.5 else (1.0, 0.0, 0.0)
    (a, b, c), (d, e, f) = normal, side
    return side, (b * f - c * e, c * d - a * f, a * e - b * d)


def _cast(lamps: Sequence[Lamp], shapes: Shapes, size: int) -> list[_ShadowMap]:
    """The shadow maps of lamps, several at a time."""
    at_once = max(1, _RAYS // size**2)
    return [m for i in range(0, len(lamps), at_once) for m in _cast_together(lamps[i : i + at_once], shapes, size)]


def _cast_together(lamps: Sequence[Lamp], shapes: Shapes, size: int) -> list[_ShadowMap]:
    axis = (torch.arange(size, device=shapes.device) + 0.5) * (2.0 / size) - 1
    u, v = axis[None, :], axis[:, None]
    a, b = 0.5 * (u + v), 0.5 * (u - v)
    c = 1 - a.abs() - b.abs()
    inverse = torch.rsqrt(a * a + b * b + c * c)
    frames = [_frame(lamp.normal) for lamp in lamps]
    directions = [
        torch.stack([(a * side[i] + b * ahead[i] + c * lamp.normal[i]) * inverse for i in range(3)])
        for lamp, (side, ahead) in zip(lamps, frames, strict=True)
    ]
    origin = torch.tensor([lamp.position for lamp in lamps], device=shapes.device).T[:, :, None, None]
    rays = Rays.start(origin, torch.stack(directions, dim=1), (0.0, 0.0, 0.0))
    shapes.meet_shell(rays)
    for number, shape in enumerate(shapes.items, start=1):
        if shape.casts and any(_before(shape.centre, shape.half, lamp) for lamp in lamps):
            shapes.meet(rays, number, Window(0, size, 0, size))
    moments = torch.stack([rays.distance, rays.distance**2], dim=1)
    moments = F.avg_pool2d(F.pad(moments, (1, 1, 1, 1), mode="replicate"), 3, 1)
    return [
        _ShadowMap(lamp, *frame, moments[i : i + 1]) for i, (lamp, frame) in enumerate(zip(lamps, frames, strict=True))
    ]


def _before(centre: Point, half: Point, lamp: Lamp) -> bool:
    """A body can stand in the light only on the side that the lamp shines to."""
    ahead = sum((c - p) * n for c, p, n in zip(centre, lamp.position, lamp.normal, strict=True))
    return ahead + math.hypot(*half) > 0


def _bounces(lamps: Sequence[Lamp], room: Point, faces: Sequence[Colour], rng: random.Random) -> list[Lamp]:
    """Lamps that stand for the light which walls, floor and ceiling throw back."""
    out = []
    for face, count in enumerate(_BOUNCES):
        axis, sign = face // 2, 1.0 if face % 2 else -1.0
        others = [i for i in range(3) if i != axis]
        area = 4 * room[others[0]] * room[others[1]]
        for i in range(count):
            place = [0.0, room[1], 0.0]
            place[axis] += sign * (room[axis] - 0.02)
            long, short = sorted(others, key=lambda k: -room[k])
            place[long] += room[long] * ((2 * i + 1) / count - 1 + rng.uniform(-0.3, 0.3) / count)
            place[short] += room[short] * rng.uniform(-0.35, 0.35)
            normal = tuple(-sign if k == axis else 0.0 for k in range(3))
            where, towards = (place[0], place[1], place[2]), (normal[0], normal[1], normal[2])
            light = [1.1 * sum(_direct(lamp, where, towards, k) for lamp in lamps) for k in range(3)]
            r, g, b = (faces[face][k] * light[k] * area / count / math.pi for k in range(3))
            out.append(Lamp(where, towards, (r, g, b)))
    return out


def _direct(lamp: Lamp, point: Point, normal: Point, channel: int) -> float:
    offset = [p - q for p, q in zip(point, lamp.position, strict=True)]
    square = sum(d * d for d in offset)
    leaving = max(sum(d * n for d, n in zip(offset, lamp.normal, strict=True)), 0.0)
    facing = max(-sum(d * n for d, n in zip(offset, normal, strict=True)), 0.0)
    return lamp.power[channel] * leaving * facing / (square * (square + _SOFT) + 1e-6)

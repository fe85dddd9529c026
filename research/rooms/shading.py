"""Shades rooms: the patterns of finishes, and light from lamps and windows with soft shadows and one bounce."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from libranet.lab.scenes.rays import Point, Rays, Window
from libranet.lab.scenes.textures import Colour, DetailTexture, hash01, mix, pulse, smoothstep, step
from rooms.shapes import Finish, Kind, Shapes, Spot

_LAMP_MAP, _BOUNCE_MAP = 160, 72  # texels along the side of a shadow map
_RAYS = 1 << 17  # traced at once: few enough for the cache
_BOUNCES = (2, 2, 4, 3, 2, 2)  # samples on the faces -x, +x, floor, ceiling, -z, +z
_SOFT = 0.35  # m2 added to squared distances: no light is a point
_AMBIENT = 0.42  # share of light that was reflected more than once


class Patterns:
    """Albedos of the finishes of one room, band-limited by the pixel's footprint."""

    def __init__(self, finishes: Sequence[Finish], texture: DetailTexture, device: torch.device) -> None:
        self.texture = texture
        rows = [[f.kind, *f.colour, *f.second, f.scale, f.key, f.gloss, f.glow] for f in finishes]
        self.table = torch.tensor(rows, dtype=torch.float32, device=device).T.contiguous()

    def mirror_and_glow(self, row: Tensor) -> tuple[Tensor, Tensor]:
        """Share of mirrored light, and emitted light, [N] each."""
        return self.table[9, row], self.table[10, row]

    def albedo(self, spot: Spot, footprint: Tensor) -> Tensor:
        """Colours [3, N] of points whose pixel covers `footprint` [N] metres."""
        kinds = self.table[0, spot.row]
        out = torch.empty_like(spot.normal)
        for kind in torch.unique(kinds).tolist():
            at = (kinds == kind).nonzero()[:, 0]
            fields = self.table[:, spot.row[at]]
            place = (spot.u[at], spot.v[at], spot.across[at], spot.upward[at], spot.tall[at])
            out[:, at] = self._pattern(Kind(int(kind)), place, fields, footprint[at])
        return out.clamp(0.004, 0.92)

    def _noise(self, u: Tensor, v: Tensor, period: float, footprint: Tensor, key: Tensor) -> Tensor:
        return self.texture.sample(u + 7.3 * key, v + 3.1 * key, period, footprint)

    def _pattern(self, kind: Kind, place: tuple[Tensor, ...], fields: Tensor, f: Tensor) -> Tensor:
        u, v, across, upward, tall = place
        a, b, scale, key = fields[1:4], fields[4:7], fields[7], fields[8]
        number = key * 65536
        if kind == Kind.CHART:
            return _chart(across, upward, number)
        if kind == Kind.ARTWORK:
            return self._artwork(across, upward, a, b, f, key)
        if kind == Kind.OUTDOORS:
            return self._outdoors(u, v, upward, a, b, f, key)
        if kind == Kind.WOOD:
            along, beside = torch.where(tall, v, u), torch.where(tall, u, v)
            grain = self._noise(0.12 * along, beside, 0.7, f, key)
            return mix(a, b, 0.5 + 0.3 * grain[0] + 0.2 * grain[2])
        if kind == Kind.PLANKS:
            line = torch.floor(v / scale)
            along = (u + 40 * hash01(line, number)) / (9 * scale)
            tone = hash01(line, torch.floor(along), number)
            grain = self._noise(0.1 * u, v + tone, 0.5, f, key)
            gap = pulse(v / scale, 0.96, f / scale) * pulse(along, 0.996, f / (9 * scale))
            return mix(a, b, 0.2 + 0.6 * tone + 0.22 * grain[0]) * (0.45 + 0.55 * gap)
        if kind in (Kind.TILES, Kind.BRICK):
            long = 3.2 if kind == Kind.BRICK else 1.0
            line = torch.floor(v / scale)
            along = u / (long * scale) + (0.5 * line if kind == Kind.BRICK else 0.0)
            tone = hash01(line, torch.floor(along), number) - 0.5
            spread = 0.5 if kind == Kind.BRICK else 0.08
            joint = 0.015 / scale if kind == Kind.BRICK else 0.006 / scale
            inside = pulse(v / scale, 1 - joint, f / scale) * pulse(along, 1 - joint / long, f / (long * scale))
            noise = self._noise(u, v, 0.6, f, key)
            return mix(b, a * (1 + spread * tone + 0.35 * spread * noise[0]), inside)
        if kind == Kind.CARPET:
            noise = self._noise(u, v, 0.4, f, key) + 0.5 * self._noise(u, v, 2.3, f, key)
            return a * (1 + 0.2 * noise[2] + 0.08 * noise[0]).clamp(0.3, 1.7)
        if kind == Kind.FABRIC:
            weave = pulse(u / scale, 0.5, f / scale) + pulse(v / scale, 0.5, f / scale) - 1
            noise = self._noise(u, v, 0.5, f, key)
            return a * (1 + 0.12 * weave + 0.1 * noise[2] + 0.06 * noise[0]).clamp(0.3, 1.7)
        if kind == Kind.STRIPES:
            noise = self._noise(u, v, 0.4, f, key)
            return mix(a, b, pulse(u / (2 * scale), 0.5, f / (2 * scale))) * (1 + 0.03 * noise[2])
        if kind == Kind.CHECKER:
            sides = (2 * pulse(x / (2 * scale), 0.5, f / (2 * scale)) - 1 for x in (u, v))
            return mix(a, b, 0.5 + 0.5 * next(sides) * next(sides))
        if kind == Kind.FOLDS:
            wave = self._noise(u, 0.02 * v, 3.0, f, key)[3]
            phase = u / scale + 0.35 * wave
            sway = torch.sin(2 * math.pi * phase) + 0.4 * torch.sin(4.7 * math.pi * phase + 1)
            return a * (0.82 + 0.14 * sway) * (1 + 0.03 * self._noise(u, v, 0.3, f, key)[2])
        if kind == Kind.SLATS:
            return mix(b, a, pulse(v / scale, 0.8, f / scale))
        if kind == Kind.LEAF:
            noise = self._noise(u, v, 0.5, f, key) + 0.7 * self._noise(v, u, 0.17, f, key)
            return mix(a, b, 0.45 + 0.3 * noise[0]) * (1 + 0.12 * noise[2]).clamp(0.5, 1.5)
        noise = self._noise(u, v, 1.7, f, key)
        fine = self._noise(v, u, 0.23, f, key)
        return a * (1 + 0.012 * noise[0] + 0.012 * noise[3] + 0.018 * fine[2])

    def _artwork(self, x: Tensor, y: Tensor, a: Tensor, b: Tensor, f: Tensor, key: Tensor) -> Tensor:
        """A landscape, or blots, inside a mat."""
        soft = f.clamp(min=0.08)
        fine, broad = (
            self._noise(x, y, 4.7, f, key),
            [self._noise(x, y, 5.3, soft, key + k)[3] for k in (0.0, 0.37, 0.71)],
        )
        land = step(0.3 * broad[0] - 0.9 * (y + 0.1), f * 2)
        blots = smoothstep(-0.15, 0.15, broad[1] + 0.07 * fine[0])
        share = torch.where(key < 0.5, land, blots)
        motif = mix(a, b, share) * (1 + 0.12 * fine[1] + 0.1 * fine[2]).clamp(0.2, 2.2)
        spot = step(broad[2] - 0.8, f * 2)
        motif = mix(motif, torch.stack([b[2], a[0], a[1]]), spot)
        mat = torch.maximum(x.abs(), y.abs())
        return mix(motif, torch.full_like(motif, 0.75), step(mat - 0.8, f * 3) * (key * 10 % 1 < 0.6))

    def _outdoors(self, u: Tensor, v: Tensor, up: Tensor, a: Tensor, b: Tensor, f: Tensor, key: Tensor) -> Tensor:
        """Bright sky over blurred greenery or buildings."""
        broad = self._noise(u, v, 3.1, f.clamp(min=0.05), key)
        edge = smoothstep(-0.12, 0.12, up + 0.3 * broad[3] + 0.6 * key)
        return mix(b * (1 + 0.25 * broad[3] + 0.2 * broad[0]).clamp(0.3, 2), a, edge)


def _chart(x: Tensor, y: Tensor, number: Tensor) -> Tensor:
    """Six by four patches on black; the lowest row is grey, from white to black."""
    column, line = torch.floor(3 * (x + 1)), torch.floor(2 * (y + 1))
    inside = ((3 * (x + 1)) % 1 - 0.5).abs().maximum(((2 * (y + 1)) % 1 - 0.5).abs()) < 0.42
    colour = torch.stack([hash01(column, line, number + i) ** 1.8 for i in range(3)]) * 0.85
    grey = (0.85 * 0.5 ** (1.1 * column)).expand_as(colour)
    return torch.where(inside, torch.where(line < 1, grey, colour), 0.01)


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
        """Light at points [3, N] with normals [3, N], for unit power."""
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
    """All light of a room, at any point."""

    def __init__(self, lamps: Sequence[Lamp], shapes: Shapes, faces: Sequence[Colour], rng: random.Random) -> None:
        self.shapes = shapes
        bounced = _bounces(lamps, shapes.room, faces, rng)
        self.maps = _cast(lamps, shapes, _LAMP_MAP) + _cast(bounced, shapes, _BOUNCE_MAP)
        x, y, z = shapes.room
        area = 8 * (x * y + y * z + z * x)
        self.ambient = [_AMBIENT * math.pi * sum(lamp.power[i] for lamp in bounced) / area for i in range(3)]

    def at(self, points: Tensor, normal: Tensor) -> Tensor:  # [3, N]
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
    """Whether a body lies on the side that the lamp shines to; only then can it cast a shadow."""
    ahead = sum((c - p) * n for c, p, n in zip(centre, lamp.position, lamp.normal, strict=True))
    return ahead + math.hypot(*half) > 0


def _bounces(lamps: Sequence[Lamp], room: Point, faces: Sequence[Colour], rng: random.Random) -> list[Lamp]:
    """Lamps that stand for the light that walls, floor and ceiling reflect."""
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

"""What rooms are made of: finishes and their colours; boxes, balls and upright drums, and how rays meet them."""

import colorsys
import math
import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum

import torch
from torch import Tensor

from libranet.lab.scenes.rays import Camera, Point, Rays, Window, box_corners, slab, windows_in_view
from libranet.lab.scenes.textures import Colour, normalised

WHITE: Colour = (0.8, 0.8, 0.79)
BLACK: Colour = (0.012, 0.012, 0.013)


class Kind(IntEnum):
    """The pattern of a surface."""

    PAINT = 0
    WOOD = 1
    PLANKS = 2
    TILES = 3
    CARPET = 4
    BRICK = 5
    FABRIC = 6
    STRIPES = 7
    CHECKER = 8
    CHART = 9
    ARTWORK = 10
    FOLDS = 11
    SLATS = 12
    OUTDOORS = 13
    LEAF = 14


@dataclass(frozen=True)
class Finish:
    """A pattern in two colours."""

    kind: Kind
    colour: Colour  # albedo, linear
    second: Colour = WHITE
    scale: float = 0.1  # metres of one stripe, tile, plank or brick
    key: float = 0.0  # a number in [0, 1) that details are drawn from
    gloss: float = 0.0  # share of mirrored light, 0 to 1
    glow: float = 0.0  # emitted light; 1 is what a lit white wall reflects


def paint(colour: Colour, *, gloss: float = 0.0) -> Finish:
    return Finish(Kind.PAINT, colour, gloss=gloss)


def from_hsv(hue: float, saturation: float, value: float) -> Colour:
    """Display-like hue, saturation and value to linear albedo."""
    r, g, b = (0.01 + 0.86 * c**2.2 for c in colorsys.hsv_to_rgb(hue % 1.0, saturation, value))
    return r, g, b


def pale(rng: random.Random) -> Colour:
    """White, cream, light grey or a pale pastel."""
    sort = rng.random()
    if sort < 0.45:
        return from_hsv(rng.uniform(0.05, 0.17), rng.uniform(0.0, 0.05), rng.uniform(0.9, 0.99))
    if sort < 0.65:
        return from_hsv(rng.uniform(0.09, 0.14), rng.uniform(0.06, 0.16), rng.uniform(0.88, 0.98))
    if sort < 0.82:
        return from_hsv(rng.uniform(0.5, 0.7), rng.uniform(0.0, 0.05), rng.uniform(0.78, 0.92))
    return from_hsv(rng.random(), rng.uniform(0.07, 0.2), rng.uniform(0.84, 0.96))


def vivid(rng: random.Random) -> Colour:
    """A saturated colour: toys, books, cushions."""
    return from_hsv(rng.choice((rng.random(), rng.gauss(0.03, 0.06))), rng.uniform(0.55, 0.95), rng.uniform(0.4, 0.92))


def muted(rng: random.Random) -> Colour:
    """A colour of sofas, carpets and coats."""
    return from_hsv(rng.random(), rng.uniform(0.05, 0.5), rng.uniform(0.2, 0.8))


def dark(rng: random.Random) -> Colour:
    return from_hsv(rng.random(), rng.uniform(0.0, 0.35), rng.uniform(0.02, 0.22))


def dyed(rng: random.Random) -> Colour:
    """Any colour that a large cloth may have: seldom a vivid one."""
    return rng.choices((muted, dark, pale, vivid), weights=(6, 2, 2, 2))[0](rng)


def mixed(rng: random.Random) -> Colour:
    """Any colour that a small thing may have."""
    return rng.choices((vivid, muted, dark, pale), weights=(5, 2, 2, 2))[0](rng)


def wood(rng: random.Random) -> Finish:
    """From birch to ebony."""
    hue, saturation, value = rng.uniform(0.05, 0.1), rng.uniform(0.25, 0.65), rng.choice((0.85, 0.75, 0.6, 0.45, 0.25))
    value *= rng.uniform(0.9, 1.1)
    light, deep = from_hsv(hue, saturation, value), from_hsv(hue - 0.01, min(saturation * 1.15, 1.0), value * 0.8)
    return Finish(Kind.WOOD, light, deep, 0.6, rng.random(), gloss=rng.uniform(0.0, 0.06))


def cloth(rng: random.Random, colour: Colour | None = None) -> Finish:
    colour = colour or muted(rng)
    if rng.random() < 0.2:
        return Finish(Kind.STRIPES, colour, mixed(rng), rng.uniform(0.04, 0.12), rng.random())
    return Finish(Kind.FABRIC, colour, dark(rng), rng.uniform(0.004, 0.012), rng.random())


def cabinet(rng: random.Random) -> Finish:
    """Fronts of cupboards and desks."""
    if rng.random() < 0.45:
        return wood(rng)
    return paint(rng.choices((pale, vivid, dark, muted), weights=(6, 1, 1, 1))[0](rng), gloss=0.03)


def wall(rng: random.Random) -> Finish:
    """Mostly pale paint; sometimes a strong colour, wood, brick or striped paper."""
    if rng.random() < 0.7:
        return paint(pale(rng))
    sort = rng.random()
    if sort < 0.5:
        return paint(from_hsv(rng.random(), rng.uniform(0.25, 0.8), rng.uniform(0.3, 0.85)))
    if sort < 0.65:
        board = wood(rng)
        return Finish(Kind.PLANKS, board.colour, board.second, rng.uniform(0.1, 0.2), rng.random())
    if sort < 0.85:
        brick = rng.choice((pale(rng), from_hsv(rng.uniform(0.01, 0.06), 0.6, rng.uniform(0.45, 0.7))))
        return Finish(Kind.BRICK, brick, from_hsv(0.1, 0.08, 0.75), 0.075, rng.random())
    return Finish(Kind.STRIPES, pale(rng), pale(rng), rng.uniform(0.05, 0.15), rng.random())


def floor(rng: random.Random) -> Finish:
    sort = rng.random()
    if sort < 0.5:
        board = wood(rng)
        return Finish(
            Kind.PLANKS, board.colour, board.second, rng.uniform(0.08, 0.2), rng.random(), rng.uniform(0, 0.1)
        )
    if sort < 0.75:
        tile = rng.choice((pale, pale, muted, dark))(rng)
        if rng.random() < 0.2:
            return Finish(Kind.CHECKER, tile, rng.choice((dark, pale))(rng), rng.uniform(0.2, 0.4), rng.random(), 0.08)
        return Finish(Kind.TILES, tile, from_hsv(0.1, 0.05, 0.6), rng.uniform(0.2, 0.6), rng.random(), 0.08)
    return Finish(Kind.CARPET, muted(rng), dark(rng), 0.05, rng.random())


SHELL = 0  # surface number of the room's own walls, floor and ceiling; shapes follow from 1
_NEAR = 0.05


class Form(IntEnum):
    """The form of a shape."""

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
    casts: bool = True  # casts a shadow

    def without_shadow(self) -> "Shape":
        """For lamps, windows, and what is too small for its shadow to be seen."""
        return replace(self, casts=False)


def block(x: tuple[float, float], y: tuple[float, float], z: tuple[float, float], finish: Finish) -> Shape:
    """A box from its bounds; thin ones cast no shadow."""
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
    table: Tensor = field(init=False)  # [9, 1 + N]: centre, half sizes, cos, sin, form; the shell comes first

    def __post_init__(self) -> None:
        shell = [0.0, self.room[1], 0.0, *self.room, 1.0, 0.0, float(Form.BOX)]
        rows = [[*s.centre, *s.half, math.cos(s.yaw), math.sin(s.yaw), float(s.form)] for s in self.items]
        self.host_table = torch.tensor([shell, *rows], dtype=torch.float32).T.contiguous()
        self.table = self.host_table.to(self.device)

    def trace(self, camera: Camera, *, min_area: int = 0) -> Rays:
        """What the pixels' centres and corners see; shapes that cover fewer than `min_area` pixels are left out."""
        rays = Rays.through_pixels(camera, self.device, corners=True)
        self.meet_shell(rays)
        x, y, z, hx, hy, hz, c, s, _ = self.host_table[:, 1:]
        for index, window in windows_in_view(camera, box_corners(x, z, (y - hy, y + hy), (hx, hz), (c, s))):
            if window.area >= min_area:
                self.meet(rays, index + 1, window)
        return rays

    def meet_shell(self, rays: Rays) -> None:
        """Start the rays with the walls that they leave the room through."""
        leave = [
            slab(rays.origin[i] + (rays.anchor[i] - middle), rays.direction[i], self.room[i])[1]
            for i, middle in enumerate((0.0, self.room[1], 0.0))
        ]
        rays.distance = torch.minimum(torch.minimum(leave[0], leave[1]), leave[2])
        rays.surface = torch.full_like(rays.surface, SHELL)

    def meet(self, rays: Rays, number: int, window: Window) -> None:
        """Meet the rays inside the window with shape `number`, counted from 1."""
        shape = self.items[number - 1]
        hx, hy, hz = shape.half
        c, s = math.cos(shape.yaw), math.sin(shape.yaw)
        origin, direction = rays.inside(window)
        ox, oy, oz = (origin[i] + (rays.anchor[i] - at) for i, at in enumerate(shape.centre))
        dx, dy, dz = direction[0], direction[1], direction[2]
        if s:
            ox, oz = ox * c - oz * s, ox * s + oz * c
            dx, dz = dx * c - dz * s, dx * s + dz * c
        if shape.form == Form.BALL:
            enter, leave = _quadratic((ox / hx, oy / hy, oz / hz), (dx / hx, dy / hy, dz / hz))
        else:
            enter, leave = slab(oy, dy, hy)
            if shape.form == Form.DRUM:
                sides = [_quadratic((ox / hx, oz / hz), (dx / hx, dz / hz))]
            else:
                sides = [slab(ox, dx, hx), slab(oz, dz, hz)]
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


def _quadratic(origin: tuple[Tensor, ...], direction: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Where rays enter and leave the unit ball or circle; a ray that misses it enters at infinity."""
    zero = torch.zeros(())
    a = sum((d * d for d in direction), zero).clamp(min=1e-12)
    b = sum((o * d for o, d in zip(origin, direction, strict=True)), zero)
    root = b * b - a * (sum((o * o for o in origin), zero) - 1.0)
    width = root.clamp(min=0).sqrt()
    return torch.where(root > 0, (-b - width) / a, torch.inf), (-b + width) / a

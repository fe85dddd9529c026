"""The objects of an outdoor scene and how rays meet them: boxes, and crowns made of overlapping ellipsoids.

A box is a building, a car, a trunk, a pole or a wall, with or without a gable roof. A crown's shells are pierced by a
leaf pattern that is fixed in space.
"""

import math
import random
from dataclasses import dataclass, field, replace
from enum import IntEnum

import torch
from torch import Tensor

from libranet.lab.scenes.rays import Point, Rays, Window, box_corners, nonzero, slab
from libranet.lab.scenes.textures import Colour, SolidTexture

_SHELLS = ((1.0, 0.0), (0.88, 0.55), (0.74, 1.2))  # radius of each shell, and by how much it is less open
_TWIGS = 0.28  # period of the finer leaf pattern over that of the coarser


class SolidKind(IntEnum):
    """What a box stands for; decides how it is shaded."""

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
    base: float  # height of the ground under it; the box continues below
    half_x: float
    half_z: float
    height: float  # of the walls, above `base`
    yaw: float = 0.0
    slope: float = 0.0  # of the roof, metres per metre; 0 is flat
    kind: SolidKind = SolidKind.BUILDING
    colour: Colour = (0.5, 0.5, 0.5)
    roof: Colour = (0.3, 0.2, 0.15)
    storey: float = 3.0
    bay: float = 2.5
    key: float = 0.0  # a number in [0, 1) that details are drawn from
    hovers: bool = False
    """Ends at `base` instead of continuing into the ground: lamps, cornices, cars."""
    velocity: tuple[float, float] = (0.0, 0.0)  # metres per second along x and z

    def place(self, time: float) -> tuple[float, float]:
        return self.x + self.velocity[0] * time, self.z + self.velocity[1] * time


@dataclass
class Solids:
    """All boxes of a scene as one table: on the host for culling, on the device for shading."""

    items: list[Solid]
    device: torch.device
    table: Tensor = field(init=False)
    """[22, N] at time 0: x, z, base, half_x, half_z, height, cos, sin, slope, kind, colour (3), roof (3), storey, bay,
    key, hovers, velocity (2)."""

    def __post_init__(self) -> None:
        rows = [
            [
                *(s.x, s.z, s.base, s.half_x, s.half_z, s.height, math.cos(s.yaw), math.sin(s.yaw), s.slope),
                *(float(s.kind), *s.colour, *s.roof, s.storey, s.bay, s.key, float(s.hovers), *s.velocity),
            ]
            for s in self.items
        ]
        self.host_table = torch.tensor(rows, dtype=torch.float32).reshape(-1, 22).T.contiguous()
        self.table = self.host_table.to(self.device)
        self.velocity = self.table[20:]  # [2, N]
        self.moving = [i for i, s in enumerate(self.items) if s.velocity != (0.0, 0.0)]

    def corners(self, time: float) -> Tensor:  # [3, N, 8] on the host
        x, z, base, hx, hz, h, c, s, slope = self.host_table[:9]
        vx, vz = self.host_table[20:]
        heights = (base - 2.0, base + h + slope * hx)
        return box_corners(x + vx * time, z + vz * time, heights, (hx, hz), (c, s))

    def intersect(self, rays: Rays, index: int, window: Window, time: float) -> None:
        """Meet the rays inside the window with one box. Surface numbers start at 1."""
        solid = self.items[index]
        x, z = solid.place(time)
        c, s, slope = math.cos(solid.yaw), math.sin(solid.yaw), solid.slope
        origin, direction = rays.inside(window)
        ox, oy, oz = (origin[i] + (rays.anchor[i] - at) for i, at in enumerate((x, solid.base, z)))
        dx, dy, dz = direction[0], direction[1], direction[2]
        # Into the box's own axes.
        ox, oz = ox * c - oz * s, ox * s + oz * c
        dx, dz = dx * c - dz * s, dx * s + dz * c
        (near_x, far_x), (near_z, far_z) = slab(ox, dx, solid.half_x), slab(oz, dz, solid.half_z)
        enter, leave = torch.maximum(near_x, near_z), torch.minimum(far_x, far_z)
        top = solid.height + slope * solid.half_x
        planes = []  # how fast a ray leaves through each plane (< 0: enters), and where
        for tilt in (slope, -slope) if slope else (0.0,):
            rate = nonzero(dy + tilt * dx)
            planes.append((rate, (top - oy - tilt * ox) / rate))
        if solid.hovers:
            rate = nonzero(dy)
            planes.append((-rate, -oy / rate))
        for rate, t in planes:
            enter = torch.where(rate < 0, torch.maximum(enter, t), enter)
            leave = torch.where(rate > 0, torch.minimum(leave, t), leave)
        hit = (enter < leave) & (enter > 0.05)
        rays.meet(window, torch.where(hit, enter, torch.inf), index + 1)


@dataclass(frozen=True)
class Tree:
    """One crown. Lobes are (x, y, z, radius) around the crown's middle, in a space stretched by `squash` along y."""

    middle: Point
    lobes: list[tuple[float, float, float, float]]
    squash: float  # width over height of each lobe
    radius: float
    colour: Colour
    gaps: float | None
    """A shell has holes where the leaf noise, in standard deviations, is below this; None: no holes, a rock."""
    leaf: float  # period of the leaf pattern in metres


@dataclass
class Trees:
    """All crowns of a scene."""

    items: list[Tree]
    device: torch.device
    leaves: SolidTexture
    first: int  # the surface number of the first lobe
    lobes: Tensor = field(init=False)  # [4, M] crown-relative lobes on the device
    shade: Tensor = field(init=False)  # [8, M]: crown middle, colour, radius, squash

    def __post_init__(self) -> None:
        lobes, shade, self.starts = [], [], [0]
        for tree in self.items:
            lobes += tree.lobes
            shade += [[*tree.middle, *tree.colour, tree.radius, tree.squash]] * len(tree.lobes)
            self.starts.append(len(lobes))
        self.hulls = [max(math.sqrt(x * x + y * y + z * z) + r for x, y, z, r in t.lobes) for t in self.items]
        self.lobes = torch.tensor(lobes, dtype=torch.float32).reshape(-1, 4).T.contiguous().to(self.device)
        self.shade = torch.tensor(shade, dtype=torch.float32).reshape(-1, 8).T.contiguous().to(self.device)

    def outlines(self) -> "Trees":
        """The same crowns as single closed ellipsoids: a cheap stand-in for occlusion."""
        simple = [
            replace(tree, lobes=[(0.0, 0.0, 0.0, 0.85 * hull)], gaps=None)
            for tree, hull in zip(self.items, self.hulls, strict=True)
        ]
        return Trees(simple, self.device, self.leaves, self.first)

    def corners(self) -> Tensor:  # [3, N, 8] on the host
        x, y, z = torch.tensor([t.middle for t in self.items], dtype=torch.float32).reshape(-1, 3).T
        wide = torch.tensor([max(math.hypot(x, z) + r for x, _, z, r in t.lobes) for t in self.items])
        tall = torch.tensor([max((abs(y) + r) / t.squash for _, y, _, r in t.lobes) for t in self.items])
        upright = (torch.ones_like(x), torch.zeros_like(x))
        return box_corners(x, z, (y - tall, y + tall), (wide, wide), upright)

    def intersect(self, rays: Rays, index: int, window: Window, pixel: float) -> None:
        """Meet the rays inside the window with one crown. `pixel`: the angle one pixel covers, 0 for parallel rays."""
        tree = self.items[index]
        start, end = self.starts[index], self.starts[index + 1]
        origin, direction = rays.inside(window)
        shift = [p - m for p, m in zip(rays.anchor, tree.middle, strict=True)]
        k = tree.squash
        # Only rays that enter the crown's hull before they meet anything else go on.
        o = [origin[i] + shift[i] for i in range(3)]
        d = [direction[i] for i in range(3)]
        a, b, c = _quadratic(o, d, k)
        hull = b * b - a * (c - self.hulls[index] ** 2)
        nearest = (-b - hull.clamp(min=0).sqrt()) / a
        rows, columns = window.slices
        known = rays.distance[:, rows, columns]
        active = ((hull > 0) & (nearest < known)).reshape(-1).nonzero()[:, 0]
        if active.numel() == 0:
            return
        shape = known.shape
        o, d = ([v.expand(shape).reshape(-1)[active] for v in vectors] for vectors in (o, d))
        distance, lobe = self._shells(
            tree, self.lobes[:, start:end], o, d, pixel=pixel, tree_distance=math.hypot(*shift) - self.hulls[index]
        )
        found = torch.full(shape, math.inf, device=self.device).reshape(-1)
        number = torch.zeros(shape, device=self.device, dtype=torch.int32).reshape(-1)
        found[active], number[active] = distance, lobe + (self.first + start)
        rays.meet(window, found.reshape(shape), number.reshape(shape))

    def _shells(
        self,
        tree: Tree,
        lobes: Tensor,  # [4, L]
        o: list[Tensor],  # 3 x [N], relative to the crown's middle
        d: list[Tensor],  # 3 x [N]
        *,
        pixel: float,
        tree_distance: float,
    ) -> tuple[Tensor, Tensor]:  # distance [N], lobe [N] int32
        """The first leaf, searched from the outermost shell inwards."""
        k = tree.squash
        cx, cy, cz, r = (lobes[i][:, None] for i in range(4))
        found = torch.full_like(d[0], math.inf)
        # Nearer than this the finer pattern shows; farther it has faded away.
        close = pixel > 0 and tree_distance < 1.5 * tree.leaf * _TWIGS / (10.0 * pixel)
        number = torch.zeros_like(found, dtype=torch.int32)
        left = torch.arange(found.shape[0], device=self.device)
        for shell, less in _SHELLS:
            a, b, c = _quadratic(o, d, k)
            b = b - (cx * d[0] + (cy * k) * d[1] + cz * d[2])
            c = c - 2 * (cx * o[0] + (cy * k) * o[1] + cz * o[2]) + (cx * cx + cy * cy + cz * cz - (r * shell) ** 2)
            root = b * b - a * c
            # Seen edge-on a pierced shell is a bundle of arcs: leave its rim out.
            reached = root > a * (0.07 * (r * shell) ** 2)
            t, lobe = torch.where(reached, -b - root.clamp(min=0).sqrt(), math.inf).min(dim=0)
            t = t / a
            met = torch.isfinite(t) & (t > 0.05)
            if tree.gaps is None:
                return torch.where(met, t, math.inf), lobe.to(torch.int32)
            at = torch.where(met, t, 0.0)
            p = [o[i] + at * d[i] for i in range(3)]
            noise = self.leaves.sample(p[0], p[1], p[2], tree.leaf)[0]
            # Leaves smaller than the pixel merge into a closed crown.
            noise = noise * (1.5 - at * (pixel * 10.0 / tree.leaf)).clamp(0, 1)
            if close:
                twigs = self.leaves.sample(p[2], p[0], p[1], tree.leaf * _TWIGS)[1]
                noise = noise + 0.8 * twigs * (1.5 - at * (pixel * 10.0 / (tree.leaf * _TWIGS))).clamp(0, 1)
            leaf = met & (noise > tree.gaps - less)
            here = leaf.nonzero()[:, 0]
            found[left[here]], number[left[here]] = t[here], lobe[here].to(torch.int32)
            rest = (met & ~leaf).nonzero()[:, 0]
            left = left[rest]
            o, d = ([v[rest] for v in vectors] for vectors in (o, d))
        return found, number


def _quadratic(o: list[Tensor], d: list[Tensor], squash: float) -> tuple[Tensor, Tensor, Tensor]:
    """a, b, c of a t^2 + 2 b t + c: squared distance from the crown's middle along the rays, heights times `squash`."""
    k = squash * squash
    a = d[0] * d[0] + k * d[1] * d[1] + d[2] * d[2]
    b = o[0] * d[0] + k * o[1] * d[1] + o[2] * d[2]
    return a, b, o[0] * o[0] + k * o[1] * o[1] + o[2] * o[2]


def broadleaf(rng: random.Random, spot: Point, height: float, colour: Colour, lobes: int) -> tuple[Tree, Solid]:
    """A round-headed tree and its trunk."""
    x, base, z = spot
    crown = height * rng.uniform(0.3, 0.4)
    squash = rng.uniform(0.75, 1.1)
    parts = [(0.0, 0.0, 0.0, crown * 0.72)]
    for i in range(lobes - 1):
        angle = i * 2.4 + rng.random()
        up = rng.uniform(-0.5, 0.75)
        out = crown * rng.uniform(0.4, 0.62) * math.sqrt(max(0.2, 1 - up * up * 0.8))
        parts.append((out * math.cos(angle), crown * up, out * math.sin(angle), crown * rng.uniform(0.34, 0.55)))
    middle = (x, base + height - crown / squash, z)
    tree = Tree(middle, parts, squash, crown * 1.15, colour, rng.uniform(-0.1, 0.6), rng.uniform(2.6, 4.0))
    radius = max(0.09, height * 0.018)
    return tree, _trunk(rng, spot, radius, middle[1] - base)


def conifer(rng: random.Random, spot: Point, height: float, colour: Colour, lobes: int) -> tuple[Tree, Solid]:
    """A spruce: a spiral of boughs, wide at the foot, and its trunk."""
    x, base, z = spot
    width = height * rng.uniform(0.15, 0.22)
    squash = rng.uniform(1.1, 1.4) if lobes > 12 else rng.uniform(0.7, 0.85)
    parts = []
    for i in range(lobes):
        share = (i + 0.3) / lobes
        bough = width * (1.02 - 0.92 * share)
        angle = 2.4 * i + rng.uniform(-0.4, 0.4)
        radius = max(bough * rng.uniform(0.62, 0.78), 0.8 * squash * height / lobes * (1 - 0.55 * share))
        out = bough * 0.42 * (1 - share)
        parts.append((out * math.cos(angle), (share - 0.5) * height * 0.84 * squash, out * math.sin(angle), radius))
    middle = (x, base + height * 0.55, z)
    tree = Tree(middle, parts, squash, width, colour, rng.uniform(0.1, 0.6), rng.uniform(1.8, 2.6))
    return tree, _trunk(rng, spot, max(0.08, height * 0.012), height * 0.5)


def bush(rng: random.Random, spot: Point, size: float, colour: Colour) -> Tree:
    x, base, z = spot
    parts = _heap(rng, 3, spread=0.5, rise=(-0.1, 0.2), radius=(0.4, 0.65), size=size)
    return Tree((x, base + size * 0.3, z), parts, 1.2, size, colour, rng.uniform(-0.3, 0.3), rng.uniform(1.2, 2.0))


def boulder(rng: random.Random, spot: Point, size: float, colour: Colour) -> Tree:
    """A rock: the same overlapping ellipsoids without gaps."""
    x, base, z = spot
    parts = _heap(rng, 4, spread=0.45, rise=(-0.2, 0.15), radius=(0.4, 0.7), size=size)
    return Tree((x, base + size * 0.12, z), parts, rng.uniform(1.2, 1.8), size, colour, None, 2.0)


def _heap(
    rng: random.Random, count: int, spread: float, rise: tuple[float, float], radius: tuple[float, float], size: float
) -> list[tuple[float, float, float, float]]:
    """Lobes close to each other; all lengths in units of `size`."""
    ranges = ((-spread, spread), rise, (-spread, spread), radius)
    lobes = [[rng.uniform(*limits) * size for limits in ranges] for _ in range(count)]
    return [(x, y, z, r) for x, y, z, r in lobes]


def _trunk(rng: random.Random, spot: Point, radius: float, height: float) -> Solid:
    x, base, z = spot
    grey = rng.uniform(0.6, 1.2)
    colour = (0.11 * grey, 0.085 * grey, 0.065 * grey)
    return Solid(
        x, z, base, radius, radius, height, yaw=rng.random(), kind=SolidKind.TRUNK, colour=colour, key=rng.random()
    )

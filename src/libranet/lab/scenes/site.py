"""Puts objects into an outdoor scene: buildings, cars, lamps and poles, trees, bushes, rocks."""

import math
import random
from dataclasses import dataclass, field

from libranet.lab.scenes.biome import Biome, CameraPath, car_colour, facade_colour, roof_colour
from libranet.lab.scenes.objects import Solid, SolidKind, Tree, boulder, broadleaf, bush, conifer
from libranet.lab.scenes.terrain import Terrain
from libranet.lab.scenes.textures import Colour, scaled

_MARGIN = 2.5  # metres kept free around the camera's path
_FLAT_ROOF: Colour = (0.26, 0.25, 0.24)
_BRICK: Colour = (0.25, 0.13, 0.09)
_PLANT_ROOM: Colour = (0.35, 0.34, 0.33)
_METAL: Colour = (0.22, 0.23, 0.24)
_WOOD: Colour = (0.16, 0.12, 0.09)
_SPRUCE: Colour = (0.036, 0.060, 0.030)


@dataclass
class Site:
    """Collects the objects of one scene; keeps them out of each other's and the camera's way."""

    rng: random.Random
    biome: Biome
    terrain: Terrain
    path: CameraPath
    solids: list[Solid] = field(default_factory=list)
    trees: list[Tree] = field(default_factory=list)
    taken: list[tuple[float, float, float]] = field(default_factory=list)
    """Circles x, z, radius that objects stand in."""

    def __post_init__(self) -> None:
        self._passed = [self.path.at(0.5 * i, 16, 16).position for i in range(-1, 13)]

    def free(self, x: float, z: float, radius: float) -> bool:
        """Whether a circle is dry, and clear of other objects and of the camera."""
        sea = self.terrain.relief.sea
        if sea is not None and self.terrain.level(x, z) < sea + 0.6:
            return False
        if any((x - a) ** 2 + (z - b) ** 2 < (radius + r) ** 2 for a, b, r in self.taken):
            return False
        return all(math.hypot(x - a, z - b) > radius + _MARGIN for a, _, b in self._passed)

    def base(self, x: float, z: float, radius: float) -> float:
        """Lowest ground under a footprint."""
        around = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))
        return min(self.terrain.level(x + dx * radius, z + dz * radius) for dx, dz in around)


def fill_site(site: Site) -> None:
    """Put up everything that the biome calls for."""
    _build(site)
    road = site.biome.road
    if road.half_width:
        if road.paved:
            _traffic(site)
            _parked(site)
        _poles(site)
    _trees(site)
    _boulders(site)
    _bushes(site)


def _build(site: Site) -> None:
    kind = site.biome.kind
    if kind == "city":
        _blocks(site)
    elif kind == "street":
        _street(site)
    elif kind == "suburb":
        _detached(site, 34, distance=(14.0, 45.0), stretch=(-20.0, 260.0))
    elif kind in ("country", "coast", "mountain", "dry"):
        _detached(site, site.rng.randint(0, 9), distance=(20.0, 160.0), stretch=(40.0, 330.0))


def _building(
    site: Site, x: float, z: float, half: tuple[float, float], *, height: float, yaw: float = 0.0, slope: float = 0.0
) -> None:
    """One building with what belongs on its roof."""
    rng = site.rng
    hx, hz = half
    base = site.base(x, z, min(half))
    colour, roof = facade_colour(rng), roof_colour(rng)
    site.solids.append(
        Solid(
            x=x,
            z=z,
            base=base,
            half_x=hx,
            half_z=hz,
            height=height,
            yaw=yaw,
            slope=slope,
            colour=colour,
            roof=roof if slope else _FLAT_ROOF,
            storey=rng.uniform(2.8, 3.6),
            bay=rng.uniform(1.8, 3.8),
            key=rng.random(),
        )
    )
    site.taken.append((x, z, math.hypot(hx, hz) * 0.8))

    def on_roof(lx: float, lz: float, size: tuple[float, float], top: float, paint: Colour) -> None:
        wx, wz = x + lx * math.cos(yaw) + lz * math.sin(yaw), z - lx * math.sin(yaw) + lz * math.cos(yaw)
        site.solids.append(
            Solid(wx, wz, base, *size, height=top, yaw=yaw, kind=SolidKind.WALL, colour=paint, roof=_FLAT_ROOF)
        )

    if slope:
        if rng.random() < 0.7:
            on_roof(hx * 0.35, hz * rng.uniform(-0.6, 0.6), (0.35, 0.35), height + slope * hx + 0.6, _BRICK)
        return
    if rng.random() < 0.7:  # stair head or machine room
        lx, lz = hx * rng.uniform(-0.4, 0.4), hz * rng.uniform(-0.4, 0.4)
        on_roof(lx, lz, (hx * 0.3, hz * 0.3), height + rng.uniform(2, 4), _PLANT_ROOM)
    if height > 12:
        for _ in range(rng.randint(0, 3)):
            lx, lz = hx * rng.uniform(-0.8, 0.8), hz * rng.uniform(-0.8, 0.8)
            on_roof(lx, lz, (rng.uniform(0.5, 1.4), rng.uniform(0.5, 1.4)), height + rng.uniform(0.6, 1.6), _PLANT_ROOM)
    # A cornice a little wider than the walls.
    site.solids.append(
        Solid(
            x=x,
            z=z,
            base=base + height - 0.1,
            half_x=hx + 0.25,
            half_z=hz + 0.25,
            height=0.45,
            yaw=yaw,
            kind=SolidKind.WALL,
            colour=scaled(colour, 0.8),
            roof=_FLAT_ROOF,
            hovers=True,
        )
    )


def _street(site: Site) -> None:
    """Terraced rows along the main road and its neighbours, and towers behind them."""
    rng, road = site.rng, site.biome.road
    assert road.block is not None
    tall, gabled = rng.uniform(5, 22), rng.random() < 0.4
    for street, length in ((0, 420.0), (-1, 240.0), (1, 240.0)):
        for side in (-1, 1):
            _row(site, street * road.block[0], side, length=length, tall=tall, gabled=gabled)
    for _ in range(rng.randint(0, 16)):
        x, z = rng.choice([-1, 1]) * rng.uniform(110, 300), rng.uniform(60, 460)
        half = (rng.uniform(7, 13), rng.uniform(7, 13))
        if site.free(x, z, max(half) * 1.3):
            _building(site, x, z, half, height=rng.uniform(14, 70))


def _row(site: Site, x: float, side: int, *, length: float, tall: float, gabled: bool) -> None:
    """Buildings wall to wall, with gaps at crossings and sometimes between them."""
    rng, road = site.rng, site.biome.road
    assert road.block is not None
    across = road.block[1]
    setback = road.half_width + road.walk + rng.choice([0.3, 0.3, rng.uniform(2, 7)])
    deepest = (road.block[0] / 2 - setback) / 2
    z = -30.0
    while z < length:
        half_z = rng.uniform(5, 12)
        crossing = (z + half_z + 0.37 * across) % across - across / 2
        if abs(crossing) < half_z + road.half_width + road.walk:
            z += 3.0
            continue
        hx = min(rng.uniform(5, 9), deepest)
        height = max(3.2, tall * rng.uniform(0.55, 1.4))
        slope = rng.uniform(0.45, 0.9) if gabled and height < 16 else 0.0
        _building(site, x + side * (setback + hx), z + half_z, (hx, half_z), height=height, slope=slope)
        z += 2 * half_z + (0.0 if rng.random() < 0.7 else rng.uniform(1, 9))


def _blocks(site: Site) -> None:
    """Built-up blocks between a grid of streets, some left open as parks."""
    rng, road = site.rng, site.biome.road
    assert road.block is not None
    along, across = road.block
    edge = road.half_width + road.walk + 1.0
    tall = rng.uniform(9, 38)
    columns, rows = (2 if along > 70 else 1), max(1, round((across - 2 * edge) / 28))
    wide, deep = (along - 2 * edge) / columns, (across - 2 * edge) / rows
    for i in range(-5, 5):
        for j in range(-1, 7):
            if rng.random() < 0.1:
                continue
            for k in range(columns * rows):
                x = i * along + edge + wide * (k % columns + 0.5)
                z = (j + 0.13) * across + edge + deep * (k // columns + 0.5)
                half = (wide / 2 * rng.uniform(0.6, 0.98), deep / 2 * rng.uniform(0.6, 1.0))
                height = max(5.0, tall * rng.lognormvariate(-0.1, 0.5))
                if site.free(x, z, max(half)) and rng.random() < 0.92:
                    _building(site, x, z, half, height=height)


def _detached(site: Site, count: int, *, distance: tuple[float, float], stretch: tuple[float, float]) -> None:
    """Detached homes with gardens, `distance` from the road, along a `stretch` of it."""
    rng, road = site.rng, site.biome.road
    for _ in range(count * 3):
        z = rng.uniform(*stretch)
        x = road.centre(z) + rng.choice([-1, 1]) * rng.uniform(*distance)
        half = (rng.uniform(3.5, 5.5), rng.uniform(4.5, 8.5))
        if count > 0 and site.free(x, z, half[1] * 1.25):
            yaw = rng.choice([0.0, math.pi / 2]) + rng.gauss(0, 0.08)
            _building(site, x, z, half, height=rng.uniform(2.8, 6.5), yaw=yaw, slope=rng.uniform(0.4, 1.0))
            count -= 1


def _traffic(site: Site) -> None:
    rng, road = site.rng, site.biome.road
    for _ in range(rng.randint(2, 6) if site.biome.urban else rng.randint(0, 3)):
        lane, z = rng.choice([-1, 1]), rng.uniform(14, 170)
        if abs(site.path.start[0] - lane * road.half_width * 0.45) < 1.5 and z < 30:
            continue  # not right before the camera
        speed = lane * rng.uniform(5, 13) if road.bend == 0 else 0.0
        if site.path.road is not None and speed < 0 and z < 100:
            z += 100
        _car(site, lane * road.half_width * 0.45, z, speed)


def _parked(site: Site) -> None:
    rng, road = site.rng, site.biome.road
    if not road.walk or road.half_width <= 4.2:
        return
    widest = 16 if site.biome.urban else 50
    for side in (-1, 1):
        z = rng.uniform(0, 10)
        while z < 220:
            z += rng.uniform(5.2, widest)
            if rng.random() < 0.7:
                _car(site, side * (road.half_width - 1.0), z, 0.0)


def _car(site: Site, side: float, z: float, speed: float) -> None:
    """Body and cabin, driving on the right."""
    rng, road = site.rng, site.biome.road
    x, base = road.centre(z) + side, road.level(z) + 0.12
    if speed == 0 and not site.free(x, z, 2.0):
        return
    yaw = road.heading(z) + (math.pi if side < 0 else 0.0)
    colour, van = car_colour(rng), rng.random() < 0.2
    length, width = rng.uniform(1.9, 2.4), rng.uniform(0.82, 0.92)
    back = 0.0 if van else -0.25
    for part, shift, half_x, half_z, height in (
        (SolidKind.CAR, 0.0, width, length, 1.0 if van else 0.72),
        (SolidKind.CABIN, back, width * 0.86, length * (0.9 if van else 0.52), 1.8 if van else 1.28),
    ):
        site.solids.append(
            Solid(
                x=x + math.sin(yaw) * shift,
                z=z + math.cos(yaw) * shift,
                base=base,
                half_x=half_x,
                half_z=half_z,
                height=height,
                yaw=yaw,
                kind=part,
                colour=colour,
                roof=colour,
                hovers=True,
                velocity=(0.0, speed),
            )
        )


def _poles(site: Site) -> None:
    """Street lamps in town, wooden poles with a crossbar outside."""
    rng, road = site.rng, site.biome.road
    if rng.random() < 0.3:
        return
    side, spacing, height = rng.choice([-1, 1]), rng.uniform(22, 40), rng.uniform(5.5, 9.0)
    wood = road.walk == 0
    colour, arm = (_WOOD, 0.9) if wood else (_METAL, 0.7)
    for i in range(-1, 9):
        z = i * spacing + 6.0
        x = road.centre(z) + side * (road.half_width + max(0.4, road.walk - 0.4) + (1.2 if wood else 0.0))
        if not site.free(x, z, 0.2):
            continue
        base = site.terrain.level(x, z)
        site.solids.append(Solid(x, z, base, 0.09, 0.09, height, kind=SolidKind.POLE, colour=colour, roof=colour))
        site.solids.append(
            Solid(
                x=x if wood else x - side * arm,
                z=z,
                base=base + height - 0.35,
                half_x=arm,
                half_z=0.06,
                height=0.14,
                kind=SolidKind.WALL,
                colour=colour,
                roof=colour,
                hovers=True,
            )
        )


def _trees(site: Site) -> None:
    rng, biome, road = site.rng, site.biome, site.biome.road
    edge = road.half_width + road.walk
    gap = edge + (0.8 if road.walk else 2.2) if road.half_width else 3.0
    reach = {"forest": 44.0, "city": 120.0}.get(biome.kind, 70.0)
    dense = biome.kind == "forest"
    for _ in range(biome.trees * 2):
        if len(site.trees) >= biome.trees:
            return
        z = 330.0 * rng.random() ** (1.6 if dense else 1.25) - 8
        out = road.half_width + road.walk * 0.5 if biome.kind == "street" else gap + reach * rng.random() ** 1.5
        x = road.centre(z) + rng.choice([-1, 1]) * out
        height = rng.uniform(5, 9) if road.walk else rng.uniform(6, 17)
        if not site.free(x, z, height * (0.16 if dense else 0.2)):
            continue
        spot, far = (x, site.terrain.level(x, z), z), math.hypot(x - site.path.start[0], z)
        if rng.random() < biome.conifers:
            tree, trunk = conifer(
                rng, spot, height * 1.2, scaled(_SPRUCE, rng.uniform(0.8, 1.2)), 18 if far < 70 else 9
            )
        else:
            colour = scaled(rng.choice(biome.leaves), rng.uniform(0.8, 1.2))
            tree, trunk = broadleaf(rng, spot, height, colour, 12 if far < 60 else 7)
        site.trees.append(tree)
        if far < 150:
            site.solids.append(trunk)
        site.taken.append((x, z, height * 0.12))


def _bushes(site: Site) -> None:
    rng, road = site.rng, site.biome.road
    for _ in range(site.biome.bushes):
        z = 170.0 * rng.random() ** 1.4
        out = road.half_width + road.walk + 1.5 + 45 * rng.random() ** 1.5
        x, size = road.centre(z) + rng.choice([-1, 1]) * out, rng.uniform(0.5, 1.6)
        if site.free(x, z, size):
            site.trees.append(bush(rng, (x, site.terrain.level(x, z), z), size, rng.choice(site.biome.leaves)))


def _boulders(site: Site) -> None:
    rng, road = site.rng, site.biome.road
    if site.biome.kind not in ("mountain", "dry", "coast"):
        return
    for _ in range(rng.randint(5, 45)):
        z = 150.0 * rng.random() ** 1.3
        x = road.centre(z) + rng.choice([-1, 1]) * (road.half_width + 2.0 + 50 * rng.random() ** 1.4)
        size = 0.4 * rng.lognormvariate(0.3, 0.6)
        if site.free(x, z, size):
            colour = scaled(site.biome.palette.rock, rng.uniform(0.7, 1.2))
            site.trees.append(boulder(rng, (x, site.terrain.level(x, z), z), size, colour))

"""Buildings: terraced streets, city blocks, detached houses."""

import math

from libranet.scenes.biome import facade_colour, roof_colour
from libranet.scenes.site import Site
from libranet.scenes.solids import Colour, Solid, Stuff

_FLAT_ROOF: Colour = (0.26, 0.25, 0.24)
_BRICK: Colour = (0.25, 0.13, 0.09)
_PLANT_ROOM: Colour = (0.35, 0.34, 0.33)


def build(site: Site) -> None:
    """The buildings that the biome calls for."""
    kind = site.biome.kind
    if kind == "city":
        _blocks(site)
    elif kind == "street":
        _street(site)
    elif kind == "suburb":
        _houses(site, 34, distance=(14.0, 45.0), stretch=(-20.0, 260.0))
    elif kind in ("country", "coast", "mountain", "dry"):
        _houses(site, site.rng.randint(0, 9), distance=(20.0, 160.0), stretch=(40.0, 330.0))


def _building(
    site: Site, x: float, z: float, half: tuple[float, float], *, height: float, yaw: float = 0.0, slope: float = 0.0
) -> None:
    """One house with what belongs on its roof."""
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
            stuff=Stuff.BUILDING,
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
            Solid(wx, wz, base, *size, height=top, yaw=yaw, stuff=Stuff.WALL, colour=paint, roof=_FLAT_ROOF)
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
            stuff=Stuff.WALL,
            colour=(0.8 * colour[0], 0.8 * colour[1], 0.8 * colour[2]),
            roof=_FLAT_ROOF,
            hovers=True,
        )
    )


def _street(site: Site) -> None:
    """Rows of houses along the main road and its neighbours, and towers behind them."""
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
    """Houses wall to wall, with gaps at crossings and now and then between them."""
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
    """Filled blocks between a grid of streets, here and there a park."""
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


def _houses(site: Site, count: int, *, distance: tuple[float, float], stretch: tuple[float, float]) -> None:
    """Detached houses with gardens, `distance` from the road, along a `stretch` of it."""
    rng, road = site.rng, site.biome.road
    for _ in range(count * 3):
        z = rng.uniform(*stretch)
        x = road.centre(z) + rng.choice([-1, 1]) * rng.uniform(*distance)
        half = (rng.uniform(3.5, 5.5), rng.uniform(4.5, 8.5))
        if count > 0 and site.free(x, z, half[1] * 1.25):
            yaw = rng.choice([0.0, math.pi / 2]) + rng.gauss(0, 0.08)
            _building(site, x, z, half, height=rng.uniform(2.8, 6.5), yaw=yaw, slope=rng.uniform(0.4, 1.0))
            count -= 1

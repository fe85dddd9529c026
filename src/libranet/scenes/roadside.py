"""What stands and drives on a road: cars, lamps, wooden poles."""

import math

from libranet.scenes.biome import car_colour
from libranet.scenes.site import Site
from libranet.scenes.solids import Colour, Solid, Stuff

_METAL: Colour = (0.22, 0.23, 0.24)
_WOOD: Colour = (0.16, 0.12, 0.09)


def furnish(site: Site) -> None:
    """Traffic, parked cars and a row of poles, where there is a road."""
    if site.biome.road.half_width:
        if site.biome.road.paved:
            _traffic(site)
            _parked(site)
        _poles(site)


def _traffic(site: Site) -> None:
    rng, road = site.rng, site.biome.road
    busy = site.biome.kind in ("street", "city")
    for _ in range(rng.randint(2, 6) if busy else rng.randint(0, 3)):
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
    widest = 16 if site.biome.kind in ("street", "city") else 50
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
        (Stuff.CAR, 0.0, width, length, 1.0 if van else 0.72),
        (Stuff.CABIN, back, width * 0.86, length * (0.9 if van else 0.52), 1.8 if van else 1.28),
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
                stuff=part,
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
        site.solids.append(Solid(x, z, base, 0.09, 0.09, height, stuff=Stuff.POLE, colour=colour, roof=colour))
        site.solids.append(
            Solid(
                x=x if wood else x - side * arm,
                z=z,
                base=base + height - 0.35,
                half_x=arm,
                half_z=0.06,
                height=0.14,
                stuff=Stuff.WALL,
                colour=colour,
                roof=colour,
                hovers=True,
            )
        )

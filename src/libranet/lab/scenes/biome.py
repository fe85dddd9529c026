"""Draws the place of an outdoor scene, its colours, and the camera's path through it."""

import dataclasses
import math
import random
from dataclasses import dataclass
from functools import partial

import torch

from libranet.lab.scenes.rays import Camera, Point
from libranet.lab.scenes.terrain import Relief, Road, Terrain
from libranet.lab.scenes.textures import Colour, scaled

TURN = 6.0  # seconds of the camera's path that are known to be free
_KINDS = {"street": 5, "suburb": 4, "city": 3, "country": 4, "forest": 3, "mountain": 4, "coast": 3, "dry": 2}
"""How often each kind of place is drawn."""


@dataclass(frozen=True)
class Palette:
    """Albedos of a biome in one season, linear."""

    grass: Colour
    dry: Colour
    soil: Colour
    rock: Colour
    canopy: tuple[Colour, Colour]
    sand: Colour
    asphalt: Colour
    pavement: Colour
    water: Colour
    snow_line: float  # height in metres above which snow lies
    fields: float  # share of the open land under crops, 0 to 1
    town: bool  # ground between buildings is paved


@dataclass(frozen=True)
class Biome:
    """What a place is like: its land, its colours, what grows there, and how a camera moves through it."""

    kind: str  # one of street, suburb, city, country, forest, mountain, coast, dry
    relief: Relief
    road: Road
    palette: Palette
    leaves: list[Colour]
    conifers: float  # share of conifers among trees
    trees: int  # trees wanted near the path
    bushes: int
    moves: tuple[float, float, float, float]
    """Weights of the camera's moves: drive, fly, pan, dolly."""
    look_towards: float  # mean yaw of the camera in radians
    look_around: float  # its standard deviation
    shadow_reach: float  # metres around the scene's middle within which objects cast shadows

    @property
    def urban(self) -> bool:
        return self.kind in ("street", "city")


@dataclass(frozen=True)
class CameraPath:
    """A smooth move: speed and turning rates plus a slow sway, all exact functions of time."""

    start: Point
    velocity: Point
    yaw: float
    yaw_rate: float
    pitch: float
    sway: float  # amplitude of the camera's shake; 1 is that of a car on a fair road
    phase: float
    view_angle: float  # horizontal field of view in radians
    road: Road | None = None  # follow this road: `start` and `yaw` are then relative to its centre line

    def at(self, time: float, width: int, height: int) -> Camera:
        """The camera at a time in seconds. After `TURN` seconds it goes back the way it came, and so on."""
        time = abs((time + TURN) % (2 * TURN) - TURN)
        x, y, z = (p + v * time for p, v in zip(self.start, self.velocity, strict=True))
        yaw = self.yaw
        if self.road is not None:
            yaw += self.road.heading(z)
            x, y = x + self.road.centre(z), y + self.road.level(z)
        a, b, c = (math.sin(f * time + self.phase * k) for f, k in ((2.1, 1.0), (3.3, 2.0), (1.3, 3.0)))
        return Camera(
            position=(x + 0.02 * self.sway * a, y + 0.02 * self.sway * b, z),
            yaw=yaw + self.yaw_rate * time + 0.004 * self.sway * c,
            pitch=self.pitch + 0.004 * self.sway * a,
            roll=0.004 * self.sway * b,
            view_angle=self.view_angle,
            width=width,
            height=height,
        )


def draw_biome(rng: random.Random) -> Biome:
    kind = rng.choices(list(_KINDS), weights=list(_KINDS.values()))[0]
    season = rng.choice(["spring", "summer", "summer", "late", "autumn", "winter"])
    urban = kind in ("street", "city")
    relief = Relief(
        hills={"mountain": 90.0, "forest": 60.0, "country": 40.0}.get(kind, 30.0) * rng.uniform(0.5, 1.3),
        rolls={"mountain": 14.0, "country": 5.0, "forest": 5.0, "dry": 7.0, "coast": 5.0}.get(kind, 0.6)
        * rng.uniform(0.5, 1.4),
        mountains=0.0 if rng.random() < (0.1 if kind in ("mountain", "dry") else 0.45) else rng.uniform(180, 900),
        mountain_start=rng.uniform(500, 2500) if kind == "mountain" else rng.uniform(1500, 4000),
        forest={"forest": 0.85, "mountain": 0.5, "dry": 0.0, "street": 0.3, "city": 0.1}.get(kind, 0.35)
        * rng.uniform(0.6, 1.1),
        sea=-1.6 if kind == "coast" else (-5.0 if kind == "mountain" and rng.random() < 0.4 else None),
        shore=rng.uniform(0.06, 0.2),
        clearing={"street": 130.0, "city": 450.0, "suburb": 110.0, "forest": 45.0}.get(kind, 60.0),
    )
    has_road = kind in ("street", "city", "suburb", "country") or rng.random() < 0.6
    block = (rng.uniform(55, 95), rng.uniform(60, 120)) if urban else None
    road = Road(
        half_width=(rng.uniform(3.2, 6.5) if kind not in ("mountain", "forest", "dry") else rng.uniform(2.5, 4.0))
        * has_road,
        walk=rng.uniform(1.8, 4.0) if urban else (1.6 if kind == "suburb" else 0.0),
        bend=0.0 if urban else rng.uniform(2, 22),
        bend_length=rng.uniform(60, 160),
        rise=0.0 if urban else rng.uniform(0.3, 4.0),
        rise_length=rng.uniform(70, 160),
        phase=rng.uniform(0, 6.28),
        block=block,
        town=block[0] * (5.0 if kind == "city" else 1.5) if block else 0.0,
        paved=urban or kind == "suburb" or rng.random() < 0.75,
    )
    moves = {
        "street": (5, 2, 2, 2),
        "city": (0.5, 6, 0.5, 0.5),
        "suburb": (4, 3, 1, 1),
    }.get(kind, (3, 4, 1, 1))
    return Biome(
        kind=kind,
        relief=relief,
        road=road,
        palette=_draw_palette(rng, kind, season),
        leaves=_leaf_colours(rng, kind, season),
        conifers={"mountain": 0.8, "forest": rng.choice([0.1, 0.5, 0.95]), "street": 0.05, "city": 0.05}.get(
            kind, 0.25
        ),
        trees={"street": 34, "city": 50, "suburb": 70, "country": 60, "forest": 190, "mountain": 80, "coast": 40}.get(
            kind, 18
        ),
        bushes={"suburb": 30, "country": 35, "forest": 60, "mountain": 45, "dry": 90, "coast": 40}.get(kind, 0),
        moves=moves if has_road else (0.0, *moves[1:]),
        look_towards=-0.5 if kind == "coast" else 0.0,
        look_around=0.25 if urban else 0.5,
        shadow_reach=200.0 if kind == "city" else 110.0,
    )


def _draw_palette(rng: random.Random, kind: str, season: str) -> Palette:
    grass = {
        "spring": (0.080, 0.135, 0.040),
        "summer": (0.072, 0.108, 0.040),
        "late": (0.16, 0.145, 0.05),
        "autumn": (0.13, 0.12, 0.045),
        "winter": (0.16, 0.14, 0.085),
    }[season]
    dry: Colour = (0.22, 0.18, 0.085)
    if kind == "dry":
        grass, dry = (0.24, 0.18, 0.10), (0.36, 0.26, 0.155)
    warm = rng.uniform(0.0, 1.0)
    snow = {"winter": -60.0 if rng.random() < 0.6 else 120.0}.get(season, rng.uniform(260, 900))
    if kind in ("coast", "dry"):
        snow = max(snow, 500.0)
    tar = rng.uniform(0.05, 0.16)
    grey = rng.uniform(0.22, 0.42)
    green = rng.uniform(0.8, 1.2)
    canopy: tuple[Colour, Colour] = {
        "autumn": ((0.08, 0.072, 0.022), (0.17, 0.092, 0.026)),
        "winter": ((0.055, 0.06, 0.035), (0.09, 0.08, 0.055)),
        "spring": ((0.045, 0.082, 0.025), (0.075, 0.115, 0.036)),
    }.get(season, ((0.030, 0.056, 0.022), (0.056, 0.086, 0.032)))
    return Palette(
        grass=(grass[0], grass[1] * green, grass[2]),
        dry=dry,
        soil=(0.17 + 0.06 * warm, 0.125 + 0.03 * warm, 0.085),
        rock=(0.20 + 0.07 * warm, 0.19 + 0.03 * warm, 0.175),
        canopy=canopy,
        sand=(0.46, 0.38, 0.26),
        asphalt=(tar, tar, tar * 1.03),
        pavement=(grey * 1.04, grey, grey * 0.95),
        water=(0.012, 0.045 + 0.03 * warm, 0.06),
        snow_line=snow,
        fields=rng.uniform(0.4, 0.9) if kind == "country" else (0.25 if kind == "suburb" else 0.0),
        town=kind in ("street", "city"),
    )


def _leaf_colours(rng: random.Random, kind: str, season: str) -> list[Colour]:
    if kind == "dry":
        return [(0.10, 0.11, 0.05), (0.13, 0.13, 0.06)]
    return {
        "spring": [(0.08, 0.14, 0.032), (0.10, 0.155, 0.04), (0.38, 0.31, 0.32), (0.065, 0.115, 0.028)],
        "summer": [(0.042, 0.080, 0.022), (0.056, 0.095, 0.028), (0.068, 0.10, 0.035), (0.036, 0.070, 0.025)],
        "late": [(0.07, 0.10, 0.022), (0.10, 0.11, 0.03), (0.05, 0.085, 0.02)],
        "autumn": [(0.24, 0.11, 0.02), (0.22, 0.145, 0.028), (0.17, 0.058, 0.02), (0.10, 0.095, 0.025),
                   (0.06, 0.085, 0.02)],
        "winter": [(0.10, 0.085, 0.06), (0.05, 0.07, 0.03), (0.12, 0.10, 0.07)],
    }[season]  # fmt: skip


def facade_colour(rng: random.Random) -> Colour:
    """White and pale plaster, brick, stone, concrete, and some bright paint."""
    base = rng.choice([
        (0.72, 0.71, 0.68), (0.62, 0.58, 0.49), (0.50, 0.44, 0.34), (0.34, 0.15, 0.10), (0.27, 0.12, 0.08),
        (0.38, 0.37, 0.35), (0.24, 0.24, 0.25), (0.58, 0.46, 0.28), (0.45, 0.52, 0.56), (0.80, 0.79, 0.77),
        (0.55, 0.33, 0.24), (0.14, 0.15, 0.17),
    ])  # fmt: skip
    return scaled(base, rng.uniform(0.8, 1.1))


def roof_colour(rng: random.Random) -> Colour:
    base = rng.choice(
        [(0.30, 0.10, 0.055), (0.22, 0.085, 0.05), (0.10, 0.10, 0.105), (0.14, 0.12, 0.10), (0.2, 0.2, 0.2)]
    )
    return scaled(base, rng.uniform(0.8, 1.2))


def car_colour(rng: random.Random) -> Colour:
    return rng.choice([
        (0.75, 0.75, 0.75), (0.45, 0.46, 0.48), (0.05, 0.05, 0.055), (0.02, 0.02, 0.02), (0.40, 0.03, 0.03),
        (0.03, 0.07, 0.28), (0.12, 0.13, 0.14), (0.30, 0.28, 0.22), (0.05, 0.16, 0.10),
    ])  # fmt: skip


def draw_path(rng: random.Random, biome: Biome, terrain: Terrain) -> CameraPath:
    """Drive, fly, move sideways or pan, as suits the place; always above ground and closed forest."""
    path = _draw_move(rng, biome, terrain)
    if path.road is not None:
        return path
    x, y, z = (
        torch.tensor([path.at(0.25 * i, 16, 16).position[k] for i in range(int(4 * TURN) + 1)]) for k in range(3)
    )
    lacking = float((terrain.height(x, z) + 1.4 - y).max())
    start = path.start
    return dataclasses.replace(path, start=(start[0], start[1] + max(0.0, lacking), start[2]))


def _draw_move(rng: random.Random, biome: Biome, terrain: Terrain) -> CameraPath:
    move = rng.choices(["drive", "fly", "pan", "dolly"], weights=biome.moves)[0]
    road = biome.road
    angle = math.radians(rng.uniform(48, 78))
    phase = rng.uniform(0, 6.28)
    lane = road.half_width * 0.45 * rng.choice([-1, 1]) if road.half_width else 0.0
    make = partial(CameraPath, phase=phase, view_angle=angle)
    if move == "drive":
        speed = rng.uniform(2.0, 8.0)
        y = rng.uniform(1.4, 2.6)
        return make(
            start=(lane, y, 0.0),
            velocity=(0.0, 0.0, speed),
            yaw=rng.gauss(0, 0.06),
            yaw_rate=0.0,
            pitch=rng.uniform(-0.06, 0.04),
            sway=1.0,
            road=road,
        )
    yaw = rng.gauss(0, biome.look_around) + biome.look_towards
    if move == "fly":
        altitude = rng.choice([rng.uniform(7, 20), rng.uniform(18, 75)])
        if biome.kind == "forest":
            altitude += 18.0  # above the crowns
        speed = rng.uniform(3.0, 11.0)
        x = rng.uniform(-15, 15)
        course = yaw + rng.gauss(0, 0.5)
        return make(
            start=(x, _clear_height(terrain, x, course) + altitude, 0.0),
            velocity=(speed * math.sin(course), rng.uniform(-0.8, 1.2), speed * math.cos(course)),
            yaw=yaw,
            yaw_rate=rng.gauss(0, 0.03),
            pitch=-rng.uniform(0.0, 0.14) - 0.0024 * altitude,
            sway=0.5,
        )
    speed = rng.uniform(0.5, 2.0) if move == "dolly" else 0.0
    course = yaw + rng.choice([-1, 1]) * math.pi / 2 * rng.uniform(0.6, 1.0)
    side = rng.choice([-1, 1]) * (road.half_width + road.walk * 0.6 + 0.6) if road.half_width else 0.0
    rate = math.radians(rng.uniform(2.0, 9.0)) * rng.choice([-1, 1]) if move == "pan" else rng.gauss(0, 0.01)
    return make(
        start=(side, terrain.level(side, 0.0) + rng.uniform(1.5, 3.5), 0.0),
        velocity=(speed * math.sin(course), 0.0, speed * math.cos(course)),
        yaw=yaw - rate * 1.5,
        yaw_rate=rate,
        pitch=rng.uniform(-0.06, 0.08),
        sway=0.4,
    )


def _clear_height(terrain: Terrain, x: float, course: float) -> float:
    """The highest ground along the first hundred metres."""
    return max(terrain.level(x + math.sin(course) * d, math.cos(course) * d) for d in range(0, 120, 10))

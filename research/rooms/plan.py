"""Draws a furnished room: its size and use, walls, windows, doors, lamps, and furniture where there is space.

Parts of a wall stand at z = 0 and look along +z; `Plan.on_wall` puts them where the wall is.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from libranet.lab.scenes.rays import Point
from libranet.lab.scenes.textures import Colour, scaled
from rooms.clutter import chart, clock, framed_artwork, wall_shelf
from rooms.furniture import (
    Item,
    bed,
    bookcase,
    ceiling_panel,
    chair,
    column,
    cupboard,
    desk,
    dining,
    door,
    kitchen,
    low_table,
    mannequin,
    pendant,
    potted_plant,
    skirting,
    sofa,
    table,
    toys,
    whiteboard_stand,
    window,
)
from rooms.shading import Lamp
from rooms.shapes import (
    WHITE,
    Finish,
    Kind,
    Shape,
    block,
    cloth,
    dyed,
    floor,
    mixed,
    moved,
    paint,
    pale,
    wall,
    wood,
)

Maker = Callable[[random.Random], Item]
_WALLS = (math.pi / 2, -math.pi / 2, 0.0, math.pi)  # yaw of what stands at -x, +x, -z, +z
_MOST_SHAPES = 600


@dataclass(frozen=True)
class Use:
    """What a room is for: its size in metres and what stands in it."""

    weight: float  # how common such rooms are
    size: tuple[tuple[float, float], ...]  # least and most width (x), height (y) and depth (z)
    along_walls: tuple[Maker, ...]
    free: tuple[Maker, ...]
    pieces: tuple[int, int]  # fewest and most pieces along the walls
    panels: float  # chance of flat lamps in rows rather than one hanging lamp
    doors: tuple[int, int] = (1, 2)  # fewest and most doors
    rug: float = 0.45  # chance of a rug


_USES = (
    Use(  # living room
        weight=25,
        size=((3.6, 6), (2.4, 2.9), (4, 7)),
        along_walls=(sofa, bookcase, cupboard, sofa, bookcase, potted_plant, desk, table),
        free=(low_table, dining, toys, low_table, chair),
        pieces=(6, 11),
        panels=0.15,
    ),
    Use(  # bedroom
        weight=14,
        size=((3, 4.5), (2.4, 2.7), (3.2, 5)),
        along_walls=(bed, bed, cupboard, bookcase, desk, table, potted_plant),
        free=(toys, chair),
        pieces=(4, 8),
        panels=0.15,
    ),
    Use(  # office
        weight=18,
        size=((4, 9), (2.5, 3.2), (5, 10)),
        along_walls=(desk, desk, desk, bookcase, bookcase, cupboard, potted_plant),
        free=(desk, whiteboard_stand, dining, mannequin, desk),
        pieces=(6, 13),
        panels=0.9,
    ),
    Use(  # kitchen
        weight=10,
        size=((3, 5), (2.4, 2.8), (3.5, 6)),
        along_walls=(kitchen, kitchen, cupboard, potted_plant, table, bookcase),
        free=(dining, toys),
        pieces=(3, 6),
        panels=0.3,
        rug=0.0,
    ),
    Use(  # studio
        weight=20,
        size=((3.5, 7), (2.5, 3.5), (4, 8)),
        along_walls=(table, bookcase, cupboard, potted_plant),
        free=(table, mannequin, mannequin, toys, whiteboard_stand, chair, low_table),
        pieces=(3, 9),
        panels=0.5,
    ),
    Use(  # corridor
        weight=6,
        size=((1.6, 2.6), (2.3, 2.8), (7, 13)),
        along_walls=(cupboard, potted_plant, bookcase),
        free=(chair, toys),
        pieces=(2, 6),
        panels=0.6,
        doors=(3, 6),
    ),
    Use(  # hall
        weight=7,
        size=((7, 12), (3, 4.5), (8, 15)),
        along_walls=(bookcase, potted_plant, table, sofa, cupboard),
        free=(column, column, dining, mannequin, whiteboard_stand, table, toys),
        pieces=(6, 14),
        panels=0.8,
    ),
)


@dataclass
class Plan:
    """A furnished room around x = z = 0, standing on y = 0."""

    half: Point
    faces: list[Finish]  # -x, +x, floor, ceiling, -z, +z
    shapes: list[Shape] = field(default_factory=list)
    lamps: list[Lamp] = field(default_factory=list)
    taken: list[tuple[float, float, float, float]] = field(default_factory=list)  # floor: x0, x1, z0, z1
    hung: list[list[tuple[float, float, float, float]]] = field(default_factory=lambda: [[] for _ in _WALLS])
    """Per wall: from, to, low, high."""

    def length(self, side: int) -> float:
        """Half the length of a wall."""
        return self.half[2] if side < 2 else self.half[0]

    def on_wall(self, side: int, along: float, shapes: list[Shape]) -> list[Shape]:
        """Parts of a wall's own axes, shifted along it and put where it is."""
        yaw, off = _WALLS[side], self.half[0] if side < 2 else self.half[2]
        x, z = along * math.cos(yaw) - off * math.sin(yaw), -along * math.sin(yaw) - off * math.cos(yaw)
        return moved(shapes, x, 0, z, yaw)

    def hang(self, rng: random.Random, side: int, width: float, low: float, high: float) -> float | None:
        """Take a free place on a wall; None if there is none."""
        slack = self.length(side) - width / 2 - 0.12
        for _ in range(8 if slack > 0 else 0):
            at = rng.uniform(-slack, slack)
            spot = (at - width / 2 - 0.08, at + width / 2 + 0.08, low, high)
            if not any(_overlap(spot, other) for other in self.hung[side]):
                self.hung[side].append(spot)
                return at
        return None

    def stand(self, rng: random.Random, side: int, item: Item) -> None:
        """Put a piece against a wall, if there is space."""
        slack = self.length(side) - item.width / 2 - 0.03
        for _ in range(10 if slack > 0 else 0):
            at = rng.uniform(-slack, slack)
            spot = (at - item.width / 2, at + item.width / 2, 0.0, item.height)
            if any(_overlap(spot, other) for other in self.hung[side]):
                continue
            base = block((-item.width / 2, item.width / 2), (0, 1), (0, item.depth), paint(WHITE))
            placed = self.on_wall(side, at, [base])[0]
            hx, hz = (base.half[2], base.half[0]) if side < 2 else (base.half[0], base.half[2])
            ground = (placed.centre[0] - hx, placed.centre[0] + hx, placed.centre[2] - hz, placed.centre[2] + hz)
            if any(_overlap(ground, other) for other in self.taken):
                continue
            self.taken.append(ground)
            self.hung[side].append(spot)
            self.shapes += self.on_wall(side, at, moved(item.shapes, 0, 0, 0.02))
            return

    def stand_free(self, rng: random.Random, item: Item) -> None:
        """Put a piece somewhere on the floor, turned by any angle, if there is space."""
        reach = 0.5 * math.hypot(item.width, item.depth)
        for _ in range(10):
            x, z = (rng.uniform(-1, 1) * max(self.half[i] - reach - 0.1, 0.0) for i in (0, 2))
            spot = (x - reach * 0.85, x + reach * 0.85, z - reach * 0.85, z + reach * 0.85)
            if any(_overlap(spot, other) for other in self.taken):
                continue
            self.taken.append(spot)
            yaw = rng.choice((0.0, math.pi / 2, rng.uniform(-math.pi, math.pi)))
            self.shapes += moved(moved(item.shapes, 0, 0, -item.depth / 2), x, 0, z, yaw)
            return


def draw_plan(rng: random.Random) -> Plan:
    use = rng.choices(_USES, weights=[use.weight for use in _USES])[0]
    x, y, z = (rng.uniform(*limits) / 2 for limits in use.size)
    main = wall(rng)
    walls = [main] * 4
    if rng.random() < 0.2:
        walls[rng.randrange(4)] = wall(rng)
    ceiling = paint(WHITE if rng.random() < 0.8 else pale(rng))
    plan = Plan((x, y, z), [walls[0], walls[1], floor(rng), ceiling, walls[2], walls[3]])
    _add_openings(plan, rng, use)
    _add_lamps(plan, rng, use)
    for _ in range(rng.randint(*use.pieces)):
        if len(plan.shapes) < _MOST_SHAPES:
            plan.stand(rng, rng.randrange(4), rng.choice(use.along_walls)(rng))
    for _ in range(rng.randint(1, 3 if x * z < 6 else 6)):
        if len(plan.shapes) < _MOST_SHAPES:
            plan.stand_free(rng, rng.choice(use.free)(rng))
    _add_decorations(plan, rng)
    if use.rug and rng.random() < use.rug:
        _add_rug(plan, rng)
    return plan


def _add_openings(plan: Plan, rng: random.Random, use: Use) -> None:
    board = rng.choice((paint(WHITE), wood(rng), paint(mixed(rng))))
    height = rng.uniform(0.05, 0.14)
    for side in range(4):
        if plan.faces[2].kind != Kind.TILES or rng.random() < 0.5:
            plan.shapes += plan.on_wall(side, 0.0, [skirting(plan.length(side), board, height)])
    for _ in range(rng.randint(*use.doors)):
        side = rng.randrange(4)
        at = plan.hang(rng, side, 1.1, 0.0, 2.1)
        if at is not None:
            plan.shapes += plan.on_wall(side, at, door(rng))
    top = 2 * plan.half[1] - rng.uniform(0.2, 0.5)
    for _ in range(rng.choice((0, 1, 1, 2, 2, 3))):
        side = rng.randrange(4)
        width, low = rng.uniform(0.7, 2.6), rng.choice((0.9, 0.9, 0.8, 0.1))
        at = plan.hang(rng, side, width, low, top)
        if at is not None:
            plan.shapes += plan.on_wall(side, at, window(rng, width, low, top))
            tint = _tint(rng.gauss(0.25, 0.25))
            power = rng.uniform(0.7, 2.5) * width * (top - low) / 2
            yaw = _WALLS[side]
            normal = (math.sin(yaw), 0.0, math.cos(yaw))
            normal = (round(normal[0]), 0.0, round(normal[2]))
            for share in (-0.25, 0.25):
                spot = block((share * width, share * width), (low + 0.6 * (top - low),) * 2, (0.2, 0.2), paint(WHITE))
                place = plan.on_wall(side, at, [spot])[0].centre
                plan.lamps.append(Lamp(place, normal, scaled(tint, power)))


def _add_lamps(plan: Plan, rng: random.Random, use: Use) -> None:
    if plan.lamps and rng.random() < 0.25:
        return  # daylight alone
    top, tint = 2 * plan.half[1], _tint(rng.gauss(-0.2, 0.3))
    area = 4 * plan.half[0] * plan.half[2]
    places: list[tuple[float, float]] = []
    if rng.random() < use.panels:
        columns, lines = max(1, round(plan.half[0] / 1.6)), max(1, round(plan.half[2] / 1.6))
        size = rng.choice(((0.3, 0.3), (0.6, 0.15), (0.15, 0.6)))
        for i in range(columns):
            for j in range(lines):
                x, z = plan.half[0] * ((2 * i + 1) / columns - 1), plan.half[2] * ((2 * j + 1) / lines - 1)
                plan.shapes += moved(ceiling_panel(*size), x, top, z)
                places.append((x, z))
        rng.shuffle(places)
        drop = 0.05
    else:
        drop = rng.choice((0.05, 0.05, rng.uniform(0.4, 0.8)))
        for _ in range(1 if area < 25 else 2):
            x, z = (rng.uniform(-0.4, 0.4) * plan.half[i] for i in (0, 2))
            plan.shapes += moved(pendant(rng, drop), x, top, z)
            places += [(x - 0.12, z), (x + 0.12, z + 0.1)]
    used = places[:6]
    power = rng.uniform(0.6, 1.4) * area / 4 / len(used)
    for x, z in used:
        colour = scaled(tint, power)
        plan.lamps.append(Lamp((x, top - min(drop, 0.3) - 0.02, z), (0.0, -1.0, 0.0), colour))


def _add_decorations(plan: Plan, rng: random.Random) -> None:
    for _ in range(rng.randint(1, 9)):
        side, width, height = rng.randrange(4), rng.uniform(0.25, 1.1), rng.uniform(0.3, 0.8)
        low = rng.uniform(1.2, 1.5)
        at = plan.hang(rng, side, width, low, low + height)
        if at is None:
            continue
        part = _hanging(rng, width, height)
        plan.shapes += plan.on_wall(side, at, moved(part, 0, low + height / 2, 0.003))


def _hanging(rng: random.Random, width: float, height: float) -> list[Shape]:
    sort = rng.random()
    if sort < 0.65:
        return framed_artwork(rng, width, height)
    if sort < 0.85:
        return wall_shelf(rng, max(width, 0.5))
    return chart(rng, 0.5) if sort < 0.93 else clock(rng)


def _add_rug(plan: Plan, rng: random.Random) -> None:
    half_x, half_z = (min(rng.uniform(0.25, 0.55) * plan.half[i], 1.5) for i in (0, 2))
    finish = rng.choice(
        (Finish(Kind.CARPET, dyed(rng)), cloth(rng, dyed(rng)), Finish(Kind.ARTWORK, dyed(rng), dyed(rng), key=0.9))
    )
    plan.shapes.append(block((-half_x, half_x), (0, 0.012), (-half_z, half_z), finish))


def _tint(cold: float) -> Colour:
    """Colour of a light; warm below 0."""
    return math.exp(-0.16 * cold), 1.0, math.exp(0.22 * cold)


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]

"""What surfaces are made of, and the colours they are drawn from."""

import colorsys
import random
from dataclasses import dataclass
from enum import IntEnum

from libranet.scenes.solids import Colour

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
    PICTURE = 10
    FOLDS = 11
    SLATS = 12
    OUTDOORS = 13
    LEAF = 14


@dataclass(frozen=True)
class Finish:
    """A pattern in two colours."""

    kind: Kind
    colour: Colour
    """Albedo, linear."""
    second: Colour = WHITE
    scale: float = 0.1
    """Metres of one stripe, tile, plank or brick."""
    key: float = 0.0
    """A number in [0, 1) from which details are drawn."""
    gloss: float = 0.0
    """Share of light that is mirrored, 0 to 1."""
    glow: float = 0.0
    """Light of its own, in units of what leaves a lit white wall."""


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
    """What sofas, carpets and coats are dyed in."""
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

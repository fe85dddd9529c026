"""Windows, doors, lamps and skirting: what belongs to the building. Wall parts stand at z = 0 and look along +z."""

import random

from libranet.scenes.rooms.finishes import WHITE, Finish, Kind, cabinet, from_hsv, mixed, paint, pale, vivid, wood
from libranet.scenes.rooms.shapes import Form, Shape, block

METAL = paint((0.4, 0.4, 0.41), gloss=0.1)


def window(rng: random.Random, width: float, low: float, high: float) -> list[Shape]:
    """A bright pane behind bars, with blinds or curtains or neither."""
    half, frame = width / 2, paint(WHITE) if rng.random() < 0.75 else wood(rng)
    sky = from_hsv(rng.choice((0.58, 0.12)), rng.uniform(0.0, 0.25), 1.0)
    green = from_hsv(rng.choice((0.25, 0.3, 0.08)), rng.uniform(0.1, 0.5), rng.uniform(0.3, 0.7))
    view = Finish(Kind.OUTDOORS, sky, green, key=rng.random(), glow=rng.uniform(0.9, 1.7))
    out = [block((-half, half), (low, high), (0, 0.012), view)]
    bars = [-half, half - 0.06] + ([-0.025] if width > 0.9 else [])
    out += [block((x, x + 0.06), (low, high), (0, 0.05), frame) for x in bars]
    out += [block((-half, half), (y, y + 0.06), (0, 0.05), frame) for y in (low, high - 0.06)]
    if rng.random() < 0.5:
        middle = low + 0.65 * (high - low)
        out.append(block((-half, half), (middle, middle + 0.04), (0, 0.045), frame))
    out.append(block((-half - 0.06, half + 0.06), (low - 0.04, low), (0, 0.16), frame))
    dress = rng.random()
    if dress < 0.25:
        end = low + rng.choice((0.0, 0.0, 0.4, 0.7)) * (high - low)
        slats = Finish(Kind.SLATS, pale(rng), (0.9, 0.9, 0.9), rng.uniform(0.03, 0.06), glow=0.45)
        out.append(block((-half, half), (end, high), (0.055, 0.06), slats))
    elif dress < 0.65:
        colour = rng.choice((pale, pale, mixed, vivid))(rng)
        folds = Finish(Kind.FOLDS, colour, scale=rng.uniform(0.08, 0.16), key=rng.random(), glow=0.12)
        reach, end = rng.uniform(0.2, 0.7) * half, rng.choice((0.02, max(low - 0.15, 0.02)))
        for x0, x1 in ((-half - 0.25, -half + reach), (half - reach, half + 0.25)):
            out.append(block((x0, x1), (end, high + 0.12), (0.1, 0.17), folds))
        out.append(block((-half - 0.35, half + 0.35), (high + 0.12, high + 0.15), (0.1, 0.17), METAL))
    if low > 0.7 and rng.random() < 0.5:
        out += radiator(min(half, 0.8))
    return [_without_shadow(shape) for shape in out]


def radiator(half: float) -> list[Shape]:
    ribs = Finish(Kind.STRIPES, WHITE, (0.35, 0.35, 0.35), 0.02)
    return [
        block((-half, half), (0.15, 0.7), (0.04, 0.12), ribs),
        block((-half, half), (0.7, 0.72), (0.03, 0.13), paint(WHITE)),
    ]


def door(rng: random.Random) -> list[Shape]:
    """0.9 m wide, 2 m tall, with frame, panels and handle."""
    leaf = paint(pale(rng)) if rng.random() < 0.5 else cabinet(rng)
    frame = paint(WHITE) if rng.random() < 0.6 else wood(rng)
    out = [block((-0.45, 0.45), (0, 2.0), (0, 0.02), leaf)]
    out += [block((x, x + 0.07), (0, 2.07), (0, 0.04), frame) for x in (-0.52, 0.45)]
    out.append(block((-0.52, 0.52), (2.0, 2.07), (0, 0.041), frame))
    if rng.random() < 0.5:
        out += [block((-0.32, 0.32), bounds, (0.02, 0.03), leaf) for bounds in ((0.2, 0.85), (1.05, 1.8))]
    elif rng.random() < 0.3:
        glass = Finish(Kind.OUTDOORS, pale(rng), pale(rng), glow=0.5)
        out.append(block((-0.25, 0.25), (1.0, 1.8), (0.02, 0.022), glass))
    out.append(block((0.28, 0.4), (1.0, 1.03), (0.03, 0.07), METAL))
    return out


def skirting(half: float, finish: Finish, height: float) -> Shape:
    return block((-half, half), (0, height), (0, 0.018), finish)


def ceiling_panel(half_x: float, half_z: float) -> list[Shape]:
    """A flat lamp under a ceiling at y = 0."""
    glow = Finish(Kind.PAINT, (0.9, 0.9, 0.88), glow=1.6)
    rim = paint(WHITE)
    return [
        _without_shadow(block((-half_x - 0.02, half_x + 0.02), (-0.012, 0), (-half_z - 0.02, half_z + 0.02), rim)),
        _without_shadow(block((-half_x, half_x), (-0.02, -0.01), (-half_z, half_z), glow)),
    ]


def pendant(rng: random.Random, drop: float) -> list[Shape]:
    """A shade on a cord, or a dome where `drop` is small, under a ceiling at y = 0."""
    shade = Finish(Kind.PAINT, rng.choice(((0.9, 0.85, 0.75), (0.9, 0.9, 0.9), vivid(rng))), glow=rng.uniform(0.5, 1.3))
    if drop < 0.2:
        dome = Shape((0, 0, 0), (0.22, 0.12, 0.22), shade, form=Form.BALL, casts=False)
        return [dome]
    form, r = rng.choice((Form.BALL, Form.DRUM)), rng.uniform(0.12, 0.28)
    cord = Shape((0, -drop / 2, 0), (0.008, drop / 2, 0.008), paint((0.02, 0.02, 0.02)), form=Form.DRUM, casts=False)
    return [cord, Shape((0, -drop, 0), (r, 0.7 * r, r), shade, form=form, casts=False)]


def _without_shadow(shape: Shape) -> Shape:
    """Light comes from or passes through these."""
    return Shape(shape.centre, shape.half, shape.finish, shape.yaw, shape.form, casts=False)

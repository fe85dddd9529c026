"""Furniture, and what belongs to the building: windows, doors, lamps, skirting.

Furniture stands on y = 0 with its back at z = 0; x runs along the wall. Parts of a wall look along +z.
"""

import random
from dataclasses import dataclass

from rooms.clutter import books, cushion, figure, monitor, plant, things
from rooms.shapes import (
    BLACK,
    WHITE,
    Finish,
    Form,
    Kind,
    Shape,
    block,
    cabinet,
    cloth,
    dark,
    dyed,
    from_hsv,
    mixed,
    moved,
    paint,
    pale,
    vivid,
    wood,
)

_METAL = paint((0.35, 0.35, 0.36), gloss=0.1)
_FITTING = paint((0.4, 0.4, 0.41), gloss=0.1)


@dataclass(frozen=True)
class Item:
    """A piece of furniture with what lies on it."""

    shapes: list[Shape]
    width: float
    depth: float
    height: float


def bookcase(rng: random.Random) -> Item:
    """Boards between two sides, filled with books and boxes."""
    body, back = cabinet(rng), cabinet(rng)
    width, depth, height = rng.uniform(0.6, 1.8), rng.uniform(0.25, 0.38), rng.choice((0.9, 1.4, 1.9, 2.1))
    half, thick = width / 2, 0.025
    out = [block((-half, half), (0, height), (0, 0.01), back)]
    out += [block((x, x + thick), (0, height), (0, depth), body) for x in (-half, half - thick)]
    rows = round(height / rng.uniform(0.3, 0.4))
    gap = (height - thick) / rows
    for row in range(rows + 1):
        y = row * gap
        out.append(block((-half, half), (y, y + thick), (0, depth), body))
        if row < rows and rng.random() < 0.88:
            fill = books if rng.random() < 0.7 else things
            out += moved(fill(rng, width - 0.08, depth - 0.06, gap - thick - 0.03), 0, y + thick, 0.02)
    if height < 1.5:
        out += moved(things(rng, width - 0.1, depth - 0.05, 0.35), 0, height, 0.02)
    return Item(out, width, depth, height)


def cupboard(rng: random.Random) -> Item:
    """Doors or drawers with handles."""
    body = cabinet(rng)
    width, depth, height = rng.uniform(0.5, 1.8), rng.uniform(0.4, 0.6), rng.choice((0.5, 0.8, 0.9, 1.9, 2.1))
    half, doors = width / 2, max(1, round(width / 0.5))
    lines = rng.choice((1, 2, 3)) if height < 1.5 else 1
    out = [
        block((-half, half), (0.06, height), (0, depth), body),
        block((-half, half), (0, 0.06), (0, depth), paint(BLACK)),
    ]
    front = body if rng.random() < 0.7 else cabinet(rng)
    for i in range(doors):
        for j in range(lines):
            x0, y0 = -half + i * width / doors, 0.07 + j * (height - 0.08) / lines
            x1, y1 = x0 + width / doors, y0 + (height - 0.08) / lines
            out.append(block((x0 + 0.005, x1 - 0.005), (y0 + 0.004, y1 - 0.004), (depth, depth + 0.02), front))
            grip = (y1 - 0.08, y1 - 0.06) if lines > 1 else (y0 + 0.5 * (y1 - y0), y0 + 0.5 * (y1 - y0) + 0.12)
            out.append(block((x1 - 0.12, x1 - 0.06), grip, (depth + 0.02, depth + 0.04), _METAL))
    if height < 1.5:
        out += moved(things(rng, width - 0.1, depth - 0.1, 0.5), 0, height, 0.05)
    return Item(out, width, depth + 0.04, height)


def table(rng: random.Random, *, laden: bool = True) -> Item:
    """A board on four legs."""
    board = wood(rng) if rng.random() < 0.6 else paint(rng.choice((pale, pale, dark))(rng), gloss=0.05)
    legs = rng.choice((board, _METAL, paint(BLACK)))
    width, depth, height = rng.uniform(0.8, 1.9), rng.uniform(0.6, 0.95), rng.uniform(0.7, 0.76)
    half, thin = width / 2, rng.uniform(0.02, 0.04)
    out = [block((-half, half), (height - 0.035, height), (0, depth), board)]
    out += [
        block((x - thin, x + thin), (0, height - 0.035), (z - thin, z + thin), legs)
        for x in (-half + 0.07, half - 0.07)
        for z in (0.07, depth - 0.07)
    ]
    if laden:
        out += moved(things(rng, width - 0.2, depth - 0.15, 0.4), 0, height, 0.07)
    return Item(out, width, depth, height)


def desk(rng: random.Random) -> Item:
    """A table with one or two monitors, and a chair before it."""
    base = table(rng, laden=False)
    out, top = list(base.shapes), base.height
    for place in rng.choice(((0.0,), (-0.32, 0.32), (0.2,))):
        out += moved(monitor(rng), place, top, 0.18, rng.uniform(-0.2, 0.2))
    out.append(block((-0.22, 0.22), (top, top + 0.02), (0.4, 0.53), paint(rng.choice((BLACK, pale(rng))))))
    out += moved(things(rng, base.width - 0.2, 0.15, 0.25), 0, top, base.depth - 0.2)
    if rng.random() < 0.85:
        seat = chair(rng)
        out += moved(
            seat.shapes, rng.uniform(-0.2, 0.2), 0, base.depth + rng.uniform(0.5, 0.7), 3.14 + rng.gauss(0, 0.4)
        )
    return Item(out, base.width, base.depth + 0.6, base.height)


def chair(rng: random.Random) -> Item:
    """A seat with a back; on four legs or on a foot with wheels."""
    seat = cloth(rng, mixed(rng)) if rng.random() < 0.5 else wood(rng)
    half, level = rng.uniform(0.2, 0.24), 0.45
    out = [block((-half, half), (level - 0.05, level), (0, 2 * half), seat)]
    if rng.random() < 0.4:
        foot = rng.choice((_METAL, paint(BLACK)))
        out.append(Shape((0, 0.22, half), (0.03, 0.2, 0.03), foot, form=Form.DRUM))
        out.append(Shape((0, 0.06, half), (0.28, 0.02, 0.28), foot, form=Form.DRUM))
        out.append(block((-half, half), (level + 0.12, 0.98), (0, 0.06), seat))
        out.append(block((-0.04, 0.04), (level - 0.05, 0.8), (-0.025, 0.0), foot))
    else:
        legs = wood(rng) if rng.random() < 0.6 else _METAL
        for x in (-half + 0.02, half - 0.02):
            out.append(block((x - 0.018, x + 0.018), (0, 0.9), (0, 0.036), legs))
            out.append(block((x - 0.018, x + 0.018), (0, level - 0.05), (2 * half - 0.036, 2 * half), legs))
        out += [block((-half, half), (y, y + 0.09), (0.0, 0.03), seat) for y in (0.6, 0.78)]
    return Item(out, 2 * half, 2 * half, 0.95)


def dining(rng: random.Random) -> Item:
    """A table with chairs around it."""
    base = table(rng)
    out, places = list(base.shapes), max(1, int(base.width / 0.65))
    seat = chair(rng)
    for side in (0, 1):
        for i in range(places):
            x = (i + 0.5) * base.width / places - base.width / 2 + rng.gauss(0, 0.05)
            yaw = (0.0 if side == 0 else 3.14159) + rng.gauss(0, 0.2)
            z = -rng.uniform(0.15, 0.4) if side == 0 else base.depth + rng.uniform(0.15, 0.4)
            if rng.random() < 0.85:
                out += moved(seat.shapes, x, 0, z, yaw)
    return Item(moved(out, 0, 0, 0.45), base.width, base.depth + 0.9, 0.95)


def sofa(rng: random.Random) -> Item:
    """Seats between arms, with cushions."""
    stuff = cloth(rng)
    width, depth, seat = rng.choice((0.9, 1.6, 2.0, 2.3)), rng.uniform(0.8, 0.95), rng.uniform(0.38, 0.45)
    half, arm, back = width / 2, rng.uniform(0.12, 0.22), rng.uniform(0.7, 0.9)
    out = [block((-half, half), (0.08, seat - 0.12), (0, depth), stuff)]
    out += [block((x, x + arm), (0.08, seat + 0.18), (0, depth), stuff) for x in (-half, half - arm)]
    out.append(block((-half, half), (0.08, back), (0, 0.22), stuff))
    seats = max(1, round((width - 2 * arm) / 0.65))
    step = (width - 2 * arm) / seats
    for i in range(seats):
        x = -half + arm + i * step
        out.append(block((x + 0.008, x + step - 0.008), (seat - 0.12, seat + 0.02), (0.2, depth + 0.02), stuff))
        out.append(block((x + 0.012, x + step - 0.012), (seat + 0.02, back + 0.04), (0.18, 0.36), stuff))
        if rng.random() < 0.5:
            out += moved(cushion(rng), x + step / 2 + rng.uniform(-0.1, 0.1), seat + 0.02, 0.45, rng.gauss(0, 0.4))
    return Item(out, width, depth + 0.02, back)


def bed(rng: random.Random) -> Item:
    """Frame, mattress, blanket, pillows."""
    width, depth, frame = rng.choice((0.9, 1.4, 1.6)), 2.05, cabinet(rng)
    half = width / 2
    sheet, blanket = paint(pale(rng)), cloth(rng, dyed(rng))
    out = [
        block((-half - 0.04, half + 0.04), (0, rng.uniform(0.7, 1.1)), (0, 0.06), frame),
        block((-half - 0.04, half + 0.04), (0.12, 0.32), (0.05, depth), frame),
        block((-half, half), (0.32, 0.52), (0.06, depth - 0.02), sheet),
        block((-half - 0.02, half + 0.02), (0.28, 0.57), (rng.uniform(0.6, 1.1), depth - 0.005), blanket),
    ]
    pillows = (0.0,) if width < 1 else (-half / 2, half / 2)
    out += [Shape((x, 0.6, 0.33), (0.32, 0.1, 0.2), paint(pale(rng)), form=Form.BALL) for x in pillows]
    return Item(out, width + 0.1, depth, 0.9)


def kitchen(rng: random.Random) -> Item:
    """Cupboards under a worktop with things on it, and cupboards above."""
    front, top = cabinet(rng), rng.choice((wood(rng), paint(dark(rng), gloss=0.1), paint(pale(rng), gloss=0.05)))
    units = rng.randint(3, 6)
    width = 0.6 * units
    half = width / 2
    out = [
        block((-half, half), (0.1, 0.86), (0, 0.58), front),
        block((-half, half), (0, 0.1), (0, 0.52), paint(BLACK)),
        block((-half - 0.01, half + 0.01), (0.86, 0.9), (0, 0.62), top),
    ]
    oven = rng.randrange(units)
    for i in range(units):
        x = -half + 0.6 * i
        face = paint(BLACK, gloss=0.12) if i == oven else front
        out.append(block((x + 0.004, x + 0.596), (0.11, 0.85), (0.58, 0.6), face))
        out.append(block((x + 0.15, x + 0.45), (0.78, 0.795), (0.6, 0.63), _METAL))
        if rng.random() < 0.8:
            out.append(block((x + 0.004, x + 0.596), (1.45, 2.1), (0, 0.35), front))
            out.append(block((x + 0.5, x + 0.52), (1.5, 1.65), (0.35, 0.37), _METAL))
    out += moved(things(rng, width - 0.2, 0.4, 0.4), 0, 0.9, 0.1)
    return Item(out, width, 0.64, 2.1)


def potted_plant(rng: random.Random) -> Item:
    size = rng.uniform(0.5, 1.0)
    return Item(moved(plant(rng, size), 0, 0, 0.35), 0.7, 0.7, 1.9 * size)


def whiteboard_stand(rng: random.Random) -> Item:
    """A board, white or full of colour, on two posts."""
    face = rng.choice((paint((0.85, 0.85, 0.85), gloss=0.05), cloth(rng, dyed(rng))))
    width = rng.uniform(1.0, 1.8)
    half = width / 2
    out = [block((x - 0.02, x + 0.02), (0, 1.9), (0.1, 0.14), _METAL) for x in (-half, half)]
    out += [block((x - 0.02, x + 0.02), (0, 0.04), (-0.1, 0.4), _METAL) for x in (-half, half)]
    out.append(block((-half, half), (0.8, 1.85), (0.14, 0.16), face))
    return Item(out, width, 0.4, 1.9)


def low_table(rng: random.Random) -> Item:
    base = table(rng)
    return Item(moved(base.shapes, 0, -0.3, 0), base.width, base.depth, 0.45)


def toys(rng: random.Random) -> Item:
    """Small things on the floor."""
    return Item(moved(things(rng, 1.4, 1.0, 0.45), 0, 0, 0.1), 1.4, 1.2, 0.5)


def mannequin(rng: random.Random) -> Item:
    size = rng.uniform(1.55, 1.85)
    return Item(moved(figure(rng, size), 0, 0, 0.3), 0.6, 0.6, size)


def column(rng: random.Random) -> Item:
    r = rng.uniform(0.15, 0.3)
    return Item([block((-r, r), (0, 5), (0, 2 * r), paint(pale(rng)))], 2 * r, 2 * r, 5)


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
        out.append(block((-half - 0.35, half + 0.35), (high + 0.12, high + 0.15), (0.1, 0.17), _FITTING))
    if low > 0.7 and rng.random() < 0.5:
        out += radiator(min(half, 0.8))
    return [shape.without_shadow() for shape in out]


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
    out.append(block((0.28, 0.4), (1.0, 1.03), (0.03, 0.07), _FITTING))
    return out


def skirting(half: float, finish: Finish, height: float) -> Shape:
    return block((-half, half), (0, height), (0, 0.018), finish)


def ceiling_panel(half_x: float, half_z: float) -> list[Shape]:
    """A flat lamp under a ceiling at y = 0."""
    glow = Finish(Kind.PAINT, (0.9, 0.9, 0.88), glow=1.6)
    rim = paint(WHITE)
    return [
        block((-half_x - 0.02, half_x + 0.02), (-0.012, 0), (-half_z - 0.02, half_z + 0.02), rim).without_shadow(),
        block((-half_x, half_x), (-0.02, -0.01), (-half_z, half_z), glow).without_shadow(),
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

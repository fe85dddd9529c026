"""Small things that fill rooms: books, toys, charts, screens, plants, figures, framed artwork."""

import math
import random

from rooms.shapes import (
    BLACK,
    WHITE,
    Finish,
    Form,
    Kind,
    Shape,
    block,
    cloth,
    dark,
    dyed,
    from_hsv,
    mixed,
    moved,
    muted,
    paint,
    pale,
    vivid,
    wood,
)


def books(rng: random.Random, width: float, depth: float, height: float) -> list[Shape]:
    """A row of books from the left, some lying, with gaps."""
    out: list[Shape] = []
    x, end = -width / 2, width / 2 * rng.choice((1.0, 1.0, 0.5))
    while x < end - 0.06:
        thick, tall = rng.uniform(0.015, 0.055), height * rng.uniform(0.65, 0.98)
        if rng.random() < 0.05:
            x += rng.uniform(0.04, 0.15)
            continue
        deep = depth * rng.uniform(0.65, 0.95)
        out.append(block((x, x + thick), (0, tall), (0, deep), paint(mixed(rng), gloss=0.02)).without_shadow())
        if rng.random() < 0.4:
            label = tall * rng.uniform(0.5, 0.8)
            out.append(
                block((x, x + thick), (label, label + 0.03), (deep, deep + 0.002), paint(rng.choice((WHITE, BLACK))))
            )
        x += thick + 0.002
    return out


def things(rng: random.Random, width: float, depth: float, height: float) -> list[Shape]:
    """Toys, cups, boxes, charts and screens side by side."""
    out: list[Shape] = []
    x = -width / 2 + rng.uniform(0, 0.15)
    makers = (toy_box, ball, pot, tower, chart, stack, figure, small_plant)
    while x < width / 2 - 0.1:
        size = min(height, rng.uniform(0.08, 0.3))
        maker = rng.choices(makers, weights=(5, 4, 4, 2, 1.5, 3, 1.5, 1.5))[0]
        z = rng.uniform(0.3, 0.8) * depth
        made = maker(rng, size)
        made = made if size > 0.12 else [shape.without_shadow() for shape in made]
        out += moved(made, x + size / 2, 0, z, rng.gauss(0, 0.4) if depth > 0.4 else 0.0)
        x += size + rng.uniform(0.02, 0.35)
    return out


def toy_box(rng: random.Random, size: float) -> list[Shape]:
    half, tall, deep = size * rng.uniform(0.25, 0.5), size * rng.uniform(0.3, 1.0), size * rng.uniform(0.2, 0.45)
    finish = rng.choice(
        (
            paint(vivid(rng), gloss=0.04),
            paint(mixed(rng)),
            Finish(Kind.CHECKER, vivid(rng), mixed(rng), size / rng.randint(3, 6), rng.random()),
            Finish(Kind.STRIPES, vivid(rng), mixed(rng), size / rng.randint(5, 9), rng.random()),
            Finish(Kind.ARTWORK, vivid(rng), mixed(rng), key=rng.random()),
        )
    )
    return [block((-half, half), (0, tall), (-deep, deep), finish)]


def ball(rng: random.Random, size: float) -> list[Shape]:
    r = 0.4 * size
    finish = paint(vivid(rng), gloss=0.1) if rng.random() < 0.7 else Finish(Kind.STRIPES, vivid(rng), mixed(rng), r / 3)
    return [Shape((0, r, 0), (r, r, r), finish, form=Form.BALL)]


def pot(rng: random.Random, size: float) -> list[Shape]:
    """A cup, vase, tin or bottle."""
    r, tall, finish = size * rng.uniform(0.15, 0.35), size * rng.uniform(0.5, 1.0), paint(mixed(rng), gloss=0.08)
    out = [Shape((0, tall / 2, 0), (r, tall / 2, r), finish, form=Form.DRUM)]
    if rng.random() < 0.4:
        out.append(Shape((0, tall * 1.15, 0), (r * 0.4, tall * 0.2, r * 0.4), paint(mixed(rng)), form=Form.DRUM))
    elif rng.random() < 0.4:
        out.append(Shape((0, tall * 0.5, 0), (r * 1.01, tall * 0.2, r * 1.01), paint(mixed(rng)), form=Form.DRUM))
    return out


def tower(rng: random.Random, size: float) -> list[Shape]:
    """Building blocks on each other."""
    out, y, half = [], 0.0, 0.35 * size
    while y < 1.3 * size:
        tall = size * rng.uniform(0.15, 0.35)
        part = block((-half, half), (y, y + tall), (-half, half), paint(vivid(rng), gloss=0.05))
        out += moved([part], 0, 0, 0, rng.uniform(-0.5, 0.5))
        y, half = y + tall, half * rng.uniform(0.7, 1.0)
    return out


def stack(rng: random.Random, size: float) -> list[Shape]:
    """Books or papers that lie."""
    out, y = [], 0.0
    for _ in range(rng.randint(1, 5)):
        tall, half = rng.uniform(0.01, 0.04), size * rng.uniform(0.35, 0.5)
        part = block((-half, half), (y, y + tall), (-0.7 * half, 0.7 * half), paint(mixed(rng)))
        out += moved([part], 0, 0, 0, rng.gauss(0, 0.15))
        y += tall
    return out


def chart(rng: random.Random, size: float) -> list[Shape]:
    """A colour chart or a checkerboard that stands."""
    size = max(size, 0.15)
    checker = Finish(Kind.CHECKER, (0.75, 0.75, 0.75), BLACK, size / 6)
    finish = Finish(Kind.CHART, WHITE, key=rng.random()) if rng.random() < 0.65 else checker
    return [block((-0.6 * size, 0.6 * size), (0, 0.8 * size), (-0.006, 0.006), finish)]


def small_plant(rng: random.Random, size: float) -> list[Shape]:
    return plant(rng, 0.35 * size + 0.1)


def figure(rng: random.Random, size: float) -> list[Shape]:
    """A doll or, 1.7 m tall, a mannequin: legs, coat, arms, head, hat."""
    s, skin = size, paint(from_hsv(rng.uniform(0.04, 0.09), rng.uniform(0.2, 0.6), rng.uniform(0.4, 0.95)))
    coat, legs = cloth(rng, dyed(rng)), paint(rng.choice((dark, muted))(rng))
    drum, ball_ = Form.DRUM, Form.BALL
    out = [Shape((x, 0.23 * s, 0), (0.045 * s, 0.23 * s, 0.05 * s), legs, form=drum) for x in (-0.055 * s, 0.055 * s)]
    out.append(Shape((0, 0.62 * s, 0), (0.12 * s, 0.2 * s, 0.075 * s), coat, form=drum))
    out.append(Shape((0, 0.8 * s, 0), (0.125 * s, 0.05 * s, 0.08 * s), coat, form=ball_))
    arms = (-0.155 * s, 0.155 * s)
    out += [Shape((x, 0.62 * s, 0), (0.035 * s, 0.2 * s, 0.04 * s), coat, form=ball_) for x in arms]
    out += [Shape((x, 0.42 * s, 0.01), (0.028 * s, 0.05 * s, 0.028 * s), skin, form=ball_) for x in arms]
    out.append(Shape((0, 0.86 * s, 0), (0.035 * s, 0.04 * s, 0.035 * s), skin, form=drum))
    out.append(Shape((0, 0.935 * s, 0), (0.055 * s, 0.07 * s, 0.06 * s), skin, form=ball_))
    hair = paint(rng.choice((BLACK, dark(rng), vivid(rng))))
    out.append(Shape((0, 0.965 * s, -0.012 * s), (0.06 * s, 0.055 * s, 0.06 * s), hair, form=ball_))
    return out


def plant(rng: random.Random, size: float) -> list[Shape]:
    """Leaves in clusters over a pot; `size` is about half the height in metres."""
    r, tall = 0.28 * size, 0.5 * size
    jar = rng.choice((pale, vivid, muted, dark))(rng)
    out = [Shape((0, tall / 2, 0), (r, tall / 2, r), paint(jar), form=Form.DRUM)]
    stem = 0.6 * size
    out.append(
        Shape((0, tall + stem / 2, 0), (0.03 * size, stem / 2, 0.03 * size), wood(rng), form=Form.DRUM, casts=False)
    )
    hue, value = rng.uniform(0.2, 0.38), rng.uniform(0.3, 0.65)
    leaf = Finish(Kind.LEAF, from_hsv(hue, 0.75, value), from_hsv(hue + 0.03, 0.8, 0.5 * value), key=rng.random())
    broad, reach = rng.uniform(0.6, 1.6), rng.uniform(0.25, 0.45)
    for i in range(rng.randint(60, 100)):
        angle, up = rng.uniform(0, 2 * math.pi), rng.betavariate(2.0, 1.6)
        far = size * reach * (0.15 + rng.random() * math.sin(math.pi * (0.12 + 0.8 * up)))
        at = (far * math.sin(angle), tall + size * (0.1 + 1.2 * up), far * math.cos(angle))
        half = (size * rng.uniform(0.02, 0.05) * broad, size * rng.uniform(0.02, 0.08), size * rng.uniform(0.05, 0.11))
        shape = Shape(at, half, leaf, yaw=angle + rng.gauss(0, 0.4), form=Form.BALL)
        out.append(shape if i % 5 == 0 and size > 0.3 else shape.without_shadow())
    return out


def wall_shelf(rng: random.Random, width: float) -> list[Shape]:
    """A board with books or things, on a wall at z = 0."""
    fill = books(rng, width - 0.05, 0.2, 0.28) if rng.random() < 0.5 else things(rng, width - 0.1, 0.2, 0.28)
    return [block((-width / 2, width / 2), (-0.025, 0), (0, 0.22), wood(rng)), *fill]


def clock(rng: random.Random) -> list[Shape]:
    """A pale disc with a dark rim, as a ball so flat that it lies on the wall."""
    r, rim, face = rng.uniform(0.12, 0.2), paint(mixed(rng)), paint((0.8, 0.8, 0.78))
    hands = [
        block((-0.006, 0.006), (0, 0.7 * r), (0.026, 0.03), paint(BLACK)),
        block((0, 0.5 * r), (-0.006, 0.006), (0.026, 0.03), paint(BLACK)),
    ]
    return [
        Shape((0, 0, 0), (r, r, 0.018), rim, form=Form.BALL),
        Shape((0, 0, 0.01), (0.88 * r, 0.88 * r, 0.016), face, form=Form.BALL),
        *hands,
    ]


def cushion(rng: random.Random) -> list[Shape]:
    return [Shape((0, 0.19, 0), (0.22, 0.2, 0.09), cloth(rng, mixed(rng)), form=Form.BALL)]


def monitor(rng: random.Random) -> list[Shape]:
    """A screen, mostly dark, on a foot."""
    half, black = rng.uniform(0.24, 0.34), paint(BLACK, gloss=0.12)
    low, high = 0.1, 0.1 + 1.15 * half
    lit = Finish(Kind.ARTWORK, muted(rng), mixed(rng), key=0.1 * rng.randint(0, 9) + 0.08, glow=0.35)
    screen = lit if rng.random() < 0.15 else paint((0.006, 0.006, 0.008), gloss=0.2)
    return [
        block((-half, half), (low, high), (-0.02, 0.0), black),
        block((-half + 0.012, half - 0.012), (low + 0.012, high - 0.012), (0.0, 0.004), screen),
        block((-0.03, 0.03), (0, low + 0.1), (-0.05, -0.02), black),
        block((-0.12, 0.12), (0, 0.012), (-0.1, 0.08), black),
    ]


def framed_artwork(rng: random.Random, width: float, height: float) -> list[Shape]:
    """Hangs on a wall at z = 0, centred on the origin."""
    x, y = width / 2, height / 2
    frame = rng.choice((wood(rng), paint(BLACK), paint(WHITE), paint(dyed(rng))))
    motif = Finish(Kind.ARTWORK, mixed(rng), mixed(rng), key=rng.random(), gloss=0.02)
    return [
        block((-x - 0.025, x + 0.025), (-y - 0.025, y + 0.025), (0, 0.02), frame),
        block((-x, x), (-y, y), (0.02, 0.024), motif),
    ]

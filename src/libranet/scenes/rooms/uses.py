"""What rooms are for: how large they are and which furniture stands in them."""

import random
from dataclasses import dataclass

from libranet.scenes.rooms import furniture
from libranet.scenes.rooms.clutter import figure, things
from libranet.scenes.rooms.finishes import paint, pale
from libranet.scenes.rooms.furniture import Item
from libranet.scenes.rooms.shapes import block, moved


@dataclass(frozen=True)
class Use:
    """What a room is for: its size in metres and what stands in it."""

    width: tuple[float, float]
    depth: tuple[float, float]
    height: tuple[float, float]
    along_walls: tuple[str, ...]
    free: tuple[str, ...]
    pieces: tuple[int, int]
    """Fewest and most pieces along the walls."""
    panels: float
    """Chance of flat lamps in rows rather than one hanging lamp."""


USES = {
    "living": Use(
        (3.6, 6),
        (4, 7),
        (2.4, 2.9),
        ("sofa", "bookcase", "cupboard", "sofa", "bookcase", "plant", "desk", "table"),
        ("low", "dining", "toys", "low", "chair"),
        (6, 11),
        0.15,
    ),
    "bedroom": Use(
        (3, 4.5),
        (3.2, 5),
        (2.4, 2.7),
        ("bed", "bed", "cupboard", "bookcase", "desk", "table", "plant"),
        ("toys", "chair"),
        (4, 8),
        0.15,
    ),
    "office": Use(
        (4, 9),
        (5, 10),
        (2.5, 3.2),
        ("desk", "desk", "desk", "bookcase", "bookcase", "cupboard", "plant"),
        ("desk", "board", "dining", "figure", "desk"),
        (6, 13),
        0.9,
    ),
    "kitchen": Use(
        (3, 5),
        (3.5, 6),
        (2.4, 2.8),
        ("kitchen", "kitchen", "cupboard", "plant", "table", "bookcase"),
        ("dining", "toys"),
        (3, 6),
        0.3,
    ),
    "studio": Use(
        (3.5, 7),
        (4, 8),
        (2.5, 3.5),
        ("table", "bookcase", "cupboard", "plant"),
        ("table", "figure", "figure", "toys", "board", "chair", "low"),
        (3, 9),
        0.5,
    ),
    "corridor": Use((1.6, 2.6), (7, 13), (2.3, 2.8), ("cupboard", "plant", "bookcase"), ("chair", "toys"), (2, 6), 0.6),
    "hall": Use(
        (7, 12),
        (8, 15),
        (3, 4.5),
        ("bookcase", "plant", "table", "sofa", "cupboard"),
        ("column", "column", "dining", "figure", "board", "table", "toys"),
        (6, 14),
        0.8,
    ),
}


def piece(rng: random.Random, name: str) -> Item:
    """One piece of furniture by its name in `USES`."""
    if name == "figure":
        size = rng.uniform(1.55, 1.85)
        return Item(moved(figure(rng, size), 0, 0, 0.3), 0.6, 0.6, size)
    if name == "toys":
        return Item(moved(things(rng, 1.4, 1.0, 0.45), 0, 0, 0.1), 1.4, 1.2, 0.5)
    if name == "column":
        r = rng.uniform(0.15, 0.3)
        return Item([block((-r, r), (0, 5), (0, 2 * r), paint(pale(rng)))], 2 * r, 2 * r, 5)
    if name == "low":
        base = furniture.table(rng)
        return Item(moved(base.shapes, 0, -0.3, 0), base.width, base.depth, 0.45)
    makers = {
        "sofa": furniture.sofa,
        "bookcase": furniture.bookcase,
        "cupboard": furniture.cupboard,
        "plant": furniture.potted_plant,
        "desk": furniture.desk,
        "dining": furniture.dining,
        "bed": furniture.bed,
        "kitchen": furniture.kitchen,
        "table": furniture.table,
        "chair": furniture.chair,
        "board": furniture.whiteboard_stand,
    }
    return makers[name](rng)

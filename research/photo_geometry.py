"""Reads research/photo-geometry.txt: the scene geometry of the photos, one line each; that file explains the format."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

FOLDERS = ("train_4k", "train_2k", "train_urban", "train_any", "train_more", "val_4k", "val_more")


class PhotoGeometryError(Exception):
    """A mistake in the geometry file or the photos; the message is one sentence."""


@dataclass(frozen=True)
class Outline:
    """A foreground object: its polygon and the place it has in depth."""

    points: Array  # [N, 2], x and y in per cent
    place: float
    """The row of its ground contact, in per cent, when it stands on the ground; its depth, 0 to 1, otherwise."""
    stands: bool


@dataclass(frozen=True)
class Scene:
    """The geometry of one photo; rows and points in per cent (research/photo-geometry.txt explains the fields)."""

    grade: str
    horizon: float
    near: float = 0.0
    has_sky: bool = True
    skylimit: float | None = None
    contact: Array | None = None  # [N, 2]
    far: Array | None = None  # [N, 2]
    skyline: Array | None = None  # [N, 2]
    seed: int = 0
    objects: tuple[Outline, ...] = ()


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"expected a number, got '{text}'") from None


def depth_value(text: str) -> float:
    value = number(text)
    if not 0 <= value <= 1:
        raise ValueError(f"expected a depth from 0 to 1, got '{text}'")
    return value


def parse_points(text: str, *, at_least: int) -> Array:
    """`x,y;x,y;...` as an array [N, 2]."""
    pairs = [point.split(",") for point in text.split(";")]
    if len(pairs) < at_least or any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"expected at least {at_least} points x,y;x,y, got '{text}'")
    return np.array([[number(x), number(y)] for x, y in pairs])


def parse_line(text: str) -> Array:
    """A line across the photo: points [N, 2] whose x grows."""
    points = parse_points(text, at_least=2)
    if (np.diff(points[:, 0]) <= 0).any():
        raise ValueError(f"expected x to grow from point to point, got '{text}'")
    return points


def parse_object(text: str) -> Outline:
    """`rowROW:points` or `depthDEPTH:points`."""
    where, _, points = text.partition(":")
    outline = parse_points(points, at_least=3)
    if where.startswith("row"):
        return Outline(outline, place=number(where.removeprefix("row")), stands=True)
    if where.startswith("depth"):
        return Outline(outline, place=depth_value(where.removeprefix("depth")), stands=False)
    raise ValueError(f"an object starts with rowROW: or depthDEPTH:, got '{where}'")


def parse_no(text: str) -> bool:
    if text != "no":
        raise ValueError(f"sky can only be 'no', got '{text}'")
    return False


def parse_seed(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"expected a whole number as seed, got '{text}'")
    return int(text)


READERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "horizon": ("horizon", number),
    "near": ("near", depth_value),
    "sky": ("has_sky", parse_no),
    "skylimit": ("skylimit", number),
    "contact": ("contact", parse_line),
    "far": ("far", parse_line),
    "skyline": ("skyline", parse_line),
    "seed": ("seed", parse_seed),
}


def parse_scene(line: str) -> tuple[str, Scene]:
    """The photo's name and its geometry from one line; ValueError says what is wrong with it."""
    name, *words = line.split()
    folder, _, stem = name.partition("/")
    if folder not in FOLDERS or not stem:
        raise ValueError(f"expected <folder>/<stem> with a folder of {', '.join(FOLDERS)}, got '{name}'")
    if not words or words[0] not in {"good", "usable"}:
        raise ValueError(f"expected the grade good or usable after the name, got '{words[0] if words else ''}'")
    fields: dict[str, Any] = {}
    objects = []
    for word in words[1:]:
        key, _, value = word.partition("=")
        if key == "object":
            objects.append(parse_object(value))
            continue
        if key not in READERS:
            raise ValueError(f"unknown key '{key}', expected one of {', '.join(READERS)}, object")
        field, read = READERS[key]
        if field in fields:
            raise ValueError(f"'{key}' is given twice")
        fields[field] = read(value)
    if not fields.get("horizon", 100) < 99:
        raise ValueError("expected horizon=ROW with a row above 99")
    return name, Scene(grade=words[0], objects=tuple(objects), **fields)


def read_geometry(path: Path) -> dict[str, Scene]:
    """All annotated photos of a geometry file, by `<folder>/<stem>`."""
    scenes: dict[str, Scene] = {}
    if not path.is_file():
        raise PhotoGeometryError(f"no geometry file at {path}")
    for line_number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            name, scene = parse_scene(line)
            if name in scenes:
                raise ValueError(f"'{name}' is annotated twice")
        except ValueError as error:
            raise PhotoGeometryError(f"{path.name}, line {line_number}: {error}.") from None
        scenes[name] = scene
    return scenes

"""Images that follow each other in time: their natural order, their numbers, what is missing, how they are recognised.

Every command reads folders of frames by these rules, so that none of them sees another order than the others.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path

import cv2
import numpy as np

from libranet.errors import InputError
from libranet.file_names import VIDEO_SUFFIXES, is_image_name

_DIGITS = re.compile(r"(\d+)")
_NOT_DATA = ("@eaDir", "#recycle", "__MACOSX")
"""Folders that file servers and macOS put beside what they hold."""
_LOOKED_AT = 5
_MOST_CHANGE = 0.5
"""Mean difference between two frames at 8x8, in units of their contrast, above which they are two photos: video has
0.0 to 0.25, unrelated photos 0.8 and more."""


def natural_key(name: str) -> tuple[tuple[tuple[int, int | str], ...], str]:
    """The key by which names sort as people count: 9 before 10, whatever the number of digits."""
    # Not by isdigit(), which is true for the 2 of m² as well.
    parts = [(0, int(part)) if place % 2 else (1, part) for place, part in enumerate(_DIGITS.split(name)) if part]
    return tuple(parts), name


def natural_order(paths: Iterable[Path]) -> list[Path]:
    """Sort paths as people count. Every list of frames, clips and videos has this order."""
    return sorted(paths, key=lambda path: tuple(natural_key(part) for part in path.parts))


def is_video_file(path: Path) -> bool:
    """Whether a file in a folder is a video by its name, and not hidden."""
    return path.suffix.lower() in VIDEO_SUFFIXES and not path.name.startswith(".") and path.is_file()


def folders_in(folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    """Yield a folder and all below it in natural order, without hidden ones; links are followed, but not in circles."""
    real = folder.resolve()
    if any(real == other or real in other.parents for other in above):
        return
    yield folder
    for child in natural_order(folder.iterdir()):
        if child.is_dir() and not child.name.startswith(".") and child.name not in _NOT_DATA:
            yield from folders_in(child, (*above, real))


def leaves(folder: Path) -> list[Path]:
    """List the folders below that contain images."""
    return [place for place in folders_in(folder) if place != folder and list_images(place)]


def list_images(folder: Path) -> tuple[Path, ...]:
    """List the image files of a folder in natural order, without hidden ones such as the ._0001.png of macOS."""
    found = (path for path in folder.iterdir() if is_image_name(path) and not path.name.startswith("."))
    return tuple(natural_order(path for path in found if path.is_file()))


def list_frames(folder: Path) -> tuple[Path, ...]:
    """List the image files of a folder as frames.

    Raises:
        InputError: Two files are the same frame, such as 7.png beside 007.png or 7.jpg.
    """
    images = list_images(folder)
    for before, after in pairwise(images):
        if natural_key(before.stem)[0] == natural_key(after.stem)[0]:
            raise InputError(f"{folder} has one frame twice, as {before.name} and {after.name}: remove one of them")
    return images


def running_numbers(paths: Sequence[Path]) -> list[int] | None:
    """The numbers of frames, in order; None where names differ in more than one number, or in words."""
    split = [_DIGITS.split(path.stem) for path in paths]
    if len({len(parts) for parts in split}) != 1:
        return None
    columns = list(zip(*split, strict=True))
    varying = [index for index, column in enumerate(columns) if len(set(column)) > 1]
    if len(paths) == 1:
        varying = [len(columns) - 2] if len(columns) > 1 else []
    return [int(digits) for digits in columns[varying[0]]] if len(varying) == 1 and varying[0] % 2 else None


def describe_gaps(paths: Sequence[Path]) -> str:
    """Name the numbers that are missing between the first and the last frame, or nothing."""
    numbers = running_numbers(paths)
    if numbers is None:
        return ""
    steps = [after - before for before, after in pairwise(numbers)]
    # Every second or tenth frame of a video is a sampling, not a loss.
    if len(set(steps)) <= 1 and len(steps) > 1:
        return ""
    gaps = [(before + 1, after - 1) for before, after in pairwise(numbers) if after - before > 1]
    if not gaps:
        return ""
    spans = [str(first) if first == last else f"{first} to {last}" for first, last in gaps]
    count = sum(last - first + 1 for first, last in gaps)
    shown = ", ".join(spans[:3]) + (f" and {len(spans) - 3} more places" if len(spans) > 3 else "")
    return f"{count} of the numbers {numbers[0]} to {numbers[-1]} {'is' if count == 1 else 'are'} missing: {shown}"


def is_clip(paths: Sequence[Path]) -> bool:
    """Whether images are the frames of one clip: numbered, most of one size and like the one before."""
    if len(paths) < 2 or running_numbers(paths) is None:
        return False
    step = max(1, (len(paths) - 1) // _LOOKED_AT)
    changes = []
    for first in range(0, len(paths) - 1, step):
        # One unreadable frame between two good ones decides nothing: who reads the clip names it.
        readable = list(islice(filter(None, map(_thumbnail, paths[first : first + 3])), 2))
        if len(readable) < 2:
            continue
        (a, size), (b, other) = readable
        contrast = max(float(a.std() + b.std()) / 2, 4.0)
        # One frame of another size between alike ones decides nothing either.
        changes.append(float(np.abs(a - b).mean()) / contrast if size == other else np.inf)
    return bool(changes) and float(np.median(changes)) < _MOST_CHANGE


def _thumbnail(path: Path) -> tuple[np.ndarray, tuple[int, ...]] | None:
    """An image as [8, 8, 3] from 0 to 255, and its size; None where it cannot be read."""
    try:
        from libranet.images import read_image  # only folders of images load their formats

        image = read_image(path)
    except InputError:
        return None
    small = cv2.resize(np.ascontiguousarray(image.rgb), (8, 8), interpolation=cv2.INTER_AREA)
    return small.astype(np.float32) * (255 / image.peak), image.samples.shape[:2]

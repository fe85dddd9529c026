"""Do the two sides of a set show the same? Their details are compared, which haze weakens and does not move.

A set whose sides are mixed up, mirrored, swapped or out of step trains and scores without an error, and wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from libranet.data.dataset import Split
from libranet.data.frames import RgbSamples, VideoFrames, read_samples, to_8_bit
from libranet.data.pairs import CLEAR_NAMES, SIDE_WORD, PairedClip, open_pairs
from libranet.errors import InputError
from libranet.sequences import leaves, list_images, natural_order

SAME_SCENE = 0.45
"""Least correlation of a pair. Synthetic pairs have 0.94 and more, dense real haze 0.72; two scenes at most 0.21, a
mirrored image 0.35."""
OUT_OF_STEP = 0.01  # by how much a neighbouring frame has to correlate better
_MOST_FOLDERS = 24  # folders that are looked into for two sides under other names
_FIRST_OF_VIDEO = 8
"""Of a video an early frame is taken: those before it have to be decoded each time."""
_TWELVE_BITS = 4095
_COLOURED = 4.0
"""Difference of red and blue, in 8-bit levels, that no grey image has."""
_SIDE = 96
_RADIUS = 6.0
_NEIGHBOURS = (-2, -1, 1, 2)


@dataclass(frozen=True)
class Agreement:
    """What a comparison of pairs found."""

    compared: int  # pairs that were looked at
    lowest: float  # their lowest correlation
    problems: tuple[str, ...]  # what is wrong, one sentence each

    def sentence(self) -> str:
        return f"{self.compared} pairs compared, correlation of their details at least {self.lowest:.2f}"


def compare_sides(clips: Sequence[PairedClip], *, most: int = 16, second: str = "clear") -> Agreement:
    """Compare frames that are spread over a set with their clear frames and the neighbours of those.

    Args:
        most: Clips that are looked into; of fewer clips, several frames of each.
        second: What stands on the clear side, for messages.
    """
    chosen = [clips[index] for index in sorted({round(i) for i in np.linspace(0, len(clips) - 1, most)})]
    looks = {clip.name: [_look(clip, at) for at in _places(clip, most // len(chosen))] for clip in chosen}
    # One sentence for each clip: what is wrong with one frame is wrong with others.
    problems = [next(filter(None, (_judge(name, look, second) for look in of)), "") for name, of in looks.items()]
    swapped = [name for name, of in looks.items() if all(look.contrast_gain > 1 and not look.equal for look in of)]
    if second == "clear" and swapped:
        where = "everywhere" if len(swapped) == len(looks) else f"in {', '.join(swapped)}"
        problems.append(
            f"the hazy side has more contrast than the clear one {where}: the sides may be swapped, "
            "or clear frames empty"
        )
    lowest = [look.correlation for of in looks.values() for look in of]
    return Agreement(len(lowest), min(lowest), tuple(filter(None, problems)))


def alike_folders(folder: Path) -> tuple[Path, Path] | None:
    """Two folders in a folder that show the same scene under the same names: the sides of a set, by other names."""
    folders = natural_order(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    seen: list[tuple[str, tuple[int, ...], np.ndarray, Path]] = []
    for child in folders[:_MOST_FOLDERS]:
        place = next((place for place in (child, *leaves(child)) if list_images(place)), None)
        if place is None:
            continue
        first = list_images(place)[0]
        name, image = (place.relative_to(child) / first.stem).as_posix(), read_samples(first)
        details = _details(image)
        for other_name, shape, other, owner in seen:
            if (other_name, shape) == (name, image.shape) and _correlate(other, details) >= SAME_SCENE:
                return owner, child
        seen.append((name, image.shape, details, child))
    return None


def refuse_alike_folders(folder: Path) -> None:
    """Ask for the sides where two folders look like them and their names do not say which is which, or where both are
    in one folder."""
    for place in (folder, *leaves(folder)):
        sides: dict[bool, dict[str, Path]] = {False: {}, True: {}}
        for path in list_images(place):
            if word := SIDE_WORD.search(path.stem):
                sides[word[1].lower() in CLEAR_NAMES][path.stem[: word.start()]] = path
        if both := sides[False].keys() & sides[True].keys():
            hazy, clear = (sides[side][min(both)].name for side in (False, True))
            raise InputError(
                f"{hazy} and {clear} in {place} look like two sides of one frame: put each side into a folder of its "
                "own, hazy/ and clear/"
            )
    if (found := alike_folders(folder)) is not None:
        a, b = found
        raise InputError(
            f"{a.name}/ and {b.name}/ in {folder} hold the same scene under the same names: if one is hazy and one "
            f"clear, name them, --hazy {a} --clear {b} (in a recipe: hazy and clear of [paired]); if all of it is "
            f"hazy, --hazy {folder} alone"
        )


def require_pairs(folder: Path, split: Split = "train") -> list[PairedClip]:
    """Open a paired set in whichever layout it has, as `open_pairs` does; a folder without two sides is refused."""
    if not folder.is_dir():
        raise InputError(f"no dataset at {folder}: check the path")
    if (pairs := open_pairs(folder, split)) is None:
        refuse_alike_folders(folder)
        found = ", ".join(f"{path.name}/" for path in natural_order(folder.iterdir()) if path.is_dir()) or "no folders"
        raise InputError(f"expected hazy and clear frames in {folder}, for example in hazy/ and gt/, found {found}")
    return pairs


@dataclass(frozen=True)
class _Look:
    """A pair, seen."""

    index: int
    correlation: float
    shift: int  # frames by which another clear frame fits better; 0 for none
    equal: bool
    contrast_gain: float  # contrast of the hazy details over that of the clear ones
    colours: float  # correlation of the differences between red and blue
    coloured: tuple[bool, bool]  # whether each side has colours
    dark: int  # the largest value, where 16-bit samples use no more than 12 bits


def _places(clip: PairedClip, count: int) -> list[int]:
    """The frames of a clip that are compared: of a video at most two, behind key frames, which are found fast."""
    middle = len(clip) // 2
    if isinstance(clip.hazy, VideoFrames):
        late = min(clip.hazy.key_before(len(clip) - 1) + 2, len(clip) - 1)
        return sorted({min(middle, _FIRST_OF_VIDEO), late})[:count]
    spread = {round(place) for place in np.linspace(0, len(clip) - 1, count + 2)[1:-1]} if count > 1 else {middle}
    return sorted(spread, key=lambda place: abs(place - middle))  # at the ends neighbours are missing


def _look(clip: PairedClip, index: int) -> _Look:
    hazy, clear = clip.hazy.read(index), clip.clear.read(index)
    a, b = _details(hazy), _details(clear)
    own = _correlate(a, b)
    steps = [step for step in _NEIGHBOURS if 0 <= index + step < len(clip)]
    fits = {step: _correlate(a, _details(clip.clear.read(index + step))) for step in steps}
    best = max(fits, key=lambda step: fits[step], default=0)
    shift = best if best and fits[best] > own + OUT_OF_STEP and fits[best] >= SAME_SCENE else 0
    contrast = [float(np.abs(_high_pass(_grey(image))).mean()) for image in (hazy, clear)]
    equal = hazy.shape == clear.shape and hazy.dtype == clear.dtype and np.array_equal(hazy, clear)
    tints = [_tint(image) for image in (hazy, clear)]
    coloured = bool(tints[0].any()), bool(tints[1].any())
    if max(np.abs(tint).max() for tint in tints) < _COLOURED:
        coloured = True, True
    deep = [int(image.max()) for image in (hazy, clear) if image.dtype == np.uint16]
    return _Look(
        index,
        own,
        shift,
        equal,
        contrast[0] / max(contrast[1], 1e-6),
        _correlate(*map(_even, map(_high_pass, tints))),
        coloured,
        next((value for value in deep if value <= _TWELVE_BITS), 0),
    )


def _judge(clip: str, look: _Look, second: str) -> str:
    """What is wrong with a pair, or nothing."""
    if look.equal:
        return f"clip {clip}: hazy and {second} are the same image in frame {look.index}"
    if look.dark:
        return (
            f"clip {clip}: 16-bit values end at {look.dark} in frame {look.index}, a nearly black image: "
            "samples of 10 or 12 bits have to be scaled up to 65535"
        )
    if look.shift:
        way = "later" if look.shift > 0 else "earlier"
        return (
            f"clip {clip}: hazy frame {look.index} shows what {second} frame {look.index + look.shift} shows, "
            f"{abs(look.shift)} {way}: the sides are out of step"
        )
    if look.correlation < SAME_SCENE:
        return (
            f"clip {clip}: hazy and {second} frame {look.index} do not show the same, their details correlate by "
            f"{look.correlation:.2f} (a pair: {SAME_SCENE} and more)"
        )
    if look.colours < -SAME_SCENE:
        return f"clip {clip}: red and blue of hazy and {second} frame {look.index} are swapped: one side is BGR"
    if look.coloured[0] != look.coloured[1]:
        grey, other = ("hazy", second) if look.coloured[1] else (second, "hazy")
        return f"clip {clip}: {grey} frame {look.index} is grey, and the {other} one has colours"
    return ""


def _grey(image: RgbSamples) -> np.ndarray:
    return np.asarray(cv2.cvtColor(np.ascontiguousarray(to_8_bit(image)), cv2.COLOR_RGB2GRAY))


def _tint(image: RgbSamples) -> np.ndarray:
    """Red minus blue."""
    return to_8_bit(image)[..., 0].astype(np.float32) - to_8_bit(image)[..., 2]


def _high_pass(plane: np.ndarray) -> np.ndarray:  # [96, 96]
    small = cv2.resize(plane.astype(np.float32), (_SIDE, _SIDE), interpolation=cv2.INTER_AREA)
    return small - cv2.GaussianBlur(small, (0, 0), _RADIUS)


def _details(image: RgbSamples) -> np.ndarray:  # [96, 96]
    return _even(_high_pass(_grey(image)))


def _even(detail: np.ndarray) -> np.ndarray:
    """Local structure at equal weight everywhere, so that neither sky nor a bright place decides."""
    return detail / (np.sqrt(cv2.GaussianBlur(detail * detail, (0, 0), _RADIUS)) + 1.0)


def _correlate(a: np.ndarray, b: np.ndarray) -> float:
    """How much details agree, from -1 to 1; images without any agree."""
    sizes = float(np.sqrt((a * a).mean() * (b * b).mean()))
    return float((a * b).mean()) / sizes if sizes > 1e-6 else 1.0

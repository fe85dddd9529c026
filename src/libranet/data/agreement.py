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
from libranet.data.pairs import PairedClip, leaves, open_pairs
from libranet.errors import InputError
from libranet.sequences import list_images, natural_order

SAME_SCENE = 0.45
"""Least correlation of a pair. Synthetic pairs have 0.94 and more, dense real haze 0.72; two scenes at most 0.21, a
mirrored image 0.35."""
OUT_OF_STEP = 0.01  # by how much a neighbouring frame has to correlate better
_MOST_FOLDERS = 24  # folders that are looked into for two sides under other names
_FIRST_OF_VIDEO = 8
"""Of a video an early frame is taken: those before it have to be decoded each time."""
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
    """Compare one frame of clips that are spread over a set with its clear frame and the neighbours of that.

    Args:
        second: What stands on the clear side, for messages.
    """
    chosen = [clips[index] for index in sorted({round(i) for i in np.linspace(0, len(clips) - 1, most)})]
    looks = [_look(clip, _place(clip)) for clip in chosen]
    problems = [sentence for clip, look in zip(chosen, looks, strict=True) for sentence in _judge(clip, look, second)]
    swapped = [look for look in looks if look.contrast_gain > 1.0]
    if second == "clear" and len(swapped) == len(looks) and not any(look.equal for look in looks):
        problems.append("the hazy side has more contrast than the clear one everywhere: the sides may be swapped")
    return Agreement(len(looks), min(look.correlation for look in looks), tuple(problems))


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
    """Ask for the sides where two folders look like them and their names do not say which is which."""
    if (found := alike_folders(folder)) is not None:
        a, b = found
        raise InputError(
            f"{a.name}/ and {b.name}/ in {folder} hold the same scene under the same names: if one is hazy and one "
            f"clear, name them, --hazy {a} --clear {b} (in a recipe: hazy and clear of [paired]); if all of it is "
            f"hazy, --hazy {folder} alone"
        )


def require_pairs(folder: Path, split: Split) -> list[PairedClip]:
    """Open a paired set in whichever layout it has, as `open_pairs` does; a folder without two sides is refused."""
    if not folder.is_dir():
        raise InputError(f"no dataset at {folder}: check the path")
    if (pairs := open_pairs(folder, split)) is None:
        refuse_alike_folders(folder)
        raise InputError(f"expected hazy and clear frames in {folder}, for example hazy/ and gt/, found neither")
    return pairs


@dataclass(frozen=True)
class _Look:
    """A pair, seen."""

    correlation: float
    shift: int  # frames by which another clear frame fits better; 0 for none
    equal: bool
    contrast_gain: float  # contrast of the hazy details over that of the clear ones


def _place(clip: PairedClip) -> int:
    """The frame of a clip that is compared."""
    middle = len(clip) // 2
    return min(middle, _FIRST_OF_VIDEO) if isinstance(clip.hazy, VideoFrames) else middle


def _look(clip: PairedClip, index: int) -> _Look:
    hazy, clear = clip.hazy.read(index), clip.clear.read(index)
    a, b = _details(hazy), _details(clear)
    own = _correlate(a, b)
    steps = [step for step in _NEIGHBOURS if 0 <= index + step < len(clip)]
    fits = {step: _correlate(a, _details(clip.clear.read(index + step))) for step in steps}
    best = max(fits, key=lambda step: fits[step], default=0)
    shift = best if best and fits[best] > own + OUT_OF_STEP and fits[best] >= SAME_SCENE else 0
    contrast = [float(np.abs(plane).mean()) for plane in (_high_pass(hazy), _high_pass(clear))]
    equal = hazy.shape == clear.shape and hazy.dtype == clear.dtype and np.array_equal(hazy, clear)
    return _Look(own, shift, equal, contrast[0] / max(contrast[1], 1e-6))


def _judge(clip: PairedClip, look: _Look, second: str) -> list[str]:
    index = _place(clip)
    if look.equal:
        return [f"clip {clip.name}: hazy and {second} are the same image in frame {index}"]
    if look.shift:
        way = "later" if look.shift > 0 else "earlier"
        return [
            f"clip {clip.name}: hazy frame {index} shows what {second} frame {index + look.shift} shows, "
            f"{abs(look.shift)} {way}: the sides are out of step"
        ]
    if look.correlation < SAME_SCENE:
        return [
            f"clip {clip.name}: hazy and {second} frame {index} do not show the same, their details correlate by "
            f"{look.correlation:.2f} (a pair: {SAME_SCENE} and more)"
        ]
    return []


def _high_pass(image: RgbSamples) -> np.ndarray:  # [96, 96]
    grey = cv2.cvtColor(np.ascontiguousarray(to_8_bit(image)), cv2.COLOR_RGB2GRAY).astype(np.float32)
    small = cv2.resize(grey, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA)
    return small - cv2.GaussianBlur(small, (0, 0), _RADIUS)


def _details(image: RgbSamples) -> np.ndarray:  # [96, 96]
    """Local structure at equal weight everywhere, so that neither sky nor a bright place decides."""
    detail = _high_pass(image)
    return detail / (np.sqrt(cv2.GaussianBlur(detail * detail, (0, 0), _RADIUS)) + 1.0)


def _correlate(a: np.ndarray, b: np.ndarray) -> float:
    """How much details agree, from -1 to 1; images without any agree."""
    sizes = float(np.sqrt((a * a).mean() * (b * b).mean()))
    return float((a * b).mean()) / sizes if sizes > 1e-6 else 1.0

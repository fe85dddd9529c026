"""Paired hazy and clear clips of UHV-4K, REVIDE, HazeWorld, or two folders."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import cv2
import numpy as np

from libranet.data.dataset import MAP_MODALITIES, Split, modality_file, open_clips
from libranet.data.frames import VIDEO_SUFFIXES, FrameFiles, FrameSequence, VideoFrames, list_images, read_rgb
from libranet.errors import InputError

HAZEWORLD_SUBSETS = ("DAVIS", "DDAD", "UA-DETRAC")
"""The outdoor subsets that the paper uses."""
HAZY_NAMES = ("hazy", "haze", "input", "inputs", "foggy", "lq")
CLEAR_NAMES = ("clear", "gt", "target", "targets", "clean", "ground_truth", "groundtruth", "hq")
"""Names of the two sides as public sets and their copies have them, in any case."""
_SIDE_WORD = re.compile(r"[_-](hazy|haze|input|foggy|clear|gt|target|clean)$", re.IGNORECASE)
_LOOKED_AT = 5
_MOST_CHANGE = 0.5
"""Mean difference between two frames at 8x8, in units of their contrast, above which they are two photos: video has
0.0 to 0.25, unrelated photos 0.8 and more."""


@dataclass(frozen=True)
class PairedClip:
    """A hazy clip and its ground truth, frame by frame."""

    name: str
    hazy: FrameSequence
    clear: FrameSequence
    maps: dict[str, tuple[Path, ...]] = field(default_factory=dict)
    """Depth, transmission and flow files by modality, where the set has them."""

    def __post_init__(self) -> None:
        if len(self.hazy) != len(self.clear):
            raise InputError(
                f"expected as many hazy as clear frames in {self.name}, got {len(self.hazy)} and {len(self.clear)}"
            )
        if len(self.hazy) == 0:
            raise InputError(f"expected frames in {self.name}, found none")

    def __len__(self) -> int:
        return len(self.hazy)


def uhv4k_pairs(folder: str | Path, split: Split = "train", *, flagged: bool = False) -> list[PairedClip]:
    """Open the clips of a folder that `libranet synth` made, with their maps."""
    return [
        PairedClip(
            name=clip.info.name,
            hazy=clip.sequence("hazy"),
            clear=clip.sequence("clear"),
            maps={
                modality: tuple(clip.folder / modality_file(modality, i) for i in range(len(clip)))
                for modality in MAP_MODALITIES
            },
        )
        for clip in open_clips(folder, split, flagged=flagged)
    ]


def revide_pairs(folder: str | Path, split: Literal["train", "test"] = "train") -> list[PairedClip]:
    """Open REVIDE in its official split: Train/hazy/CLIP/*.JPG beside Train/gt/CLIP/*.JPG, and the same under Test."""
    part = _child(Path(folder), split)
    return folder_pairs(_child(part, "hazy"), _child(part, "gt"))


def hazeworld_pairs(folder: str | Path, split: Literal["train", "test"] = "train") -> list[PairedClip]:
    """Open HazeWorld after its own symlink step: SPLIT/hazy/SUBSET/.../CLIP beside SPLIT/gt/SUBSET/.../CLIP.

    Several hazy versions share one ground truth. Their folder has the ground truth's name plus a suffix that starts
    with an underscore, or lies one level below it.
    """
    part = _child(Path(folder), split)
    found = []
    for subset in HAZEWORLD_SUBSETS:
        pairs = folder_pairs(_child(part / "hazy", subset), _child(part / "gt", subset))
        found += [replace(pair, name=f"{subset}/{pair.name}") for pair in pairs]
    return found


def open_pairs(folder: str | Path, split: Split = "train") -> list[PairedClip] | None:
    """Open a paired set in whichever layout it has; None if nothing in it has the names of two sides.

    The two sides (`hazy` and `gt`, `input` and `target`, ...) lie in the folder, or in `train` and `test` below it. Of
    HazeWorld only the subsets of the paper are taken.

    Args:
        folder: The set, or one of its parts.
        split: Which part, where there are parts; a set without that part is an error.
    """
    folder = Path(folder)
    if (sides := find_sides(folder)) is not None:
        return _without_other_subsets(folder_pairs(*sides))
    parts = [path for path in sorted(folder.iterdir()) if path.name.lower() in ("train", "test") and find_sides(path)]
    if not parts:
        return None
    chosen = [path for path in parts if split in ("all", path.name.lower())]
    if not chosen:
        raise InputError(f"expected a part {split!r} in {folder}, found {', '.join(path.name for path in parts)}")
    found = [(part, pair) for part in chosen for pair in open_pairs(part) or []]
    if len({pair.name for _, pair in found}) < len(found):  # both parts number their clips from one
        return [replace(pair, name=f"{part.name}/{pair.name}") for part, pair in found]
    return [pair for _, pair in found]


def find_sides(folder: Path) -> tuple[Path, Path] | None:
    """Find the hazy and the clear side by their names."""
    found = {path.name.lower(): path for path in sorted(folder.iterdir()) if path.is_dir()} if folder.is_dir() else {}
    hazy, clear = (next((found[n] for n in names if n in found), None) for names in (HAZY_NAMES, CLEAR_NAMES))
    return (hazy, clear) if hazy is not None and clear is not None else None


def _without_other_subsets(pairs: list[PairedClip]) -> list[PairedClip]:
    known = [pair for pair in pairs if pair.name.split("/")[0] in HAZEWORLD_SUBSETS]
    return known or pairs


def folder_pairs(hazy: str | Path, clear: str | Path) -> list[PairedClip]:
    """Open two parallel folders: frames, folders of frames at any depth, or videos.

    Several hazy versions may share one ground truth: their name is the ground truth's plus a suffix that starts with an
    underscore, as `0001_0.8_0.2.jpg` beside `0001.jpg`. Images without sub-folders are one clip if each resembles the
    one before it; otherwise they are photos, and each is a clip of its own.
    """
    hazy, clear = Path(hazy), Path(clear)
    for folder in (hazy, clear):
        if not folder.is_dir():
            raise InputError(f"expected a folder of frames or videos, got {folder}")
    if list_images(hazy):
        return _flat_pairs(hazy, clear)
    truths = {path.relative_to(clear).as_posix(): path for path in _leaves(clear)}
    pairs = []
    for clip in _leaves(hazy):
        name = clip.relative_to(hazy).as_posix()
        pairs.append(_pair(name, clip, truths.get(_truth_of(name, truths) or "", clear / name)))
    videos = {_plain(path.stem): path for path in clear.iterdir() if path.suffix.lower() in VIDEO_SUFFIXES}
    for video in sorted(path for path in hazy.iterdir() if path.suffix.lower() in VIDEO_SUFFIXES):
        truth = _truth_of(_plain(video.stem), videos)
        if truth is None:
            raise InputError(f"expected a clear video named {video.stem} in {clear}, found none")
        pairs.append(PairedClip(video.stem, VideoFrames(video), VideoFrames(videos[truth])))
    if not pairs:
        raise InputError(f"expected frames, folders of frames or videos in {hazy}, found none")
    return pairs


def _flat_pairs(hazy: Path, clear: Path) -> list[PairedClip]:
    """Pair images by name: the frames of one clip, or photos."""
    files, truths = list_images(hazy), {_plain(path.stem): path for path in list_images(clear)}
    found = []
    for path in files:
        truth = _truth_of(_plain(path.stem), truths)
        if truth is None:
            raise InputError(f"expected a clear frame named {path.stem} in {clear} for {path}, found none")
        found.append(truths[truth])
    if len(set(found)) == len(files) and _is_clip(found):
        if len(files) < len(truths):
            raise InputError(
                f"expected as many hazy as clear frames in {hazy.name}, got {len(files)} and {len(truths)}"
            )
        return [PairedClip(hazy.name, FrameFiles(files), FrameFiles(tuple(found)))]
    return [
        PairedClip(path.stem, FrameFiles((path,)), FrameFiles((truth,)))
        for path, truth in zip(files, found, strict=True)
    ]


def _pair(name: str, hazy: Path, clear: Path) -> PairedClip:
    if not clear.is_dir():
        raise InputError(f"expected the ground truth of {hazy} in {clear}, which is missing")
    hazy_files, clear_files = list_images(hazy), list_images(clear)
    if len(hazy_files) == len(clear_files):
        for h, c in zip(hazy_files, clear_files, strict=True):
            if _plain(h.stem) != _plain(c.stem):
                raise InputError(f"expected a clear frame named {h.stem} in {clear} for {h}, found none")
    return PairedClip(name, FrameFiles(hazy_files), FrameFiles(clear_files))


def _plain(stem: str) -> str:
    """A file's name without a word for its side at the end, as in `01_outdoor_hazy` and `01_outdoor_GT`."""
    return _SIDE_WORD.sub("", stem)


def _truth_of(name: str, truths: Collection[str]) -> str | None:
    """The ground truth that a hazy name belongs to: the same name, or the longest one it continues."""
    if name in truths:
        return name
    ends = [at for at, letter in enumerate(name) if letter in "_/"]
    return next((name[:at] for at in reversed(ends) if name[:at] in truths), None)


def _is_clip(paths: Sequence[Path]) -> bool:
    """Whether images follow each other in time: of one size, and each like the one before it."""
    step = max(1, (len(paths) - 1) // _LOOKED_AT)
    changes = []
    for first in range(0, len(paths) - 1, step):
        a, b = (read_rgb(path) for path in paths[first : first + 2])
        if a.shape != b.shape:
            return False
        small = [cv2.resize(image, (8, 8), interpolation=cv2.INTER_AREA).astype(np.float32) for image in (a, b)]
        contrast = max(float(small[0].std() + small[1].std()) / 2, 4.0)
        changes.append(float(np.abs(small[0] - small[1]).mean()) / contrast)
    return not changes or float(np.median(changes)) < _MOST_CHANGE


def _child(folder: Path, name: str) -> Path:
    """Find a sub-folder by name, in any case: copies of the public sets differ in capital letters."""
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            if path.name.lower() == name.lower() and path.is_dir():
                return path
    raise InputError(f"expected a folder {name!r} in {folder}, found none")


def _leaves(folder: Path) -> list[Path]:
    """List all folders below that contain images."""
    return sorted(path for path in folder.rglob("*") if path.is_dir() and list_images(path))

"""Paired hazy and clear clips of UHV-4K, REVIDE, HazeWorld, or two folders."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from libranet.data.dataset import MAP_MODALITIES, Split, modality_file, open_clips
from libranet.data.frames import VIDEO_SUFFIXES, FrameFiles, FrameSequence, VideoFrames, list_images
from libranet.errors import InputError

HAZEWORLD_SUBSETS = ("DAVIS", "DDAD", "UA-DETRAC")
"""The outdoor subsets that the paper uses."""


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
    hazy, clear = _child(part, "hazy"), _child(part, "gt")
    return [_pair(clip.name, clip, clear / clip.name) for clip in _folders(hazy)]


def hazeworld_pairs(folder: str | Path, split: Literal["train", "test"] = "train") -> list[PairedClip]:
    """Open HazeWorld after its own symlink step: SPLIT/hazy/SUBSET/.../CLIP beside SPLIT/gt/SUBSET/.../CLIP.

    Several hazy versions share one ground truth. Their folder has the ground truth's name plus a suffix that starts
    with an underscore, or lies one level below it.
    """
    part = _child(Path(folder), split)
    pairs = []
    for subset in HAZEWORLD_SUBSETS:
        hazy, clear = _child(part / "hazy", subset), _child(part / "gt", subset)
        truths = {path.relative_to(clear).as_posix(): path for path in _leaves(clear)}
        for clip in _leaves(hazy):
            name = clip.relative_to(hazy).as_posix()
            matches = [truth for truth in truths if name == truth or name.startswith((f"{truth}_", f"{truth}/"))]
            if not matches:
                raise InputError(f"expected a ground truth for {clip} under {clear}, found none")
            pairs.append(_pair(f"{subset}/{name}", clip, truths[max(matches, key=len)]))
    return pairs


def folder_pairs(hazy: str | Path, clear: str | Path) -> list[PairedClip]:
    """Open two parallel folders: the frames of one clip, or one sub-folder of frames or one video per clip."""
    hazy, clear = Path(hazy), Path(clear)
    for folder in (hazy, clear):
        if not folder.is_dir():
            raise InputError(f"expected a folder of frames or videos, got {folder}")
    if list_images(hazy):
        return [_pair(hazy.name, hazy, clear)]
    pairs = [_pair(clip.name, clip, clear / clip.name) for clip in _folders(hazy)]
    truths = {path.stem: path for path in clear.iterdir() if path.suffix.lower() in VIDEO_SUFFIXES}
    for video in sorted(path for path in hazy.iterdir() if path.suffix.lower() in VIDEO_SUFFIXES):
        if video.stem not in truths:
            raise InputError(f"expected a clear video named {video.stem} in {clear}, found none")
        pairs.append(PairedClip(video.stem, VideoFrames(video), VideoFrames(truths[video.stem])))
    if not pairs:
        raise InputError(f"expected frames, folders of frames or videos in {hazy}, found none")
    return pairs


def _pair(name: str, hazy: Path, clear: Path) -> PairedClip:
    if not clear.is_dir():
        raise InputError(f"expected the ground truth of {hazy} in {clear}, which is missing")
    hazy_files, clear_files = list_images(hazy), list_images(clear)
    if len(hazy_files) == len(clear_files) and [p.stem for p in hazy_files] != [p.stem for p in clear_files]:
        wrong = next(h for h, c in zip(hazy_files, clear_files, strict=True) if h.stem != c.stem)
        raise InputError(f"expected a clear frame named {wrong.stem} in {clear} for {wrong}, found none")
    return PairedClip(name, FrameFiles(hazy_files), FrameFiles(clear_files))


def _child(folder: Path, name: str) -> Path:
    """Find a sub-folder by name, in any case: copies of the public sets differ in capital letters."""
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            if path.name.lower() == name.lower() and path.is_dir():
                return path
    raise InputError(f"expected a folder {name!r} in {folder}, found none")


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and list_images(path))


def _leaves(folder: Path) -> list[Path]:
    """List all folders below that contain images."""
    return sorted(path for path in folder.rglob("*") if path.is_dir() and list_images(path))

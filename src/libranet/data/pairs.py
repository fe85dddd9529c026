"""Paired hazy and clear clips of UHV-4K, REVIDE, HazeWorld, or two folders."""

import logging
import re
import unicodedata
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from libranet.data.dataset import MAP_MODALITIES, Split, modality_file, open_clips
from libranet.data.frames import FrameFiles, FrameSequence, VideoFrames
from libranet.errors import InputError
from libranet.file_names import IMAGE_SUFFIXES
from libranet.sequences import describe_gaps, is_clip, is_video_file, leaves, list_frames, list_images, natural_order

logger = logging.getLogger(__name__)

HAZEWORLD_SUBSETS = ("DAVIS", "DDAD", "UA-DETRAC")  # the outdoor subsets that the paper uses
_MOST_RATE_DIFFERENCE = 0.01
HAZY_NAMES = ("hazy", "haze", "input", "inputs", "fog", "foggy", "lq")
CLEAR_NAMES = ("clear", "gt", "target", "targets", "clean", "ground_truth", "groundtruth", "reference", "hq")
"""Names of the two sides as public sets and their copies have them, in any case."""
SIDE_WORD = re.compile(r"[_-](hazy|haze|input|foggy|clear|gt|target|clean)$", re.IGNORECASE)


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

    @property
    def gaps(self) -> str:
        """The numbers that are missing among its frames, in words, or nothing."""
        return describe_gaps(self.hazy.paths) if isinstance(self.hazy, FrameFiles) else ""

    def checked(self) -> "PairedClip":
        """Compare the sizes of frames by their headers: a crop of unequal sides would show two places.

        Raises:
            InputError: They differ, or a file is no frame.
        """
        sides: tuple[FrameSequence, FrameSequence] = (self.hazy, self.clear)
        first = self.hazy.size_of(0)
        kinds: dict[tuple[tuple[int, int], ...], int] = {}
        # Headers of files cost nothing; a side of somebody's own may decode a frame to tell its size.
        files = any(isinstance(side, FrameFiles) for side in sides)
        for index in range(len(self)) if files else sorted({0, len(self) // 2, len(self) - 1}):
            kinds.setdefault(tuple(side.size_of(index) for side in sides), index)
        for found, index in kinds.items():
            if found == (first, first):
                continue
            # Headers do not tell how EXIF turns an image.
            whole = self.hazy.read(0).shape[1::-1]
            for name, side in zip(("hazy", "clear"), sides, strict=True):
                if (size := side.read(index).shape[1::-1]) != whole:
                    raise InputError(
                        f"expected hazy and clear frames of one size in clip {self.name}, got {whole[0]}x{whole[1]} "
                        f"and {size[0]}x{size[1]} for the {name} frame {index}: bring them to one size first"
                    )
        return self


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
        ).checked()
        for clip in open_clips(folder, split, flagged=flagged)
    ]


def open_pairs(folder: str | Path, split: Split = "train") -> list[PairedClip] | None:
    """Open a paired set in whichever layout it has; None if nothing in it has the names of two sides.

    The two sides (`hazy` and `gt`, `input` and `target`, ...) lie in the folder, or in `train` and `test` below it, as
    in REVIDE and, after its own symlink step, in HazeWorld. Only the subsets of the paper are taken there.

    Args:
        folder: The set, or one of its parts.
        split: Which part, where there are parts; a set without that part is an error.
    """
    folder = Path(folder)
    if (sides := find_sides(folder)) is not None:
        return _without_other_subsets(folder_pairs(*sides))
    named = [path for path in natural_order(folder.iterdir()) if path.name.lower() in ("train", "test")]
    parts = [path for path in named if find_sides(path)]
    if not parts:
        return None
    chosen = [path for path in parts if split in ("all", path.name.lower())]
    if not chosen:
        raise InputError(f"expected a part {split!r} in {folder}, found {', '.join(path.name for path in parts)}")
    if split == "all" and len(parts) < len(named):
        lacking = next(path for path in named if path not in parts)
        raise InputError(f"expected two sides in every part, found none in {lacking}: choose another split")
    found = [(part, pair) for part in chosen for pair in open_pairs(part) or []]
    if len({pair.name for _, pair in found}) < len(found):  # both parts number their clips from one
        return [replace(pair, name=f"{part.name}/{pair.name}") for part, pair in found]
    return [pair for _, pair in found]


def find_sides(folder: Path) -> tuple[Path, Path] | None:
    """Find the hazy and the clear side by their names; None unless both are there."""
    folders = natural_order(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    hazy, clear = ([path for path in folders if path.name.lower() in names] for names in (HAZY_NAMES, CLEAR_NAMES))
    for side in (hazy, clear):
        if len(side) > 1 and hazy and clear:
            raise InputError(
                f"{side[0].name}/ and {side[1].name}/ in {folder} are names of one side: give both sides by name, "
                f"hazy {hazy[0]} and clear {clear[0]}, or others"
            )
    return (hazy[0], clear[0]) if hazy and clear else None


def _without_other_subsets(pairs: list[PairedClip]) -> list[PairedClip]:
    found = {pair.name.split("/")[0] for pair in pairs}
    if not found.intersection(HAZEWORLD_SUBSETS):
        return pairs
    left_out, missing = sorted(found.difference(HAZEWORLD_SUBSETS)), sorted({*HAZEWORLD_SUBSETS} - found)
    for subsets, what in ((left_out, "is left out"), (missing, "is not there")):
        if subsets:
            logger.warning(
                "of HazeWorld the paper takes %s: %s %s", ", ".join(HAZEWORLD_SUBSETS), ", ".join(subsets), what
            )
    return [pair for pair in pairs if pair.name.split("/")[0] in HAZEWORLD_SUBSETS]


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
        _refuse_mixture(folder)
    if hazy.resolve() == clear.resolve():
        raise InputError(f"expected two different folders, got {hazy} as the hazy and as the clear side")
    if list_images(hazy):
        return _flat_pairs(hazy, clear)
    pairs = _folder_clips(hazy, clear) + _video_clips(hazy, clear)
    if not pairs:
        raise InputError(
            f"expected frames, folders of frames or videos in {hazy}, found none: images are named "
            f"{', '.join(IMAGE_SUFFIXES)}"
        )
    return pairs


def _refuse_mixture(folder: Path) -> None:
    """Images beside folders or videos are two layouts in one: one of them would be left out."""
    others = [path for path in folder.iterdir() if is_video_file(path)] + leaves(folder)
    if list_images(folder) and others:
        raise InputError(
            f"{folder} holds images and {others[0].name} beside them: one layout, please, images alone, folders of "
            "frames, or videos"
        )


def _folder_clips(hazy: Path, clear: Path) -> list[PairedClip]:
    truths = {_composed(path.relative_to(clear).as_posix()): path for path in leaves(clear)}
    pairs = []
    for clip in leaves(hazy):
        name = _composed(clip.relative_to(hazy).as_posix())
        pairs.append(_pair(name, clip, truths.get(_truth_of(name, truths) or "", clear / name)))
    used = {pair.clear.paths[0].parent for pair in pairs if isinstance(pair.clear, FrameFiles)}
    _name_unused([path for path in truths.values() if path not in used], hazy)
    return pairs


def _video_clips(hazy: Path, clear: Path) -> list[PairedClip]:
    truths, given = (_by_name(path for path in side.iterdir() if is_video_file(path)) for side in (clear, hazy))
    pairs, used = [], set()
    for video in given.values():
        name = _truth_of(_plain(video.stem), truths)
        if name is None:
            raise InputError(f"expected a clear video named {video.stem} in {clear}, found none")
        used.add(name)
        sides = VideoFrames(video), VideoFrames(truths[name])
        rates = [side.rate for side in sides]
        if rates[0] and rates[1] and abs(rates[0] / rates[1] - 1) > _MOST_RATE_DIFFERENCE:
            raise InputError(
                f"expected one frame rate on both sides, got {rates[0]:g} and {rates[1]:g} for {video.name}: "
                "frame n would not be the same moment"
            )
        pairs.append(PairedClip(video.stem, *sides).checked())
    _name_unused([path for name, path in truths.items() if name not in used], hazy)
    return pairs


def _name_unused(truths: list[Path], hazy: Path) -> None:
    if truths:
        more = f" and {len(truths) - 1} more" if len(truths) > 1 else ""
        verbs = ("have", "are") if more else ("has", "is")
        logger.warning("%s%s %s no hazy counterpart in %s and %s left out", truths[0], more, verbs[0], hazy, verbs[1])


def _flat_pairs(hazy: Path, clear: Path) -> list[PairedClip]:
    """Pair images by name: the frames of one clip, or photos."""
    files, truths = list_frames(hazy), _by_name(list_frames(clear))
    found = []
    for path in files:
        truth = _truth_of(_plain(path.stem), truths)
        if truth is None:
            raise InputError(f"expected a clear frame named {path.stem} in {clear} for {path}, found none")
        found.append(truths[truth])
    if len(set(found)) == len(files) and (len(files) == 1 or is_clip(found)):
        if len(files) < len(truths):
            raise InputError(
                f"expected as many hazy as clear frames in {hazy.name}, got {len(files)} and {len(truths)}"
            )
        return [PairedClip(hazy.name, FrameFiles(files), FrameFiles(tuple(found))).checked()]
    _name_unused([path for path in truths.values() if path not in set(found)], hazy)
    return [
        PairedClip(path.stem, FrameFiles((path,)), FrameFiles((truth,))).checked()
        for path, truth in zip(files, found, strict=True)
    ]


def _pair(name: str, hazy: Path, clear: Path) -> PairedClip:
    if not clear.is_dir():
        raise InputError(f"expected the ground truth of {hazy} in {clear}, which is missing")
    hazy_files, clear_files = list_frames(hazy), list_frames(clear)
    if not clear_files:
        raise InputError(f"expected frames in {clear}, found none with a name of {', '.join(IMAGE_SUFFIXES)}")
    if len(hazy_files) == len(clear_files):
        for h, c in zip(hazy_files, clear_files, strict=True):
            if _plain(h.stem) != _plain(c.stem):
                raise InputError(f"expected a clear frame named {h.stem} in {clear} for {h}, found none")
    return PairedClip(name, FrameFiles(hazy_files), FrameFiles(clear_files)).checked()


def _plain(stem: str) -> str:
    """A file's name without a word for its side at the end, as in `01_outdoor_hazy` and `01_outdoor_GT`."""
    return SIDE_WORD.sub("", _composed(stem))


def _composed(name: str) -> str:
    """A name with each accent in its letter, as Linux and Windows write it: macOS keeps two characters."""
    return unicodedata.normalize("NFC", name)


def _by_name(paths: Iterable[Path]) -> dict[str, Path]:
    """Files in natural order by their plain names."""
    found: dict[str, Path] = {}
    for path in natural_order(paths):
        if (other := found.setdefault(_plain(path.stem), path)) is not path:
            raise InputError(f"{other.name} and {path.name} in {path.parent} have one name: remove one of them")
    return found


def _truth_of(name: str, truths: Collection[str]) -> str | None:
    """The ground truth that a hazy name belongs to: the same name, or the longest one it continues."""
    if name in truths:
        return name
    ends = [at for at, letter in enumerate(name) if letter in "_/"]
    return next((name[:at] for at in reversed(ends) if name[:at] in truths), None)

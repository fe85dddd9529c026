"""The clips of a dataset: a set of ours, hazy/ beside clear/, or hazy frames and videos alone."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from libranet.data.agreement import refuse_alike_folders
from libranet.data.dataset import DATASET_FILE, Clip, Split, modality_file, open_clips
from libranet.data.frames import FrameFiles, FrameSequence, VideoFrames
from libranet.data.pairs import CLEAR_NAMES, HAZY_NAMES, PairedClip, folder_pairs, open_pairs
from libranet.engine.frame_sources import FrameSource, ImageSource, VideoSource
from libranet.errors import InputError
from libranet.file_names import VIDEO_SUFFIXES
from libranet.frames import ColorConverter, ColorSpec, Frames, PixelLayout
from libranet.images import Image, read_image
from libranet.sequences import describe_gaps, folders_in, is_video_file, leaves, list_frames, list_images, natural_order


@dataclass(frozen=True)
class EvalFrame:
    """One frame of a clip."""

    given: Any  # as its `FrameSource` read it, for `restore`
    hazy: Tensor  # [3, H, W] in [0, 1], 8-bit values
    clear: Tensor | None  # [3, H, W]
    clip: "EvalClip | None" = None  # whose frame it is

    @cached_property
    def guide(self) -> np.ndarray:  # [H, W, 3] 8 bit
        """The clear frame where there is one, else the hazy one: its motion is that of the clip."""
        return to_array(self.hazy if self.clear is None else self.clear)


@dataclass(frozen=True)
class EvalClip:
    """One clip to restore and, where known, its ground truth."""

    name: str
    hazy: FrameSequence
    clear: FrameSequence | None = None
    regime: str = ""
    """The haze regime of a synthetic set; empty elsewhere."""
    rate: float | None = None
    """Frames per second, where they are known."""
    transmission: tuple[Path, ...] = ()
    """Files of the true transmission, one per frame, where the set has them."""
    deinterlace: bool = False
    """Make progressive frames of an interlaced video."""

    def __post_init__(self) -> None:
        if self.clear is not None and self.clear.size != self.hazy.size:
            clear, hazy = (f"{width}x{height}" for width, height in (self.clear.size, self.hazy.size))
            raise InputError(
                f"expected clear frames of the hazy frames' size in clip {self.name}, got {clear} and {hazy}"
            )

    def __len__(self) -> int:
        return len(self.hazy)

    @property
    def gaps(self) -> str:
        """The numbers that are missing among its frames, in words, or nothing."""
        return describe_gaps(self.hazy.paths) if isinstance(self.hazy, FrameFiles) else ""

    @property
    def bits(self) -> int:
        """Bits of the hazy side's samples, of its first frame."""
        return 8 * self.hazy.read(0).itemsize

    @property
    def pair(self) -> PairedClip | None:
        """Both sides, where there are two."""
        return None if self.clear is None else PairedClip(self.name, self.hazy, self.clear)

    def open(self) -> FrameSource:
        """Open the hazy side as `libranet dehaze` opens it."""
        return self._open(self.hazy)

    def read(
        self, source: FrameSource, *, limit: int | None = None, device: str = "cpu"
    ) -> Generator[EvalFrame, None, None]:
        """Read the frames of a source that `open` made, and the clear ones beside them, one pair at a time."""
        clear = None if self.clear is None else self._read_side("clear", self._open(self.clear), device)
        for index, (given, hazy) in enumerate(islice(self._read_side("hazy", source, device), limit)):
            truth = None if clear is None else next(clear, None)
            if clear is not None and truth is None:
                raise InputError(f"clip {self.name}: the clear side ends at frame {index} of {len(self)}")
            yield EvalFrame(given, hazy, None if truth is None else truth[1], self)

    def frames(self, limit: int | None = None) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """Yield hazy and clear frames [H, W, 3] RGB 8 bit in order, one pair at a time."""
        for frame in self.read(self.open(), limit=limit):
            yield to_array(frame.hazy), None if frame.clear is None else to_array(frame.clear)

    def _open(self, frames: FrameSequence) -> FrameSource:
        if isinstance(frames, VideoFrames):
            return VideoSource(frames.path, deinterlace=self.deinterlace)
        if isinstance(frames, FrameFiles):
            return ImageSource(map(read_image, frames.paths), rate=self.rate)
        images = (Image(frames.read(index)) for index in range(len(frames)))
        return ImageSource(images, rate=self.rate)

    def _read_side(self, side: str, source: FrameSource, device: str) -> Iterator[tuple[Any, Tensor]]:
        width, height = self.hazy.size
        for index, given in enumerate(source.frames()):
            image = to_rgb(source.samples(given), device)
            if image.shape[1:] != (height, width):
                raise InputError(
                    f"expected every frame of clip {self.name} to be {width}x{height}, "
                    f"got {image.shape[2]}x{image.shape[1]} for the {side} frame {index}"
                )
            yield given, image


def to_rgb(samples: Frames, device: str | torch.device) -> Tensor:  # [3, H, W] in [0, 1], multiples of 1/255
    """Convert a frame to RGB and round it as an 8-bit file does: every metric is computed on this."""
    rgb = _converter(samples.format.layout, samples.format.color, str(device)).to_rgb(samples.plane_list(0))
    return rgb[0].mul_(255.0).round_().div_(255.0)


@lru_cache(maxsize=8)
def _converter(layout: PixelLayout, color: ColorSpec, device: str) -> ColorConverter:
    return ColorConverter(layout, color, device=device)


def to_array(image: Tensor) -> np.ndarray:  # [3, H, W] in [0, 1] -> [H, W, 3] 8 bit
    """Return a frame as an image file holds it."""
    return (image * 255.0).round().to(torch.uint8).permute(1, 2, 0).contiguous().cpu().numpy()


def open_dataset(
    path: str | Path,
    *,
    clear: str | Path | None = None,
    all_hazy: bool = False,
    split: Split = "test",
    stills: bool = False,
    deinterlace: bool = False,
) -> list[EvalClip]:
    """List the clips of the dataset at `path`.

    A folder with dataset.json is a set of ours; its `split` part is used, or all of it if that part is empty. A folder
    with two sides (hazy/ and gt/, input/ and target/, ...), or with train/ and test/ that have them, is a paired set of
    photos, of frames, of folders of frames, or of videos. A video, a folder of
    videos, of frames or of folders of frames is an unpaired set.

    Args:
        clear: The folder of its clear side, where `path` is the hazy one.
        all_hazy: Everything at `path` is hazy, whatever the folders' names and contents suggest.
        split: Which part of a set of ours.
        stills: Every image is a clip of its own.
        deinterlace: Make progressive frames of interlaced videos.

    Raises:
        InputError: There is no dataset, or its clips do not fit together.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"no dataset at {path}: check the path")
    if clear is not None:
        clips = _named_by(path, [_from_pair(pair) for pair in folder_pairs(path, clear)])
    elif all_hazy:
        clips = _unpaired(path)
    elif (path / DATASET_FILE).is_file():
        clips = [_from_dataset(clip) for clip in open_clips(path, split) or open_clips(path, "all")]
    else:
        clips = _paired_or_unpaired(path, split)
    if stills:
        clips = [still for clip in clips for still in _split_stills(clip)]
    if not clips:
        raise InputError(f"expected a dataset with at least one clip, and {path} has none")
    names = [clip.name for clip in clips]
    if len(set(names)) < len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise InputError(f"expected different clip names in {path}, got {double!r} twice")
    return [replace(clip, deinterlace=True) for clip in clips] if deinterlace else clips


def _paired_or_unpaired(path: Path, split: Split) -> list[EvalClip]:
    pairs = open_pairs(path, split) if path.is_dir() else None
    if pairs is not None:
        return _named_by(path, [_from_pair(pair) for pair in pairs])
    if path.is_dir():
        found = {child.name.lower(): child for child in path.iterdir() if child.is_dir()}
        for name in CLEAR_NAMES:
            if name in found:
                raise InputError(f"{path} has {found[name].name}/ but no hazy/ beside it: there is nothing to restore")
        named = next((found[name] for name in HAZY_NAMES if name in found), None)
        if named is None:
            refuse_alike_folders(path)
        path = named or path
    return _unpaired(path)


def _named_by(path: Path, clips: list[EvalClip]) -> list[EvalClip]:
    """The clips; a single one that is called `hazy` gets the name of its set."""
    if len(clips) == 1 and clips[0].name.lower() in HAZY_NAMES:
        place = path.resolve()
        return [replace(clips[0], name=(place.parent if place.name == clips[0].name else place).name)]
    return clips


def _from_dataset(clip: Clip) -> EvalClip:
    transmission = tuple(clip.folder / modality_file("transmission", index) for index in range(len(clip)))
    return EvalClip(
        clip.info.name, clip.sequence("hazy"), clip.sequence("clear"), clip.info.regime, clip.info.fps, transmission
    )


def _from_pair(pair: PairedClip) -> EvalClip:
    rate = pair.hazy.rate if isinstance(pair.hazy, VideoFrames) else None
    return EvalClip(pair.name.replace("/", "-"), pair.hazy, pair.clear, rate=rate)


def _split_stills(clip: EvalClip) -> list[EvalClip]:
    if not isinstance(clip.hazy, FrameFiles) or not (clip.clear is None or isinstance(clip.clear, FrameFiles)):
        raise InputError(f"expected image files for stills, and clip {clip.name} is a video")
    clear = [None] * len(clip) if clip.clear is None else [FrameFiles((path,)) for path in clip.clear.paths]
    pairs = zip(clip.hazy.paths, clear, strict=True)
    return [EvalClip(f"{clip.name}-{path.stem}", FrameFiles((path,)), truth, clip.regime) for path, truth in pairs]


def _unpaired(path: Path) -> list[EvalClip]:
    if path.is_file():
        if path.suffix.lower() not in VIDEO_SUFFIXES:
            raise InputError(f"expected a video or a folder, got the file {path}")
        return [_video(path, path.stem)]
    folders = leaves(path)
    videos = [file for place in folders_in(path) for file in natural_order(place.iterdir()) if is_video_file(file)]
    if list_images(path):
        if folders or videos:
            other = (folders + videos)[0].name
            raise InputError(f"{path} holds images and {other} beside them: give the images a folder of their own")
        return [EvalClip(path.resolve().name, FrameFiles(list_frames(path)))]
    clips = [EvalClip(_dashed(folder.relative_to(path)), FrameFiles(list_frames(folder))) for folder in folders]
    return clips + [_video(video, _dashed(video.relative_to(path).with_suffix(""))) for video in videos]


def _video(path: Path, name: str) -> EvalClip:
    frames = VideoFrames(path)
    return EvalClip(name, frames, rate=frames.rate)


def _dashed(name: Path) -> str:
    return name.as_posix().replace("/", "-")

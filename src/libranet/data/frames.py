"""Frames of one clip in order, from image files or from a video, read whole or cropped."""

import bisect
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Protocol

import cv2
import numpy as np

from libranet.atomic import write_atomically
from libranet.data.arrays import Image
from libranet.data.png_bands import encode_png, png_size, read_png_rows
from libranet.errors import InputError, MissingDependencyError

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp"})
VIDEO_SUFFIXES = frozenset({".mp4", ".mkv", ".mov", ".avi", ".webm", ".m4v", ".ts", ".mpg", ".mpeg", ".y4m"})


class Box(NamedTuple):
    """A crop: the part of a frame that is wanted."""

    top: int
    left: int
    height: int
    width: int


class FrameSequence(Protocol):
    """The frames of one clip."""

    def __len__(self) -> int: ...

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        ...

    def read(self, index: int, box: Box | None = None) -> Image:
        """One frame [H, W, 3] RGB, or the part of it inside `box`."""
        ...


@dataclass(frozen=True)
class FrameFiles:
    """One image file per frame."""

    paths: tuple[Path, ...]

    def __len__(self) -> int:
        return len(self.paths)

    @cached_property
    def size(self) -> tuple[int, int]:
        return png_size(self.paths[0]) or read_image(self.paths[0]).shape[1::-1]

    def read(self, index: int, box: Box | None = None) -> Image:
        return read_image(self.paths[index], box)


@dataclass
class VideoFrames:
    """The frames of a video file, addressed by number. Seeks to the key frame before the one asked for."""

    path: Path
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __len__(self) -> int:
        return len(self._index[0])

    @cached_property
    def size(self) -> tuple[int, int]:
        height, width, _ = self.read(0).shape
        return width, height

    def read(self, index: int, box: Box | None = None) -> Image:
        stamps, keys = self._index
        wanted = stamps[index]
        start = keys[max(bisect.bisect_right(keys, wanted) - 1, 0)]
        with self._lock:
            for stamp, image in decode_video(self.path, seek=start):
                if stamp >= wanted:
                    return crop(image, box, self.path)
        raise InputError(f"expected {len(stamps)} frames in {self.path}, but frame {index} does not decode")

    @cached_property
    def _index(self) -> tuple[list[int], list[int]]:
        """Presentation stamps of all frames and of the key frames, read without decoding."""
        av = import_av()
        try:
            with av.open(str(self.path)) as container:
                packets = [
                    (packet.pts, packet.is_keyframe)
                    for packet in container.demux(container.streams.video[0])
                    if packet.pts is not None
                ]
        except (av.FFmpegError, IndexError) as error:
            raise InputError(
                f"could not read {self.path} as a video: {getattr(error, 'strerror', None) or error}"
            ) from error
        if not packets:
            raise InputError(f"expected a video with frames, got none in {self.path}")
        return sorted(stamp for stamp, _ in packets), sorted(stamp for stamp, key in packets if key) or [0]


def decode_video(path: Path, *, seek: int | None = None) -> Iterator[tuple[int, Image]]:
    """Yield presentation stamp and RGB frame of the first video stream, one at a time."""
    av = import_av()
    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise InputError(f"expected a video stream in {path}, found none")
            stream = container.streams.video[0]
            if seek is not None:
                container.seek(seek, stream=stream)
            for frame in container.decode(stream):
                yield frame.pts or 0, frame.to_ndarray(format="rgb24")
    except av.FFmpegError as error:
        raise InputError(f"could not read {path} as a video: {getattr(error, 'strerror', None) or error}") from error


def import_av():  # type: ignore[no-untyped-def]  # the module, which mypy cannot name
    """PyAV, or one sentence that says how to get it."""
    try:
        import av
    except ImportError as error:
        raise MissingDependencyError("reading video files needs PyAV; install it with: pip install av") from error
    return av


def read_image(path: Path, box: Box | None = None) -> Image:  # [H, W, 3] RGB
    """Read an 8-bit image. Our own PNG files are decoded only in the rows of `box`."""
    try:
        if path.suffix.lower() == ".png":
            rows = read_png_rows(path, top=box.top, height=box.height) if box else read_png_rows(path)
            if rows is not None:
                return crop(rows, Box(0, box.left, box.height, box.width), path) if box else rows
        content = np.frombuffer(path.read_bytes(), np.uint8)
    except OSError as error:
        raise InputError(f"could not read the frame {path}: {error.strerror or error}") from error
    image = cv2.imdecode(content, cv2.IMREAD_COLOR) if content.size else None
    if image is None:
        raise InputError(f"expected a whole image, got a damaged or unknown file: {path}")
    return np.ascontiguousarray(crop(np.asarray(image, np.uint8), box, path)[..., ::-1])


def write_image(path: Path, image: Image) -> None:  # [H, W, 3] RGB
    """Write a frame losslessly, whole or not at all."""
    write_atomically(path, encode_png(image))


def crop(image: Image, box: Box | None, path: Path) -> Image:
    """The part of `image` inside `box`; a box that sticks out is a mistake of the caller, told with the file's name."""
    if box is None:
        return image
    height, width = image.shape[:2]
    if min(box.top, box.left) < 0 or box.top + box.height > height or box.left + box.width > width:
        raise InputError(f"expected a crop inside {width}x{height}, got {tuple(box)} of {path}")
    return image[box.top : box.top + box.height, box.left : box.left + box.width]


def list_images(folder: Path) -> tuple[Path, ...]:
    """The image files of a folder by name."""
    return tuple(sorted(path for path in folder.iterdir() if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file()))

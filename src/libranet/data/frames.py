"""The frames of one clip, from image files or a video, read whole or cropped, in 8 or 16 bits as they are stored."""

import bisect
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, TypeAlias

import cv2
import numpy as np

from libranet.atomic import write_atomically
from libranet.data.png_bands import encode_png, read_png_rows
from libranet.errors import InputError, MissingDependencyError
from libranet.images import check_image_file

logger = logging.getLogger(__name__)

RgbImage: TypeAlias = np.ndarray  # a frame or photo: [H, W, 3], RGB, 8 bit
RgbSamples: TypeAlias = np.ndarray  # a frame as it is stored: [H, W, 3], RGB, uint8 or uint16


class Box(NamedTuple):
    """A crop of a frame, in pixels."""

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

    def size_of(self, index: int) -> tuple[int, int]:
        """Width and height of one frame, by its header where it has one."""
        ...

    def read(self, index: int, box: Box | None = None) -> RgbSamples:
        """Read one frame [H, W, 3] RGB, or its part inside `box`."""
        ...


@dataclass(frozen=True)
class FrameFiles:
    """One image file per frame."""

    paths: tuple[Path, ...]

    def __len__(self) -> int:
        return len(self.paths)

    @cached_property
    def size(self) -> tuple[int, int]:
        # Decoders turn a JPEG by its EXIF orientation, which is not in its header.
        return self.size_of(0) if self.paths[0].suffix.lower() == ".png" else self.read(0).shape[1::-1]

    def size_of(self, index: int) -> tuple[int, int]:
        return check_frame_file(self.paths[index]) or self.read(index).shape[1::-1]

    def read(self, index: int, box: Box | None = None) -> RgbSamples:
        return read_samples(self.paths[index], box)


@dataclass(frozen=True)
class VideoFrames:
    """The frames of a video file, addressed by number. Each read opens the file and seeks to the last key frame."""

    path: Path

    def __len__(self) -> int:
        return len(self._index[0])

    @cached_property
    def size(self) -> tuple[int, int]:
        height, width, _ = self.read(0).shape
        return width, height

    def size_of(self, index: int) -> tuple[int, int]:
        return self.size

    @cached_property
    def rate(self) -> float | None:
        """Frames per second, or None where the file does not say."""
        with _open_video(self.path) as (_, stream):
            rate = stream.average_rate or stream.guessed_rate
        return float(rate) if rate else None

    def read(self, index: int, box: Box | None = None) -> RgbSamples:
        stamps, keys = self._index
        start = keys[max(bisect.bisect_right(keys, stamps[index]) - 1, 0)]
        for frame in decode_video(self.path, seek=start):
            if (frame.pts or 0) >= stamps[index]:
                deep = max(component.bits for component in frame.format.components) > 8
                return crop_image(frame.to_ndarray(format="rgb48le" if deep else "rgb24"), box, self.path)
        raise InputError(f"expected {len(stamps)} frames in {self.path}, but frame {index} does not decode")

    def key_before(self, index: int) -> int:
        """The last frame up to this one that is read without decoding others."""
        stamps, keys = self._index
        return bisect.bisect_left(stamps, keys[max(bisect.bisect_right(keys, stamps[index]) - 1, 0)])

    @cached_property
    def _index(self) -> tuple[list[int], list[int]]:
        """Presentation timestamps of all frames and of the key frames, found without decoding."""
        with _open_video(self.path) as (container, stream):
            packets = [(p.pts, p.is_keyframe) for p in container.demux(stream) if p.pts is not None]
        if not packets:
            raise InputError(f"expected a video with frames, got none in {self.path}")
        return sorted(stamp for stamp, _ in packets), sorted(stamp for stamp, key in packets if key) or [0]


def decode_video(path: Path, *, seek: int | None = None) -> Iterator[Any]:  # av.VideoFrame
    """Yield the PyAV frames of the first video stream, from the key frame at or before the timestamp `seek`."""
    with _open_video(path) as (container, stream):
        if seek is not None:
            container.seek(seek, stream=stream)
        yield from container.decode(stream)


@contextmanager
def _open_video(path: Path) -> Iterator[tuple[Any, Any]]:  # container and first video stream
    try:
        import av
    except ImportError as error:
        raise MissingDependencyError("reading video files needs PyAV; install it with: pip install av") from error
    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise InputError(f"expected a video stream in {path}, found none")
            yield container, container.streams.video[0]
    except av.FFmpegError as error:
        raise InputError(f"could not read {path} as a video: {getattr(error, 'strerror', None) or error}") from error


def check_frame_file(path: Path) -> tuple[int, int] | None:
    """Read width and height of an image file from its header; None where only decoding tells them.

    Raises:
        InputError: The file is missing or empty, has several images, or colours that would be read as others.
    """
    header = check_image_file(path)
    if header.frames > 1:
        raise InputError(f"{path} holds {header.frames} images: write each frame to a file of its own first")
    return (header.width, header.height) if header.width else None


def read_rgb(path: Path) -> RgbImage:  # [H, W, 3] RGB
    """Read an image in 8 bits. A folder of deeper images is named once, because this rounds them."""
    check_frame_file(path)
    samples = read_samples(path)
    if samples.dtype != np.uint8:
        _name_rounding(path.parent)
    return to_8_bit(samples)


def to_8_bit(samples: RgbSamples) -> RgbImage:
    """Round samples of 16 bits to the nearest of 8."""
    return samples if samples.dtype == np.uint8 else ((samples.astype(np.uint32) + 128) // 257).astype(np.uint8)


@cache
def _name_rounding(folder: Path) -> None:
    logger.warning("the 16-bit images in %s are rounded to 8 bits here", folder)


def read_samples(path: Path, box: Box | None = None) -> RgbSamples:  # [H, W, 3] RGB
    """Read an image in its 8 or 16 bits. Of a PNG in bands, only the rows of `box` are decoded."""
    try:
        with path.open("rb") as file:
            return read_image_at(file, path, box)
    except OSError as error:
        raise InputError(f"could not read the frame {path}: {error.strerror or error}") from error


def read_image_at(file: BinaryIO, path: object, box: Box | None, size: int = -1) -> RgbSamples:  # [H, W, 3] RGB
    """Read an image of so many bytes from where the file stands; `path` is for messages."""
    start = file.tell()
    rows = read_png_rows(file, path, *((box.top, box.height) if box else ()))
    if rows is not None:
        return crop_image(rows, Box(0, box.left, box.height, box.width), path) if box else rows
    file.seek(start)
    content = np.frombuffer(file.read(size), np.uint8)
    image = cv2.imdecode(content, cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH) if content.size else None
    if image is None:
        raise InputError(f"expected a whole image, got a damaged or unknown file: {path}")
    if image.dtype not in (np.uint8, np.uint16):
        raise InputError(f"expected an image of 8 or 16 bits, got {image.dtype} in {path}: convert it to 16-bit PNG")
    return np.ascontiguousarray(crop_image(image, box, path)[..., ::-1])


def write_png(path: Path, image: RgbImage) -> None:  # [H, W, 3] RGB
    write_atomically(path, encode_png(image))


def crop_image(image: RgbSamples, box: Box | None, path: object) -> RgbSamples:
    """Return the part of a frame inside `box`. `path` is for the message."""
    if box is None:
        return image
    height, width = image.shape[:2]
    if min(box.top, box.left) < 0 or box.top + box.height > height or box.left + box.width > width:
        raise InputError(f"expected a crop inside {width}x{height}, got {tuple(box)} of {path}")
    return image[box.top : box.top + box.height, box.left : box.left + box.width]

"""Image files: 8 and 16 bit, gray, colour and alpha, with their EXIF, XMP and colour profile."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np

from libranet.atomic import atomic_file
from libranet.errors import InputError

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp")
_DEEP = (".png", ".tif", ".tiff")
_METADATA_READERS = (".png", ".jpg", ".jpeg", ".webp")


@dataclass(frozen=True)
class Image:
    """An image as its file stores it. The orientation of EXIF is kept, not applied."""

    samples: np.ndarray  # [H, W, C] with C = 1 (gray), 3 (RGB) or 4 (RGB and alpha), uint8 or uint16
    metadata_types: tuple[int, ...] = ()
    metadata: Sequence[np.ndarray] = field(default=())

    @property
    def rgb(self) -> np.ndarray:  # [H, W, 3]
        """The colour channels; gray is repeated three times."""
        return np.repeat(self.samples, 3, axis=2) if self.samples.shape[2] == 1 else self.samples[..., :3]

    @property
    def peak(self) -> int:
        """The largest value."""
        return int(np.iinfo(self.samples.dtype).max)


def is_image_name(path: str | Path) -> bool:
    """Return whether the suffix is that of an image file."""
    return Path(path).suffix.lower() in IMAGE_SUFFIXES


def read_image(path: str | Path) -> Image:
    """Read an image file.

    Raises:
        InputError: The file is missing, empty, or no 8 or 16 bit image.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file {path}: check the path")
    data = np.fromfile(path, np.uint8)
    if data.size == 0:
        raise InputError(f"{path} is empty (0 bytes): copy it again")
    types: Sequence[int] = ()
    metadata: Sequence[np.ndarray] = ()
    array = None
    if path.suffix.lower() in _METADATA_READERS and hasattr(cv2, "imdecodeWithMetadata"):
        array, types, metadata = cv2.imdecodeWithMetadata(data, flags=cv2.IMREAD_UNCHANGED)
    if array is None:
        array = cv2.imdecode(data, cv2.IMREAD_UNCHANGED)
    if array is None or array.dtype not in (np.uint8, np.uint16):
        raise InputError(f"{path} is not an 8 or 16 bit image that OpenCV can read: convert it to PNG first")
    return Image(_swap_red_and_blue(array), tuple(int(kind) for kind in types), metadata)


def write_image(path: str | Path, image: Image) -> None:
    """Write an image file. It appears under its name only when complete.

    Raises:
        InputError: The format is unknown or cannot hold this image.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in IMAGE_SUFFIXES:
        raise InputError(
            f"cannot write an image to a {suffix or 'nameless'} file: use one of {', '.join(IMAGE_SUFFIXES)}"
        )
    samples = image.samples
    if samples.dtype == np.uint16 and suffix not in _DEEP:
        raise InputError(f"{suffix} holds 8 bit only and this image has 16: write to .png or .tif")
    parameters = [cv2.IMWRITE_JPEG_QUALITY, 96] if suffix in (".jpg", ".jpeg") else []
    array = _swap_red_and_blue(samples)
    if image.metadata_types and suffix in _METADATA_READERS:
        ok, data = cv2.imencodeWithMetadata(
            suffix, array, list(image.metadata_types), list(image.metadata), params=parameters
        )
    else:
        ok, data = cv2.imencode(suffix, array, parameters)
    if not ok:
        raise InputError(f"OpenCV cannot write {path}: choose .png")
    with atomic_file(path) as temporary:
        temporary.write_bytes(data.tobytes())


def _swap_red_and_blue(array: np.ndarray) -> np.ndarray:
    if array.ndim == 2:
        return array[..., None]
    if array.shape[2] == 3:
        return np.ascontiguousarray(array[..., ::-1])
    if array.shape[2] == 4:
        return np.ascontiguousarray(array[..., [2, 1, 0, 3]])
    return array

"""Image files: 8 and 16 bit, gray, colour and alpha, with their EXIF, XMP and colour profile, animations and pages."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import cv2
import numpy as np

from libranet.atomic import atomic_file
from libranet.errors import InputError
from libranet.image_structure import ImageHeader, exif_orientation, find_image_damage, read_header, with_tiff_profile

logger = logging.getLogger(__name__)

MAX_PIXELS = 1 << 27
"""Larger images need more memory than the network can be given."""
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp")
_DEEP = (".png", ".tif", ".tiff")
ANIMATED_SUFFIXES = (".png", ".webp", ".tif", ".tiff")
"""Formats that hold more than one image."""
_TIFF = (".tif", ".tiff")
_METADATA_READERS = (".png", ".jpg", ".jpeg", ".webp")
# OpenCV before 4.12 has no metadata: images have none then, and these numbers meet nothing.
_EXIF, _XMP, _ICC = (getattr(cv2, f"IMAGE_METADATA_{name}", -1) for name in ("EXIF", "XMP", "ICCP"))
_TURNS = {1: 0, 2: 0, 3: 2, 4: 2, 5: 1, 6: 3, 7: 3, 8: 1}
_MIRRORED = (2, 4, 5, 7)
"""EXIF orientations: quarter turns counter-clockwise, and those that are mirrored first."""


@dataclass(frozen=True)
class Image:
    """An image as its file stores it. The orientation of EXIF is kept, not applied."""

    samples: np.ndarray  # [H, W, C] with C = 1 (gray), 3 (RGB) or 4 (RGB and alpha), uint8 or uint16
    metadata_types: tuple[int, ...] = ()
    metadata: Sequence[np.ndarray] = field(default=())
    tiff_profile: bytes = b""
    """Colour profile of a TIFF file, which OpenCV does not read."""
    extras: tuple[str, ...] = ()
    """What its file says besides, and OpenCV does not read."""

    @property
    def rgb(self) -> np.ndarray:  # [H, W, 3]
        """The colour channels; gray is repeated three times."""
        return np.repeat(self.samples, 3, axis=2) if self.samples.shape[2] == 1 else self.samples[..., :3]

    @property
    def orientation(self) -> tuple[int, bool]:
        """Quarter turns counter-clockwise that show it upright, and whether it is mirrored before that."""
        value = exif_orientation(self._metadata(_EXIF))
        return _TURNS[value], value in _MIRRORED

    @property
    def profile(self) -> bytes:
        """The colour profile, or nothing."""
        return self.tiff_profile or self._metadata(_ICC)

    def lost_in(self, suffix: str, *, several: bool = False) -> tuple[str, ...]:
        """Return the names of what a file of another format, or an animation or pages in it, cannot take over."""
        held = suffix in _METADATA_READERS and not several
        known = {_EXIF: "EXIF", _XMP: "XMP"}
        names = [known.get(kind, "metadata") for kind in self.metadata_types if kind != _ICC and not held]
        if self.profile and not held and suffix not in _TIFF:
            names.append("colour profile")
        return tuple(dict.fromkeys([*names, *self.extras]))

    def _metadata(self, wanted: int) -> bytes:
        found = zip(self.metadata_types, self.metadata, strict=True)
        return next((data.tobytes() for kind, data in found if kind == wanted), b"")

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
        InputError: The file is missing, empty, too large, or no 8 or 16 bit image.
    """
    path = Path(path)
    header = _check(path)
    data = np.fromfile(path, np.uint8)
    array: np.ndarray | None = None
    types: Sequence[int] = ()
    metadata: Sequence[np.ndarray] = ()
    with suppress(cv2.error):
        if path.suffix.lower() in _METADATA_READERS and hasattr(cv2, "imdecodeWithMetadata"):
            array, types, metadata = cv2.imdecodeWithMetadata(data, flags=cv2.IMREAD_UNCHANGED)
        if array is None:
            array = cv2.imdecode(data, cv2.IMREAD_UNCHANGED)
    return Image(_samples(path, array), tuple(map(int, types)), metadata, header.profile, header.extras)


def count_images(path: str | Path) -> int:
    """Return the number of frames or pages of an image file."""
    header = read_header(path)
    return 1 if header is None else header.frames


def read_images(path: str | Path) -> Iterator[tuple[Image, float]]:
    """Yield the frames of an animation or the pages of a TIFF file, and how long each is shown, in seconds.

    Raises:
        InputError: The file cannot be read.
    """
    path = Path(path)
    header = _check(path)
    if path.suffix.lower() in _TIFF:
        for index in range(header.frames):
            page = None
            with suppress(cv2.error):
                ok, pages = cv2.imreadmulti(str(path), start=index, count=1, flags=cv2.IMREAD_UNCHANGED)
                page = pages[0] if ok else None
            samples = _samples(path, page)
            yield Image(samples, tiff_profile=header.profile, extras=header.extras), 0.0
        return
    ok = False
    with suppress(cv2.error):
        ok, animation = cv2.imreadanimation(str(path))
    if not ok:
        raise InputError(f"{path} is an animation that OpenCV cannot read: convert it to a video first")
    first = read_image(path)
    for frame, duration in zip(animation.frames, animation.durations, strict=True):
        yield replace(first, samples=_samples(path, frame)), duration / 1000


def read_loops(path: str | Path) -> int:
    """Return how many times an animation is shown; 0 is endless."""
    with suppress(cv2.error):
        ok, animation = cv2.imreadanimation(str(path), count=1)
        return int(animation.loop_count) if ok else 0
    return 0


def write_images(path: str | Path, images: Sequence[Image], durations: Sequence[float], *, loops: int = 0) -> None:
    """Write an animation (.png, .webp) or the pages of a .tif file, without loss.

    The images have one size, durations are in seconds, and an animation without `loops` is endless.
    """
    path = Path(path)
    arrays = [np.ascontiguousarray(_swap_red_and_blue(image.samples)) for image in images]
    suffix = path.suffix.lower()
    with atomic_file(path, suffix=suffix) as temporary:
        if suffix in _TIFF:
            ok = cv2.imwritemulti(str(temporary), arrays)
            if ok and images[0].profile:
                temporary.write_bytes(with_tiff_profile(temporary.read_bytes(), images[0].profile))
        else:
            animation = cv2.Animation()
            animation.loop_count = loops
            animation.frames = arrays
            animation.durations = [max(1, round(1000 * duration)) for duration in durations]
            ok = cv2.imwriteanimation(str(temporary), animation, [cv2.IMWRITE_WEBP_QUALITY, 101])
        if not ok:
            raise InputError(f"OpenCV cannot write an animation to {path}: choose .png, .webp or .tif")


def _check(path: Path) -> ImageHeader:
    """Refuse what cannot work before decoding."""
    if not path.is_file():
        raise InputError(f"there is no file {path}: check the path")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty (0 bytes): copy it again")
    header = read_header(path)
    if header is None:
        return ImageHeader(0, 0)
    if header.width * header.height > MAX_PIXELS:
        raise InputError(
            f"{path} is {header.width}x{header.height}: images of more than {MAX_PIXELS >> 20} million pixels do not "
            "fit into memory, cut it into parts first"
        )
    if header.cmyk:
        raise InputError(f"{path} is a CMYK image for printing: convert it to RGB first")
    return header


def _samples(path: Path, array: np.ndarray | None) -> np.ndarray:
    if array is None and (damage := find_image_damage(path)):
        raise InputError(f"{path} cannot be read ({damage}): copy it again")
    if array is None or array.dtype not in (np.uint8, np.uint16):
        raise InputError(f"{path} is not an 8 or 16 bit image that OpenCV can read: convert it to PNG first")
    return _swap_red_and_blue(array)


def check_image_name(path: str | Path) -> None:
    """Refuse to write an image to a file whose suffix is none of an image.

    Raises:
        InputError: The suffix is another.
    """
    if not is_image_name(path):
        suffix, known = Path(path).suffix.lower(), ", ".join(IMAGE_SUFFIXES)
        raise InputError(f"cannot write an image to a {suffix or 'nameless'} file: use one of {known}")


def check_image_fits(path: str | Path, image: Image, *, several: bool = False) -> None:
    """Refuse a format that cannot hold an image, or an animation or pages of such, before anything is computed.

    Raises:
        InputError: The format is unknown or cannot hold this image.
    """
    check_image_name(path)
    suffix = Path(path).suffix.lower()
    if image.samples.dtype == np.uint16 and suffix not in (_TIFF if several else _DEEP):
        other = ".tif" if several else ".png or .tif"
        raise InputError(f"{suffix} holds 8 bit only and this image has 16: write to {other}")


def write_image(path: str | Path, image: Image) -> None:
    """Write an image file. It appears under its name only when complete.

    Raises:
        InputError: The format is unknown or cannot hold this image.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    check_image_fits(path, image)
    parameters = [cv2.IMWRITE_JPEG_QUALITY, 96] if suffix in (".jpg", ".jpeg") else []
    array, ok = _swap_red_and_blue(image.samples), False
    types, metadata = list(image.metadata_types), list(image.metadata)
    if image.tiff_profile and hasattr(cv2, "imencodeWithMetadata"):
        types, metadata = [*types, _ICC], [*metadata, np.frombuffer(image.tiff_profile, np.uint8)]
    if types and suffix in _METADATA_READERS:
        ok, data = cv2.imencodeWithMetadata(suffix, array, types, metadata, params=parameters)
        if not ok:
            logger.warning("%s is written without its metadata: OpenCV refuses its EXIF, XMP or colour profile", path)
    if not ok:
        ok, data = cv2.imencode(suffix, array, parameters)
    if not ok:
        raise InputError(f"OpenCV cannot write {path}: choose .png")
    content = data.tobytes()
    if image.profile and suffix in _TIFF:
        content = with_tiff_profile(content, image.profile)
    with atomic_file(path) as temporary:
        temporary.write_bytes(content)


def _swap_red_and_blue(array: np.ndarray) -> np.ndarray:
    if array.ndim == 2:
        return array[..., None]
    orders = {3: cv2.COLOR_BGR2RGB, 4: cv2.COLOR_BGRA2RGBA}
    return cv2.cvtColor(array, orders[array.shape[2]]) if array.shape[2] in orders else array

"""Image files: 8 and 16 bit, gray, colour and alpha, with everything that they say besides, animations and pages."""

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np

from libranet.atomic import atomic_file
from libranet.errors import InputError
from libranet.file_names import IMAGE_SUFFIXES, is_image_name
from libranet.frames.values import MAX_PIXELS
from libranet.image_metadata import NO_METADATA, ImageMetadata, read_metadata, with_metadata
from libranet.image_structure import ImageHeader, find_image_damage, parse_header, read_header
from libranet.tiff_fields import EXTRA_SAMPLES, as_stored, read_integers, read_pages

_DEEP = (".png", ".tif", ".tiff")
ANIMATED_SUFFIXES = (".png", ".webp", ".tif", ".tiff")
"""Formats that hold more than one image."""
_TIFF = (".tif", ".tiff")
_LOSSLESS = (".png", ".tif", ".tiff", ".bmp", ".webp")
_UNKNOWN = ImageHeader(0, 0)
_OTHER, _ASSOCIATED, _ALPHA = 0, 1, 2
"""What a TIFF file calls its fourth channel: anything, alpha that its colours are multiplied by, alpha."""
_SAMPLING = {
    (2, 2): cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420, (2, 1): cv2.IMWRITE_JPEG_SAMPLING_FACTOR_422,
    (1, 2): cv2.IMWRITE_JPEG_SAMPLING_FACTOR_440, (4, 1): cv2.IMWRITE_JPEG_SAMPLING_FACTOR_411,
}  # fmt: skip
_TURNS = {1: 0, 2: 0, 3: 2, 4: 2, 5: 1, 6: 3, 7: 3, 8: 1}
_TIFF_COMPRESSIONS = (1, 5, 8, 32773, 32946)
"""Those without loss that every OpenCV writes: none, LZW, deflate, PackBits."""
_MIRRORED = (2, 4, 5, 7)
"""EXIF orientations: quarter turns counter-clockwise, and those that are mirrored first."""


@dataclass(frozen=True)
class Image:
    """An image as its file stores it. The orientation of EXIF is kept, not applied."""

    samples: np.ndarray  # [H, W, C] with C = 1 (gray), 3 (RGB) or 4 (RGB and alpha), uint8 or uint16
    metadata: ImageMetadata = NO_METADATA
    """What its file says besides."""
    stored: ImageHeader = _UNKNOWN
    """How its file stores it."""
    fourth: int = _ALPHA
    """What a TIFF file calls its fourth channel. The colours here are not multiplied."""

    @property
    def rgb(self) -> np.ndarray:  # [H, W, 3]
        """The colour channels; gray is repeated three times."""
        return np.repeat(self.samples, 3, axis=2) if self.samples.shape[2] == 1 else self.samples[..., :3]

    @property
    def orientation(self) -> tuple[int, bool]:
        """Quarter turns counter-clockwise that show it upright, and whether it is mirrored before that."""
        value = self.metadata.orientation
        return _TURNS[value], value in _MIRRORED

    @property
    def peak(self) -> int:
        """The largest value."""
        return int(np.iinfo(self.samples.dtype).max)


def read_image(path: str | Path) -> Image:
    """Read an image file.

    Raises:
        InputError: The file is missing, empty, too large, or no 8 or 16 bit image.
    """
    path = Path(path)
    header = check_image_file(path)
    return _read(path, path.read_bytes(), header)


def _read(path: Path, data: bytes, header: ImageHeader) -> Image:
    array: np.ndarray | None = None
    with _quiet(), suppress(cv2.error):
        array = cv2.imdecode(np.frombuffer(_decodable(path, data), np.uint8), cv2.IMREAD_UNCHANGED)
    image = Image(_with_clear_gray(_samples(path, array, header), header), read_metadata(data), header)
    return _told(image, _fourth(path, data))


def _with_clear_gray(samples: np.ndarray, header: ImageHeader) -> np.ndarray:
    """Add the alpha of a gray PNG file that calls one gray transparent, which OpenCV reads for colours alone."""
    if header.clear_gray < 0 or samples.shape[2] != 1:
        return samples
    alpha = np.where(samples == header.clear_gray, 0, np.iinfo(samples.dtype).max).astype(samples.dtype)
    return np.concatenate([samples, samples, samples, alpha], axis=2)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep OpenCV from writing to the terminal: it names every tag that it does not know, and our errors are enough."""
    before = cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
    try:
        yield
    finally:
        cv2.utils.logging.setLogLevel(before)


def _decodable(path: Path, data: bytes) -> bytes:
    if path.suffix.lower() not in _TIFF:
        return data
    with suppress(struct.error):
        return as_stored(data)
    return data


def _fourth(path: Path, data: bytes) -> int:
    if path.suffix.lower() not in _TIFF:
        return _ALPHA
    with suppress(struct.error, StopIteration):
        return next(iter(read_integers(data, next(read_pages(data)), EXTRA_SAMPLES)), _ALPHA)
    return _ALPHA


def _told(image: Image, fourth: int) -> Image:
    """The image of a file that says so of its fourth channel."""
    if image.samples.shape[2] != 4 or fourth not in (_OTHER, _ASSOCIATED):
        return image
    return _separated(image) if fourth == _ASSOCIATED else replace(image, fourth=fourth)


def _separated(image: Image) -> Image:
    """Divide the colours by the alpha. `_multiplied` gives the same samples again, to the bit."""
    colours, alpha = image.samples[..., :3].astype(np.float64), image.samples[..., 3:].astype(np.float64)
    divided = np.minimum(np.rint(colours * image.peak / np.maximum(alpha, 1)), image.peak)
    samples = np.concatenate([divided, alpha], axis=2).astype(image.samples.dtype)
    return replace(image, samples=samples, fourth=_ASSOCIATED)


def _multiplied(image: Image) -> np.ndarray:
    if image.fourth != _ASSOCIATED or image.samples.shape[2] != 4:
        return image.samples
    colours, alpha = image.samples[..., :3].astype(np.float64), image.samples[..., 3:].astype(np.float64)
    return np.concatenate([np.rint(colours * alpha / image.peak), alpha], axis=2).astype(image.samples.dtype)


def count_images(path: str | Path) -> int:
    """Return the number of frames or pages of an image file."""
    header = read_header(path)
    if header is not None:
        return header.frames
    with suppress(cv2.error):  # a GIF file, say
        return max(1, cv2.imcount(str(path)))
    return 1


def read_images(path: str | Path) -> Iterator[tuple[Image, float]]:
    """Yield the frames of an animation or the pages of a TIFF file, and how long each is shown, in seconds.

    Raises:
        InputError: The file cannot be read.
    """
    path = Path(path)
    header = check_image_file(path)
    if path.suffix.lower() in _TIFF:
        data = path.read_bytes()
        stored, metadata = np.frombuffer(_decodable(path, data), np.uint8), read_metadata(data)
        fourth = _fourth(path, data)
        for index in range(header.frames):
            page = None
            with _quiet(), suppress(cv2.error):
                ok, pages = cv2.imdecodemulti(stored, cv2.IMREAD_UNCHANGED, range=(index, index + 1))
                page = pages[0] if ok else None
            image = Image(_samples(path, page, header), metadata, header)
            yield _told(image, fourth), 0.0
        return
    ok = False
    with suppress(cv2.error):
        ok, animation = cv2.imreadanimation(str(path))
    if not ok:
        raise InputError(f"{path} is an animation that OpenCV cannot read: convert it to a video first")
    first = read_image(path)
    for frame, duration in zip(animation.frames, animation.durations, strict=True):
        yield replace(first, samples=_samples(path, frame, header)), duration / 1000


def read_loops(path: str | Path) -> int:
    """Return how many times an animation is shown; 0 is endless."""
    with suppress(cv2.error):
        ok, animation = cv2.imreadanimation(str(path), count=1)
        return int(animation.loop_count) if ok else 0
    return 0


def write_images(
    path: str | Path, images: Sequence[Image], durations: Sequence[float], *, loops: int = 0
) -> tuple[str, ...]:
    """Write an animation (.png, .webp) or the pages of a .tif file, without loss.

    The images have one size, durations are in seconds, and an animation without `loops` is endless. Return a sentence
    for everything that the file does not give back.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    given, images = images, [_fitting(image, suffix) for image in images]
    first = images[0]
    stored = [_multiplied(image) if suffix in _TIFF else image.samples for image in images]
    arrays = [np.ascontiguousarray(_swap_red_and_blue(samples)) for samples in stored]
    with atomic_file(path, suffix=suffix) as temporary:
        if suffix in _TIFF:
            ok = cv2.imwritemulti(str(temporary), arrays, _coding(suffix, first.stored))
        else:
            animation = cv2.Animation()
            animation.loop_count = loops
            animation.frames = arrays
            animation.durations = [max(1, round(1000 * duration)) for duration in durations]
            ok = cv2.imwriteanimation(str(temporary), animation, [cv2.IMWRITE_WEBP_QUALITY, 101])
        if not ok:
            raise InputError(f"OpenCV cannot write an animation to {path}: choose .png, .webp or .tif")
        content = with_metadata(temporary.read_bytes(), first.metadata, first.samples.shape[2], fourth=first.fourth)
        temporary.write_bytes(content)
        back = read_metadata(content)
        count = getattr(parse_header(content), "frames", 0)
        pairs = zip(images, read_images(temporary), strict=True) if count == len(images) else ()
        changed = dict.fromkeys(_changed(image, found.samples, suffix) for image, (found, _) in pairs)
    lost = [
        *first.metadata.lost_in(back),
        *(["the fourth channel, which is no alpha"] if first is not given[0] else []),
        *(["times of the frames, loops"] if suffix in _TIFF and any(durations) else []),
    ]
    notes = [*([_left_out(lost, suffix)] if lost else []), *filter(None, changed)]
    if count != len(images):  # encoders of animations join frames that are alike
        notes.append(f"{len(images)} frames became {count}: equal ones are stored once, and shown as long")
    return tuple(notes)


def _left_out(names: Sequence[str], suffix: str) -> str:
    return f"not in the {suffix} file: {', '.join(names)}"


def check_image_file(path: Path) -> ImageHeader:
    """Refuse what cannot work before decoding, and return the header, of size 0 where it cannot be read."""
    if not path.is_file():
        raise InputError(f"there is no file {path}: check the path")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty (0 bytes): copy it again")
    header = read_header(path)
    if header is None:
        return _UNKNOWN
    if header.width * header.height > MAX_PIXELS:
        raise InputError(
            f"{path} is {header.width}x{header.height}: images of more than {MAX_PIXELS >> 20} million pixels do not "
            "fit into memory, cut it into parts first"
        )
    if header.apart:
        raise InputError(
            f"{path} stores its channels apart, with more than 8 bits: convert it to interleaved TIFF or PNG"
        )
    if header.foreign:
        raise InputError(f"{path} is a {header.foreign}: convert it to RGB or gray of 8 or 16 bits without sign first")
    return header


def _samples(path: Path, array: np.ndarray | None, header: ImageHeader) -> np.ndarray:
    if array is None and (damage := find_image_damage(path)):
        raise InputError(f"{path} cannot be read ({damage}): copy it again")
    if array is None or array.dtype not in (np.uint8, np.uint16):
        raise InputError(f"{path} is not an 8 or 16 bit image that OpenCV can read: convert it to PNG first")
    if 8 < header.bits < 16:  # OpenCV only shifts them: white would become gray
        array = array | array >> header.bits
    return _swap_red_and_blue(array)


def check_image_name(path: str | Path) -> None:
    """Refuse to write an image to a file whose suffix is none of an image.

    Raises:
        InputError: The suffix is another.
    """
    if not is_image_name(path):
        suffix, known = Path(path).suffix.lower(), ", ".join(IMAGE_SUFFIXES)
        ending = f"a {suffix} file" if suffix else "a file without an ending"
        raise InputError(f"cannot write an image to {ending}: use one of {known}, or end the name with / for a folder")


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


def check_images_fit(path: str | Path, images: Sequence[Image]) -> None:
    """Refuse a format that cannot hold these frames or pages, before anything is computed.

    Raises:
        InputError: The format is unknown or cannot hold one of them, or not all of them together.
    """
    for image in images:
        check_image_fits(path, image, several=True)
    suffix = Path(path).suffix.lower()
    kinds = {image.samples.shape for image in images}
    if len(kinds) > 1 and suffix not in _TIFF:
        found = ", ".join(sorted(f"{width}x{height}x{channels}" for height, width, channels in kinds))
        raise InputError(
            f"frames of a {suffix} file have one size and one number of channels, got {found}: write to .tif"
        )


def _fitting(image: Image, suffix: str) -> Image:
    """The image without a fourth channel that is no alpha, where the format has no place for one."""
    if image.fourth != _OTHER or suffix in _TIFF or image.samples.shape[2] != 4:
        return image
    return replace(image, samples=np.ascontiguousarray(image.samples[..., :3]))


def write_image(path: str | Path, image: Image) -> tuple[str, ...]:
    """Write an image file and read it back. It appears under its name only when complete.

    Returns:
        A sentence for everything that the file does not give back.

    Raises:
        InputError: The format is unknown or cannot hold this image.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    check_image_fits(path, image)
    given, image = image, _fitting(image, suffix)
    samples = _multiplied(image) if suffix in _TIFF else image.samples
    ok, data = cv2.imencode(suffix, _swap_red_and_blue(samples), _coding(suffix, image.stored))
    if not ok:
        raise InputError(f"OpenCV cannot write {path}: choose .png")
    channels = image.samples.shape[2]
    content = with_metadata(data.tobytes(), image.metadata, channels, fourth=image.fourth)
    with atomic_file(path) as temporary:
        temporary.write_bytes(content)
        back = _read(path, temporary.read_bytes(), parse_header(content) or _UNKNOWN)
    lost = list(image.metadata.lost_in(back.metadata))
    # OpenCV reads gray with alpha as gray.
    if (channels == 4 and back.samples.shape[2] != 4) or (channels == 1 and image.stored.channels == 2):
        lost.insert(0, "alpha")
    if image is not given:
        lost.insert(0, "the fourth channel, which is no alpha")
    notes = [_left_out(lost, suffix)] if lost else []
    if suffix in _LOSSLESS and "alpha" not in lost and (note := _changed(image, back.samples, suffix)):
        notes.append(note)
    return tuple(notes)


def _changed(image: Image, found: np.ndarray, suffix: str) -> str:
    """Say how the samples of a lossless file differ from those that went in, or nothing."""
    wanted = image.rgb if found.shape[2] == 3 and image.samples.shape[2] == 1 else image.samples  # WebP has no gray
    if np.array_equal(found, wanted):
        return ""
    where = "under transparent pixels " if _is_visible_equal(found, wanted) else ""
    remedy = ": .png and .tif keep them" if suffix not in _DEEP else ""
    return f"colours {where}changed in the {suffix} file{remedy}"


def _is_visible_equal(found: np.ndarray, wanted: np.ndarray) -> bool:
    """Return whether two images differ at most where nothing of them is seen."""
    if found.shape != wanted.shape or wanted.shape[2] != 4:
        return False
    seen = wanted[..., 3] > 0
    return np.array_equal(found[..., 3], wanted[..., 3]) and np.array_equal(found[seen], wanted[seen])


def _coding(suffix: str, stored: ImageHeader) -> list[int]:
    """How samples are encoded: a JPEG or TIFF file as the one before, others without loss."""
    parameters: dict[int, int] = {}
    if suffix in _TIFF and stored.compression in _TIFF_COMPRESSIONS:
        parameters = {cv2.IMWRITE_TIFF_COMPRESSION: stored.compression}
    elif suffix in (".jpg", ".jpeg"):
        parameters = {
            cv2.IMWRITE_JPEG_QUALITY: 96,
            cv2.IMWRITE_JPEG_SAMPLING_FACTOR: _SAMPLING.get(stored.sampling, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444),
            cv2.IMWRITE_JPEG_PROGRESSIVE: int(stored.progressive),
        }
    return [number for pair in parameters.items() for number in pair]


def _swap_red_and_blue(array: np.ndarray) -> np.ndarray:
    if array.ndim == 2:
        return array[..., None]
    orders = {3: cv2.COLOR_BGR2RGB, 4: cv2.COLOR_BGRA2RGBA}
    return cv2.cvtColor(array, orders[array.shape[2]]) if array.shape[2] in orders else array

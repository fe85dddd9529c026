"""What a file says besides its samples, and which of it another file does not give back."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from libranet.tiff_fields import EXIF, GPS, MAGIC, ORIENTATION, Directory, Field, read_directory, read_pages

_BY_CHANNELS = {b"bKGD": {1: 2, 3: 6, 4: 6}, b"sBIT": {1: 1, 3: 3, 4: 4}}
"""Sizes of chunks by the channels of the image: those of a palette or of gray with alpha do not fit."""
EXIF_HEAD = b"Exif\0\0"
"""Before EXIF in JPEG files; some programs write it elsewhere, too."""
INCH = 0.0254
_DENSEST = 1 << 30
SIGNED = "content credentials, which sign the image before"
"""Signatures of the old samples, which the new ones break: left out, and named."""
BEHIND = "data behind the image"
X_RESOLUTION, Y_RESOLUTION, UNIT, PROFILE_TAG = 282, 283, 296, 34675
TIFF_CODING = {
    254, 255, 256, 257, 258, 259, 262, 263, 264, 265, 266, 273, 277, 278, 279, 280, 281, 284, 288, 289, 290, 291, 292,
    293, 317, 320, 321, 322, 323, 324, 325, 332, 333, 334, 336, 337, 338, 339, 340, 341, 347, 512, 513, 514, 515, 517,
    518, 519, 520, 521, 529, 530, 532,
}  # fmt: skip
"""Tags that describe how the samples are stored."""
SUB_IMAGES = 330
_TIFF_NAMES = {
    269: "document name", 270: "description", 271: "camera", 272: "camera", 305: "software", 306: "date",
    315: "artist", 33432: "copyright", EXIF: "EXIF", GPS: "GPS", ORIENTATION: "orientation", 33723: "IPTC",
    34377: "Photoshop data", 37724: "Photoshop layers", SUB_IMAGES: "smaller images", X_RESOLUTION: "resolution",
    Y_RESOLUTION: "resolution", UNIT: "resolution",
    **dict.fromkeys((33550, 33922, 34264, 34735, 34736, 34737, 42112, 42113), "GeoTIFF"),
}  # fmt: skip
TIFF_ONLY = {33550, 33922, 34264, 34735, 34736, 34737, 42112, 42113, 33723, 34377, 37724, SUB_IMAGES}
"""Tags that no reader looks for in the EXIF of another format."""


@dataclass(frozen=True)
class Part:
    """A chunk or segment of a file."""

    name: bytes
    label: str
    content: bytes = field(repr=False)
    """The whole part, with its name and size."""
    at: int = 0
    """Where it was in its file."""
    late: bool = False
    """It came after the samples."""


@dataclass(frozen=True)
class ImageMetadata:
    """What a file says besides its samples."""

    format: str = ""
    exif: bytes = field(default=b"", repr=False)
    xmp: bytes = field(default=b"", repr=False)
    profile: bytes = field(default=b"", repr=False)
    """Colour profile (ICC)."""
    density: tuple[float, float] | None = None
    """Pixels per metre."""
    parts: tuple[Part, ...] = ()
    """Of a PNG, JPEG or WebP file, in order."""
    pages: tuple[Directory, ...] = field(default=(), repr=False)
    """Tags of a TIFF file's pages."""
    end: int = 0
    """Where the image ends in a JPEG file."""

    @property
    def orientation(self) -> int:
        """The orientation of EXIF, 1 to 8; 1, upright, where it does not say."""
        tag = first_directory(self.exif).get(ORIENTATION)
        value = int.from_bytes(tag.content, "big") if isinstance(tag, Field) else 1
        return value if 1 <= value <= 8 else 1

    def fitting(self, channels: int) -> "ImageMetadata":
        """Leave out what cannot describe an image of so many channels, such as the profile of a gray one."""
        space = self.profile[16:20] if self.profile[36:40] == b"acsp" else b""
        right = b"GRAY" if channels == 1 else b"RGB "
        unfit = {"colour profile"} if space not in (b"", right) else set()
        kept = [part for part in self.parts if part.label not in unfit]
        kept = [
            p for p in kept if len(p.content) - 12 == _BY_CHANNELS.get(p.name, {}).get(channels, len(p.content) - 12)
        ]
        pages = [{tag: f for tag, f in page.items() if tag != PROFILE_TAG or not unfit} for page in self.pages]
        return replace(self, profile=b"" if unfit else self.profile, parts=tuple(kept), pages=tuple(pages))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of everything that the file says."""
        return tuple(dict.fromkeys(label for label, _ in self._facts()))

    def lost_in(self, written: "ImageMetadata") -> tuple[str, ...]:
        """Return the names of what a written file does not give back."""
        found = list(written._facts())
        lost = []
        for label, value in self._facts():
            if label == "resolution" and _is_near(self.density, written.density):
                continue
            if (label, value) in found:
                found.remove((label, value))
            else:
                lost.append(label)
        return tuple(dict.fromkeys(lost))

    def _facts(self) -> Iterator[tuple[str, object]]:
        """Yield everything that the file says, under the name that a user knows."""
        common = {"EXIF", "XMP", "colour profile", "resolution"}
        yield from ((label, value) for label, value in (("XMP", self.xmp), ("colour profile", self.profile)) if value)
        if self.density is not None:
            yield "resolution", self.density
        for tag, value in first_directory(self.exif).items():
            if tag not in TIFF_CODING:
                yield _TIFF_NAMES.get(tag, "EXIF"), value
        if self.format != "TIFF" and len(_pages(self.exif)) > 1:
            yield "EXIF thumbnail", b""
        yield from ((part.label, part.content) for part in self.parts if part.label not in common | {"list of images"})
        yield from (("list of images", b"") for part in self.parts if part.label == "list of images")
        for index, page in enumerate(self.pages):
            for tag, value in page.items():
                if tag in TIFF_ONLY or (index and tag not in TIFF_CODING):
                    yield _TIFF_NAMES.get(tag, f"TIFF tag {tag}"), value


def density_of(across: float, down: float) -> tuple[float, float] | None:
    """Return pixels per metre, or None where they are none that every format can state."""
    return (across, down) if 0 < across < _DENSEST and 0 < down < _DENSEST else None


def _is_near(wanted: tuple[float, float] | None, found: tuple[float, float] | None) -> bool:
    return (
        wanted is not None
        and found is not None
        and all(abs(a - b) <= 0.01 * a + 1 for a, b in zip(wanted, found, strict=True))
    )


def _pages(exif: bytes) -> list[Directory]:
    if exif[:4] not in MAGIC:
        return []
    try:
        return [read_directory(exif, page) for page in read_pages(exif)]
    except struct.error:
        return []


def first_directory(exif: bytes) -> Directory:
    return next(iter(_pages(exif)), {})

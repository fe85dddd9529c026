"""What image files say besides their samples: all of it is carried over, and what another format cannot hold is named.

Into a file of the same format go the source's own parts, byte for byte, also those that nobody here knows. Into another
format go EXIF, XMP, the colour profile and the resolution. The finished file is read, and whatever it does not give
back is lost: there is no table of what a format holds.

Why not a library: Pillow, tifffile and exiv2 each read a choice of these parts, and write a smaller one. Encoded files
take the parts of others as they are.
"""

import struct
import zlib

from libranet.image_metadata import bmp, jpeg, png, tiff, webp
from libranet.image_metadata.facts import ImageMetadata, Part
from libranet.tiff_fields import MAGIC

__all__ = ["NO_METADATA", "ImageMetadata", "read_metadata", "with_metadata"]

NO_METADATA = ImageMetadata()
_UNREAD = ImageMetadata(parts=(Part(b"", "metadata, which is read from PNG, JPEG, WebP, TIFF and BMP alone", b""),))
_FORMATS = {b"\x89PNG": png, b"\xff\xd8": jpeg, b"RIFF": webp, **dict.fromkeys(MAGIC, tiff), b"BM": bmp}


def read_metadata(data: bytes) -> ImageMetadata:
    """Return what the bytes of an image file say besides its samples. A damaged file says less."""
    kind = next((module for magic, module in _FORMATS.items() if data.startswith(magic)), None)
    try:
        return kind.read(data) if kind is not None else _UNREAD
    except (struct.error, IndexError, ValueError, zlib.error):
        return NO_METADATA


def with_metadata(data: bytes, metadata: ImageMetadata, channels: int, *, fourth: int = 2) -> bytes:
    """Add to an encoded file what its source said.

    Args:
        data: The file as the encoder wrote it.
        metadata: What the source said.
        channels: Of the image.
        fourth: What a TIFF file calls a fourth channel (ExtraSamples).
    """
    kind = next((module for magic, module in _FORMATS.items() if data.startswith(magic)), None)
    metadata = metadata.fitting(channels)
    if kind is tiff:
        return tiff.write(data, metadata, fourth=fourth)
    return kind.write(data, metadata) if kind is not None else data

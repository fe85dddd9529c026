"""BMP: a resolution, in its newest version a colour profile, and whatever follows the image."""

import struct

from libranet.image_metadata.facts import BEHIND, ImageMetadata, Part, density_of


def read(data: bytes) -> ImageMetadata:
    size, across, down = struct.unpack_from("<I", data, 14) + struct.unpack_from("<ii", data, 38)
    end, profile = struct.unpack_from("<I", data, 2)[0], b""
    if size >= 124 and data[70:74] == b"DEBM":  # an embedded profile
        at, length = struct.unpack_from("<II", data, 126)
        profile = data[14 + at : 14 + at + length]
    behind = (Part(b"", BEHIND, data[end:]),) if 14 + size < end < len(data) else ()
    return ImageMetadata("BMP", profile=profile, density=density_of(across, down), parts=behind)


def write(data: bytes, metadata: ImageMetadata) -> bytes:
    if metadata.density is not None:
        data = data[:38] + struct.pack("<ii", *map(round, metadata.density)) + data[46:]
    return data + b"".join(part.content for part in metadata.parts if metadata.format == "BMP")

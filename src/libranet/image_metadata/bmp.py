"""BMP: a resolution and, in its newest version, a colour profile."""

import struct

from libranet.image_metadata.facts import ImageMetadata, density_of


def read(data: bytes) -> ImageMetadata:
    size, across, down = struct.unpack_from("<I", data, 14) + struct.unpack_from("<ii", data, 38)
    profile = b""
    if size >= 124 and data[70:74] == b"DEBM":  # an embedded profile
        at, length = struct.unpack_from("<II", data, 126)
        profile = data[14 + at : 14 + at + length]
    return ImageMetadata("BMP", profile=profile, density=density_of(across, down))


def write(data: bytes, metadata: ImageMetadata) -> bytes:
    if metadata.density is None:
        return data
    return data[:38] + struct.pack("<ii", *map(round, metadata.density)) + data[46:]

"""The checksum of Ogg and NUT: CRC-32 with the highest bit first."""

import zlib

_MIRRORED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def is_sound(data: bytes) -> bool:
    """Return whether data that end with their own checksum give zero, as undamaged ones do."""
    # zlib has the same polynomial with the lowest bit first; the value given makes its register begin at zero.
    return zlib.crc32(data.translate(_MIRRORED), 0xFFFFFFFF) == 0xFFFFFFFF

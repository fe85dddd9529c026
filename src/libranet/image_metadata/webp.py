"""WebP: chunks of a RIFF file."""

import struct
from dataclasses import replace

from libranet.image_metadata.facts import BEHIND, EXIF_HEAD, SIGNED, ImageMetadata, Part
from libranet.image_structure import parse_header, webp_chunks

_WEBP_CODING = (b"VP8X", b"VP8 ", b"VP8L", b"ALPH", b"ANIM", b"ANMF")
_WEBP_NAMES = {b"ICCP": "colour profile", b"EXIF": "EXIF", b"XMP ": "XMP"}
_WEBP_FLAGS = {b"ICCP": 0x20, b"EXIF": 0x08, b"XMP ": 0x04}
_WEBP_ALPHA = 0x10


def read(data: bytes) -> ImageMetadata:
    found = ImageMetadata("WebP")
    parts = []
    last = 8 + struct.unpack_from("<I", data, 4)[0]
    last += last % 2
    for kind, begin, end in webp_chunks(data[:last]):
        if kind in _WEBP_CODING or end > len(data):
            continue
        content = data[begin:end]
        label = _WEBP_NAMES.get(kind, "chunk " + kind.decode("latin-1").strip())
        if kind == b"ICCP":
            found = replace(found, profile=content)
        elif kind == b"EXIF":
            found = replace(found, exif=content.removeprefix(EXIF_HEAD))
        elif kind == b"XMP ":
            found = replace(found, xmp=content)
        parts.append(Part(kind, SIGNED if kind == b"C2PA" else label, content))
    if data[last:]:
        parts.append(Part(b"", BEHIND, data[last:]))
    return replace(found, parts=tuple(parts))


def write(data: bytes, metadata: ImageMetadata) -> bytes:
    common = ((b"ICCP", metadata.profile), (b"EXIF", metadata.exif), (b"XMP ", metadata.xmp))
    given = [(part.name, part.content) for part in metadata.parts if metadata.format == "WebP" and part.label != SIGNED]
    behind = b"".join(content for kind, content in given if not kind)
    added = [(kind, content) for kind, content in given if kind] or [
        (kind, content) for kind, content in common if content
    ]
    header = parse_header(data)
    if not added or header is None:
        return data + behind
    mine = [(kind, data[begin:end]) for kind, begin, end in webp_chunks(data)]
    flags = mine[0][1][0] if mine[0][0] == b"VP8X" else 0
    if any(kind == b"ALPH" or (kind == b"VP8L" and content[4] & 0x10) for kind, content in mine):
        flags |= _WEBP_ALPHA
    for kind, _ in added:
        flags |= _WEBP_FLAGS.get(kind, 0)
    size = b"".join((n - 1).to_bytes(3, "little") for n in (header.width, header.height))
    head = [(b"VP8X", bytes([flags, 0, 0, 0]) + size)]
    profile = [(kind, content) for kind, content in added if kind == b"ICCP"]
    rest = [(kind, content) for kind, content in added if kind != b"ICCP"]
    chunks = [*head, *profile, *(chunk for chunk in mine if chunk[0] != b"VP8X"), *rest]
    body = b"WEBP" + b"".join(
        kind + struct.pack("<I", len(content)) + content + bytes(len(content) % 2) for kind, content in chunks
    )
    return b"RIFF" + struct.pack("<I", len(body)) + body + behind

"""PNG: chunks with a name, a size and a checksum."""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace

from libranet.image_metadata.facts import BEHIND, EXIF_HEAD, SIGNED, ImageMetadata, Part, density_of
from libranet.image_structure import png_chunks

_PNG_CODING = (b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS", b"hIST", b"acTL", b"fcTL", b"fdAT")
"""Chunks that describe the samples or their palette: the encoder writes its own."""
_PNG_NAMES = {
    b"gAMA": "gamma", b"cHRM": "primaries", b"sRGB": "sRGB intent", b"iCCP": "colour profile", b"pHYs": "resolution",
    b"eXIf": "EXIF", b"bKGD": "background", b"sBIT": "significant bits", b"tIME": "date", b"cICP": "colour tags",
    b"mDCV": "mastering display", b"cLLI": "light level", b"sPLT": "suggested palette",
}  # fmt: skip
_PNG_TEXT = (b"tEXt", b"zTXt", b"iTXt")
_LARGEST = 64 << 20
"""Bytes of a profile or text. A small file may ask for gigabytes."""
_XMP_CHUNK = b"XML:com.adobe.xmp\0"


def read(data: bytes) -> ImageMetadata:
    found = ImageMetadata("PNG")
    parts: list[Part] = []
    late = animated = shown = False
    for kind, begin, end in png_chunks(data):
        animated, shown = animated or kind == b"acTL", shown or kind == b"fcTL"
        if kind == b"IDAT" and not late and animated and not shown:
            parts.append(Part(b"", "the still image in front of the animation", b""))
        late |= kind == b"IDAT"
        content = data[begin : end - 4]
        if kind == b"IEND":
            if data[end:]:
                parts.append(Part(b"", BEHIND, data[end:]))
            break
        if kind in _PNG_CODING:
            continue
        label = _PNG_NAMES.get(kind, "chunk " + kind.decode("latin-1"))
        if kind in _PNG_TEXT:
            is_xmp = content.startswith(_XMP_CHUNK)
            label = "XMP" if is_xmp else f"text ({content.partition(bytes(1))[0].decode('latin-1')})"
            found = replace(found, xmp=_international_text(content)) if is_xmp else found
        elif kind == b"iCCP":
            found = replace(found, profile=_inflated(content.partition(b"\0")[2][1:]))
        elif kind == b"eXIf":
            found = replace(found, exif=content.removeprefix(EXIF_HEAD))
        elif kind == b"pHYs":
            across, down, metric = struct.unpack(">IIB", content)
            found = replace(found, density=density_of(across, down) if metric else None)
        parts.append(Part(kind, SIGNED if kind in (b"caBX", b"dSIG") else label, data[begin - 8 : end], late=late))
    return replace(found, parts=tuple(parts))


def _inflated(data: bytes) -> bytes:
    return zlib.decompressobj().decompress(data, _LARGEST)


def _international_text(content: bytes) -> bytes:
    _, _, rest = content.partition(b"\0")
    text = rest[2:].split(b"\0", 2)[2]
    return _inflated(text) if rest[0] else text


def write(data: bytes, metadata: ImageMetadata) -> bytes:
    parts = metadata.parts if metadata.format == "PNG" else tuple(_png_parts(metadata))
    # PNG's own rule for chunks that nobody knows: the case of the fourth letter says whether new samples keep them.
    parts = tuple(p for p in parts if p.label != SIGNED and (p.name in _PNG_NAMES or not p.name or p.name[3] & 0x20))
    early = b"".join(part.content for part in parts if part.name and not part.late)
    late = b"".join(part.content for part in parts if part.name and part.late)
    behind = b"".join(part.content for part in parts if not part.name)
    last = data.rindex(b"IEND") - 4
    return data[:33] + early + data[33:last] + late + data[last:] + behind


def _png_parts(metadata: ImageMetadata) -> Iterator[Part]:
    if metadata.profile:
        yield _chunk(b"iCCP", b"ICC profile\0\0" + zlib.compress(metadata.profile))
    if metadata.density:
        yield _chunk(b"pHYs", struct.pack(">IIB", *map(round, metadata.density), 1))
    if metadata.exif:
        yield _chunk(b"eXIf", metadata.exif)
    if metadata.xmp:
        yield _chunk(b"iTXt", _XMP_CHUNK + bytes(4) + metadata.xmp)


def _chunk(kind: bytes, content: bytes) -> Part:
    checksum = struct.pack(">I", zlib.crc32(kind + content))
    return Part(kind, "", struct.pack(">I", len(content)) + kind + content + checksum)

"""JPEG: segments with a marker and a size, and whatever follows the image."""

import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from libranet.image_metadata.facts import BEHIND, EXIF_HEAD, INCH, SIGNED, ImageMetadata, Part, density_of
from libranet.image_structure import jpeg_end, jpeg_segments
from libranet.tiff_fields import read_pages

_ICC_SEGMENT = b"ICC_PROFILE\0"
_XMP_SEGMENT, _LONG_XMP = b"http://ns.adobe.com/xap/1.0/\0", b"http://ns.adobe.com/xmp/extension/\0"
_JFIF, _ADOBE, _IMAGE_LIST = b"JFIF\0", b"Adobe", b"MPF\0"
_APP0, _APP11, _APP15, _COMMENT, _SCAN = 0xE0, 0xEB, 0xEF, 0xFE, 0xDA
_SEGMENT_NAMES = {
    _JFIF: "resolution", EXIF_HEAD: "EXIF", _XMP_SEGMENT: "XMP", _LONG_XMP: "extended XMP",
    _ICC_SEGMENT: "colour profile", _IMAGE_LIST: "list of images", b"Photoshop 3.0\0": "IPTC",
}  # fmt: skip
_LONGEST_SEGMENT = 65533
_ENTRIES = 0xB002
"""The tag of a list of images that says where they are."""


def read(data: bytes) -> ImageMetadata:
    found = ImageMetadata("JPEG")
    parts: list[Part] = []
    profile = b""
    for mark, begin, end in jpeg_segments(data):
        content = data[begin:end]
        if mark == _SCAN:
            found = replace(found, end=jpeg_end(data, end))
            break
        if not (_APP0 <= mark <= _APP15 or mark == _COMMENT) or content.startswith(_ADOBE):
            continue
        name = next((known for known in _SEGMENT_NAMES if content.startswith(known)), bytes([mark]))
        label = _SEGMENT_NAMES.get(name, f"APP{mark - _APP0} {_printable(content)}".strip())
        label = "comment" if mark == _COMMENT else SIGNED if mark == _APP11 else label
        if name == EXIF_HEAD:
            found = replace(found, exif=content[len(name) :])
        elif name == _XMP_SEGMENT:
            found = replace(found, xmp=content[len(name) :])
        elif name == _ICC_SEGMENT:
            profile += content[len(name) + 2 :]
        elif name == _JFIF and (unit := {1: INCH, 2: 0.01}.get(content[7])):
            found = replace(found, density=density_of(*(n / unit for n in struct.unpack_from(">HH", content, 8))))
        parts.append(Part(name, label, data[begin - 4 : end], at=begin))
    if found.end and found.end < len(data):
        parts.append(Part(b"", BEHIND, data[found.end :]))
    return replace(found, parts=tuple(parts), profile=profile)


def _printable(content: bytes) -> str:
    name = content[:32].partition(b"\0")[0].decode("latin-1")
    return name if name.isprintable() else ""


def write(data: bytes, metadata: ImageMetadata) -> bytes:
    parts = metadata.parts if metadata.format == "JPEG" else tuple(_jpeg_parts(metadata))
    parts = tuple(sorted((p for p in parts if p.label != SIGNED), key=lambda part: part.name != _JFIF))
    if any(part.name == _JFIF for part in parts):  # one is enough, and it comes first
        mine = [(begin, end) for mark, begin, end in jpeg_segments(data) if mark == _APP0]
        data = data[: mine[0][0] - 4] + data[mine[0][1] :] if mine else data
        head = 2
    else:
        head = next((end for mark, _, end in jpeg_segments(data) if mark == _APP0), 2)
    added = b"".join(part.content for part in parts if part.name)
    written = bytearray(data[:head] + added + data[head:])
    _move_images(written, metadata, [part for part in parts if part.name == _IMAGE_LIST])
    return bytes(written) + b"".join(part.content for part in parts if not part.name)


def _move_images(written: bytearray, metadata: ImageMetadata, lists: list[Part]) -> None:
    """Correct the list of further images behind the first one (MPF): it counts from its own place."""
    for part in lists:
        at = bytes(written).find(part.content) + 4 + len(_IMAGE_LIST)
        block = bytes(written[at : at + len(part.content)])
        order = "<" if block[:2] == b"II" else ">"
        moved = (len(written) - at) - (metadata.end - part.at - len(_IMAGE_LIST))
        with suppress(struct.error, StopIteration, KeyError):  # a damaged list stays as it is
            place = next(read_pages(block))[_ENTRIES]
            for entry in range(place.at, place.at + place.count, 16):
                size, offset = struct.unpack_from(order + "II", block, entry + 4)
                size, offset = (size, offset + moved) if offset else (len(written), 0)
                struct.pack_into(order + "II", written, at + entry + 4, size, offset)


def _jpeg_parts(metadata: ImageMetadata) -> Iterator[Part]:
    if metadata.density:
        dots = (min(0xFFFF, round(value * INCH)) for value in metadata.density)
        yield from _segment(_APP0, _JFIF, struct.pack(">HBHHBB", 0x0101, 1, *dots, 0, 0))
    if metadata.exif:
        yield from _segment(0xE1, EXIF_HEAD, metadata.exif)
    if metadata.xmp:
        yield from _segment(0xE1, _XMP_SEGMENT, metadata.xmp)
    most = _LONGEST_SEGMENT - len(_ICC_SEGMENT) - 2
    pieces = [metadata.profile[at : at + most] for at in range(0, len(metadata.profile), most)]
    for number, piece in enumerate(pieces, 1):
        if len(pieces) < 256:
            yield from _segment(0xE2, _ICC_SEGMENT, bytes([number, len(pieces)]) + piece)


def _segment(mark: int, name: bytes, content: bytes) -> Iterator[Part]:
    """Yield a segment; none where the content is too long for one. The finished file shows what is missing."""
    if len(name) + len(content) <= _LONGEST_SEGMENT:
        yield Part(name, "", struct.pack(">BBH", 0xFF, mark, len(name) + len(content) + 2) + name + content)

"""TIFF directories, which EXIF has as well: read with their places, and written with every value as it was.

Libraries decode values and encode them again: text that is not ASCII, unknown types and the tags of a colour file's
second directory change on the way. Here a value stays the bytes that it is; only their order is turned where needed.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from mmap import mmap

import numpy as np

Data = bytes | bytearray | mmap
Directory = dict[int, "Field | Directory"]
"""Fields by tag; those that point to a directory of their own hold it."""

MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
WIDTH, HEIGHT, PHOTOMETRIC, ORIENTATION, SAMPLES_PER_PIXEL, EXTRA_SAMPLES = 256, 257, 262, 274, 277, 338
EXIF, GPS = 34665, 34853
_POINTERS = (EXIF, GPS, 40965)
"""EXIF, GPS, and the interoperability of EXIF."""
_UNITS = {1: 1, 2: 1, 3: 2, 4: 4, 5: 4, 6: 1, 7: 1, 8: 2, 9: 4, 10: 4, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
_RATIONALS = (5, 10)
_INTEGERS = {1: "u1", 3: "u2", 4: "u4", 9: "i4", 13: "u4", 16: "u8"}
_SHORTER = {16: 4, 17: 9, 18: 13}
"""Integers of eight bytes, which BigTIFF alone has, and those of four."""
_COMMENT, _UNICODE = 37510, b"UNICODE\0"
"""EXIF's comment, whose letters of two bytes are in the order of the file, and what such a one begins with."""
_MOST_PAGES = 100_000
_DEEPEST = 3


@dataclass(frozen=True)
class Field:
    """The values of a tag."""

    kind: int
    count: int
    content: bytes
    """In big-endian order."""


@dataclass(frozen=True)
class Place:
    """Where the values of a tag are in a file."""

    kind: int
    count: int
    at: int

    @property
    def size(self) -> int:
        """Bytes of the values; 0 where the kind is unknown."""
        return _UNITS.get(self.kind, 0) * (2 if self.kind in _RATIONALS else 1) * self.count


Page = dict[int, Place]


def read_pages(data: Data) -> Iterator[Page]:
    """Yield the places of the fields of each page. Raises struct.error where the next page is not in the file."""
    seen = set[int]()
    at = struct.unpack_from(_order(data) + ("Q" if _is_big(data) else "I"), data, 8 if _is_big(data) else 4)[0]
    while at and len(seen) < _MOST_PAGES:
        if at in seen:
            raise struct.error("pages in a circle")
        seen.add(at)
        page, at = _read_page(data, at)
        yield page


def read_integers(data: Data, page: Page, tag: int) -> tuple[int, ...]:
    """Return the integers of a field, or one that is outside of the file where they are themselves."""
    place = page.get(tag)
    if place is None or place.kind not in _INTEGERS:
        return ()
    if place.at + place.size > len(data):
        return (len(data) + 1,)
    kind = np.dtype(_order(data) + _INTEGERS[place.kind])
    return tuple(np.frombuffer(data[place.at : place.at + place.size], kind).tolist())


def read_directory(data: Data, page: Page, depth: int = 0) -> Directory:
    """Return the fields of a page, without those that are not in the file."""
    found: Directory = {}
    for tag, place in page.items():
        if tag in _POINTERS and depth < _DEEPEST:
            try:
                inner, _ = _read_page(data, read_integers(data, page, tag)[0])
            except (struct.error, IndexError):
                continue
            found[tag] = read_directory(data, inner, depth + 1)
        elif place.size and place.at + place.size <= len(data):
            content = bytes(data[place.at : place.at + place.size])
            found[tag] = Field(place.kind, place.count, _turned(tag, content, place.kind, _order(data), ">"))
    return found


def write_directory(fields: Mapping[int, "Field | Directory"], at: int, order: str, following: int = 0) -> bytes:
    """Return the bytes of a directory at a place, with its values and directories behind it."""
    start = at + 2 + 12 * len(fields) + 4
    entries, tail = [], b""
    for tag, field in sorted(fields.items()):
        place = start + len(tail)
        if not isinstance(field, Field):
            tail += write_directory(field, place, order)
            entries.append(struct.pack(order + "HHII", tag, 4, 1, place))
            continue
        content = _turned(tag, field.content, field.kind, ">", order)
        if len(content) <= 4:
            entries.append(struct.pack(order + "HHI", tag, field.kind, field.count) + content.ljust(4, b"\0"))
        else:
            tail += content + bytes(len(content) % 2)
            entries.append(struct.pack(order + "HHII", tag, field.kind, field.count, place))
    head = struct.pack(order + "H", len(fields)) + b"".join(entries) + struct.pack(order + "I", following)
    return head + tail + bytes((len(head) + len(tail)) % 2)


def with_fields(data: bytes, pages: list[Directory]) -> bytes:
    """Add fields to the pages of a TIFF file: longer directories go to its end."""
    order = _order(data)
    body = bytearray(data + bytes(len(data) % 2))
    link = 4
    for index, page in enumerate(list(read_pages(data))):
        struct.pack_into(order + "I", body, link, len(body))
        added = pages[min(index, len(pages) - 1)]
        fields = {**{tag: _shortened(field) for tag, field in added.items()}, **read_directory(data, page)}
        link = len(body) + 2 + 12 * len(fields)
        body += write_directory(fields, len(body), order)
    return bytes(body)


def as_stored(data: bytes) -> bytes:
    """Return a TIFF file whose samples a decoder gives back as they are stored.

    libtiff turns pages by their orientation and multiplies colours by an alpha that is not associated. Pages that say
    they are upright, with an associated alpha, are left alone.
    """
    body = bytearray(data)
    for page in read_pages(data):
        for tag in (ORIENTATION, EXTRA_SAMPLES):
            place = page.get(tag)
            if place is not None and place.kind == 3 and place.at + 2 <= len(body):
                struct.pack_into(_order(data) + "H", body, place.at, 1)
    return bytes(body)


def integer(value: int) -> Field:
    """Return a field with one number of two bytes."""
    return Field(3, 1, struct.pack(">H", value))


def raw(content: bytes, kind: int = 7) -> Field:
    return Field(kind, len(content), content)


def _shortened(field: "Field | Directory") -> "Field | Directory":
    """Return a field as a TIFF file that is not big can hold it."""
    if not isinstance(field, Field) or field.kind not in _SHORTER:
        return field
    values = np.frombuffer(field.content, ">i8").astype(">i4")
    return Field(_SHORTER[field.kind], field.count, values.tobytes())


def _read_page(data: Data, at: int) -> tuple[Page, int]:
    order = _order(data)
    counter, entry, number, inline = ("Q", 20, "Q", 8) if _is_big(data) else ("H", 12, "I", 4)
    begin = at + struct.calcsize("<" + counter)
    if begin > len(data):
        raise struct.error("a page outside of the file")
    end = begin + entry * struct.unpack_from(order + counter, data, at)[0]
    if end > len(data):  # BigTIFF has numbers that no place in memory has
        raise struct.error("a page that is longer than the file")
    following = struct.unpack_from(order + number, data, end)[0]
    page = {}
    for position in range(begin, end, entry):
        tag, kind, count, place = struct.unpack_from(order + "HH" + 2 * number, data, position)
        short = Place(kind, count, position + entry - inline)
        page[tag] = short if short.size <= inline else Place(kind, count, place)
    return page, following


def _order(data: Data) -> str:
    return "<" if data[:2] == b"II" else ">"


def _is_big(data: Data) -> bool:
    return data[:4] in MAGIC[2:]


def _turned(tag: int, content: bytes, kind: int, order: str, target: str) -> bytes:
    unit = _UNITS[kind]
    if tag == _COMMENT and content.startswith(_UNICODE) and len(content) % 2 == 0:
        return _UNICODE + _turned(0, content[len(_UNICODE) :], 3, order, target)
    if order == target or unit == 1:
        return content
    return np.frombuffer(content, f"{order}u{unit}").astype(f"{target}u{unit}").tobytes()

"""What .mp4 and .mov files say and FFmpeg's muxer does not write: read from a source, added to a finished file.

Boxes that say the same of new samples go over byte for byte: clean aperture, 360 degree projection, stereo, field of
view, boxes of cameras and programs. The others are named.
"""

import io
import os
import shutil
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from libranet.video.matroska_extras import CROPS, PROJECTION, STEREO
from libranet.video.tags import VideoTags

_LARGEST = 256 << 20
"""Bytes of an index that is read."""
_CODING = {
    b"avcC", b"hvcC", b"lhvC", b"av1C", b"vpcC", b"vvcC", b"esds", b"dvcC", b"dvvC", b"dvwC", b"colr", b"pasp", b"btrt",
    b"fiel", b"mdcv", b"clli", b"SmDm", b"CoLL", b"glbl", b"svq3", b"SMI ", b"ACLR", b"APRG", b"ARES", b"AORD",
    b"ALPH", b"chrm", b"bxml", b"d263", b"sgpd", b"jp2h", b"wave", b"ctab",
}  # fmt: skip
"""Boxes of a sample entry about the coded samples, or that FFmpeg lists itself."""
_KEPT_ENTRY = {b"clap", b"gama", b"st3d", b"sv3d", b"hfov", b"amve", b"cclv"}
_PIECE = 1 << 20
_SIZED = (b"clap", b"tapt")
_TRACK = {b"tkhd", b"edts", b"mdia", b"tref", b"udta", b"meta", b"tapt", b"load", b"clip", b"matt", b"txas"}
_INDEX = {b"mvhd", b"trak", b"udta", b"meta", b"iods", b"mvex", b"clip", b"ctab"}
_TOP = {
    b"ftyp", b"styp", b"moov", b"mdat", b"free", b"skip", b"wide", b"mfra", b"moof", b"sidx", b"ssix", b"pdin", b"prft",
    b"emsg", b"junk", b"meta", b"udta", b"pict", b"pnot", b"bidx",
}  # fmt: skip
_READ_BY_FFMPEG = {
    b"meta", b"chpl", b"name", b"titl", b"auth", b"dscp", b"gnre", b"albm", b"yrrc", b"perf", b"loci", b"cprt", b"kywd",
}  # fmt: skip
_SPHERICAL = bytes.fromhex("ffcc8263f8554a938814587a02521fdd")
_XMP = bytes.fromhex("be7acfcb97a942e89c71999491e3afac")
_UUID_NAMES = {_SPHERICAL: "the 360 degree projection", _XMP: "XMP"}
_BOX_NAMES = {
    b"clap": "the clean aperture",
    b"vexu": "the stereo views (vexu)",
    b"hfov": "the field of view",
    b"gama": "the gamma",
    b"tapt": "the aperture modes",
}
_ELEMENTS = {b"clap": CROPS[0], b"st3d": STEREO, b"sv3d": PROJECTION}
_VISUAL_ENTRY = 78
"""Bytes of a video's sample entry before its boxes."""
_OFFSETS = {b"stco": ">I", b"co64": ">Q"}
_PARENTS = (b"moov", b"trak", b"mdia", b"minf", b"stbl")


@dataclass(frozen=True)
class Box:
    """A box and the place that it belongs to."""

    place: str
    """entry, track, track data, index, index data or file."""
    name: bytes
    content: bytes

    @property
    def label(self) -> str:
        """Its name for people."""
        if self.name == b"uuid":
            return _UUID_NAMES.get(self.content[:16], f"box uuid {self.content[:4].hex()}")
        return _BOX_NAMES.get(self.name, f"box {self.name.decode('latin-1')}")

    @property
    def is_kept(self) -> bool:
        """Whether it says the same of new samples."""
        if self.place == "entry":
            return self.name in _KEPT_ENTRY
        return self.place in ("track data", "index data", "index") or self.name in (b"uuid", b"tapt")

    @property
    def is_sized(self) -> bool:
        """Whether it counts in pixels of the frame."""
        return self.name in _SIZED

    @property
    def element(self) -> int | None:
        """The Matroska element that says the same, where FFmpeg understands it."""
        return PROJECTION if self.content[:16] == _SPHERICAL else _ELEMENTS.get(self.name)

    @property
    def data(self) -> bytes:
        return struct.pack(">I", 8 + len(self.content)) + self.name + self.content


def read_boxes(file: IO[bytes], track: int) -> tuple[Box, ...]:
    """Return the boxes of an .mp4 or .mov file that FFmpeg does not list, those of one track and of the whole file."""
    found: list[Box] = []
    for name, at, size in _top_boxes(file):
        if name == b"moov" and size <= _LARGEST:
            file.seek(at)
            found += _index_boxes(file.read(size), track)
        elif name not in _TOP and size <= _LARGEST:
            file.seek(at)
            found.append(Box("file", name, file.read(size)))
    return tuple(found)


def hdr_boxes(tags: VideoTags) -> tuple[Box, ...]:
    """Return the boxes that state a mastering display and light levels, in the units of ISO 14496-12."""
    boxes = []
    if (shown := tags.mastering) is not None:
        points = (shown.green, shown.blue, shown.red, shown.white)
        numbers = [min(0xFFFF, round(value * 50_000)) for point in points for value in point]
        lights = (round(shown.greatest * 10_000), round(shown.least * 10_000))
        boxes.append(Box("entry", b"mdcv", struct.pack(">8H2I", *numbers, *lights)))
    if tags.light_level is not None:
        boxes.append(Box("entry", b"clli", struct.pack(">2H", *(min(0xFFFF, value) for value in tags.light_level))))
    return tuple(boxes)


def add_boxes(target: Path | IO[bytes], boxes: tuple[Box, ...], track: int) -> None:
    """Add boxes to a finished file. Where its index comes first, everything behind moves, and the index says so."""
    with ExitStack() as opened:
        file: IO[bytes] = opened.enter_context(target.open("rb")) if isinstance(target, Path) else target
        places = list(_top_boxes(file))
        at, size = next(((at, size) for name, at, size in places if name == b"moov"), (0, 0))
        file.seek(at)
        old = file.read(size)
        present = list(_index_boxes(old, track))
        added = [box for box in boxes if box not in present]
        if not size or not added:
            return
        behind = any(name == b"mdat" and start > at for name, start, _ in places)
        grown = len(_with_boxes(old, added, track, move=0)) - size
        try:
            new = _with_boxes(old, added, track, move=grown if behind else 0)
        except struct.error:  # a chunk beyond 4 GiB: the file is read back, and what it lacks is named
            return
        changed = Path(f"{target}.boxes")
        result: IO[bytes] = opened.enter_context(changed.open("wb")) if isinstance(target, Path) else io.BytesIO()
        file.seek(0)
        for begin in range(0, at - 8, _PIECE):
            result.write(file.read(min(_PIECE, at - 8 - begin)))
        result.write(struct.pack(">I4s", 8 + len(new), b"moov") + new)
        file.seek(at + size)
        shutil.copyfileobj(file, result, _PIECE)
        result.write(b"".join(box.data for box in added if box.place == "file"))
        if isinstance(target, io.BytesIO) and isinstance(result, io.BytesIO):
            target.seek(0)
            target.write(result.getvalue())
    if isinstance(target, Path):
        os.replace(changed, target)


def _top_boxes(file: IO[bytes]) -> Iterator[tuple[bytes, int, int]]:
    """Yield name, place and size of the content of each box of a file."""
    end = file.seek(0, io.SEEK_END)
    at = 0
    while at + 8 <= end:
        file.seek(at)
        head = file.read(16)
        size, name = struct.unpack_from(">I4s", head)
        begin = 8
        if size == 1 and len(head) == 16:
            size, begin = struct.unpack_from(">Q", head, 8)[0], 16
        size = end - at if size == 0 else size
        if size < begin or at + size > end:
            return
        yield name, at + begin, size - begin
        at += size


def _children(data: bytes) -> list[tuple[bytes, bytes]]:
    found, at = [], 0
    while at + 8 <= len(data):
        size, name = struct.unpack_from(">I4s", data, at)
        if size < 8 or at + size > len(data):
            break
        found.append((name, data[at + 8 : at + size]))
        at += size
    return found


def _index_boxes(index: bytes, track: int) -> Iterator[Box]:
    boxes = _children(index)
    yield from (Box("index", name, content) for name, content in boxes if name not in _INDEX | {b"free", b"skip"})
    yield from _data_boxes("index data", boxes)
    tracks = [content for name, content in boxes if name == b"trak"]
    if track >= len(tracks):
        return
    inside = _children(tracks[track])
    yield from (Box("track", name, content) for name, content in inside if name not in _TRACK | {b"free", b"skip"})
    yield from (Box("track", name, content) for name, content in inside if name == b"tapt")
    yield from _data_boxes("track data", inside)
    entry = _sample_entry(tracks[track])
    yield from (
        Box("entry", name, content)
        for name, content in _children(entry[8 + _VISUAL_ENTRY :])
        if name not in _CODING | {b"free"}
    )


def _data_boxes(place: str, boxes: list[tuple[bytes, bytes]]) -> Iterator[Box]:
    for name, content in (pair for outer, data in boxes if outer == b"udta" for pair in _children(data)):
        if name[:1] != b"\xa9" and name not in _READ_BY_FFMPEG | {b"free", b"skip"}:
            yield Box(place, name, content)


def _sample_entry(track: bytes) -> bytes:
    data = track
    for name in (b"mdia", b"minf", b"stbl", b"stsd"):
        data = next((content for kind, content in _children(data) if kind == name), b"")
    size = struct.unpack_from(">I", data, 8)[0] if len(data) >= 16 else 0
    return data[8 : 8 + size]


def _with_boxes(index: bytes, boxes: list[Box], track: int, *, move: int) -> bytes:
    """Return an index with more boxes, whose chunks lie `move` bytes further behind."""
    parts, number = [], 0
    for name, content in _children(index):
        changed = content
        if name == b"trak":
            mine = [box for box in boxes if number == track and box.place in ("entry", "track", "track data")]
            changed, number = _with_track_boxes(content, mine, move), number + 1
        parts.append((name, changed))
    return _joined(parts, boxes, "index")


def _with_track_boxes(data: bytes, boxes: list[Box], move: int) -> bytes:
    parts = []
    for name, content in _children(data):
        changed = content
        if name in _PARENTS:
            changed = _with_track_boxes(content, [box for box in boxes if box.place == "entry"], move)
        elif name == b"stsd":
            changed = _with_entry_boxes(content, b"".join(box.data for box in boxes))
        elif name in _OFFSETS:
            kind = _OFFSETS[name]
            count, width = struct.unpack_from(">I", content, 4)[0], struct.calcsize(kind)
            places = (struct.unpack_from(kind, content, 8 + width * i)[0] + move for i in range(count))
            changed = content[:8] + b"".join(struct.pack(kind, place) for place in places)
        parts.append((name, changed))
    return _joined(parts, boxes, "track")


def _with_entry_boxes(descriptions: bytes, added: bytes) -> bytes:
    """Return sample descriptions with more boxes in the first one."""
    size = struct.unpack_from(">I", descriptions, 8)[0]
    first = struct.pack(">I", size + len(added)) + descriptions[12 : 8 + size] + added
    return descriptions[:8] + first + descriptions[8 + size :]


def _joined(parts: list[tuple[bytes, bytes]], boxes: list[Box], place: str) -> bytes:
    """Return the content of an index or a track, with the boxes of its user data, and its own."""
    inside = b"".join(box.data for box in boxes if box.place == f"{place} data")
    if inside and not any(name == b"udta" for name, _ in parts):
        parts = [*parts, (b"udta", b"")]
    joined = b"".join(Box("", name, content + inside * (name == b"udta")).data for name, content in parts)
    return joined + b"".join(box.data for box in boxes if box.place == place)

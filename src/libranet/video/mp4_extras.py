"""What .mp4 and .mov files say and FFmpeg's muxer does not write, read from a source; `mp4_finish.py` adds it.

Boxes that say the same of new samples go over byte for byte: clean aperture, 360 degree projection, stereo, field of
view, boxes of cameras and programs. The others are named.
"""

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from libranet.video.ebml import CROPS, PROJECTION, STEREO
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
    for name, at, size in top_boxes(file):
        if name == b"moov" and size <= _LARGEST:
            file.seek(at)
            found += index_boxes(file.read(size), track)
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


def top_boxes(file: IO[bytes]) -> Iterator[tuple[bytes, int, int]]:
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


def child_boxes(data: bytes) -> list[tuple[bytes, bytes]]:
    found, at = [], 0
    while at + 8 <= len(data):
        size, name = struct.unpack_from(">I4s", data, at)
        if size < 8 or at + size > len(data):
            break
        found.append((name, data[at + 8 : at + size]))
        at += size
    return found


def index_boxes(index: bytes, track: int) -> Iterator[Box]:
    boxes = child_boxes(index)
    yield from (Box("index", name, content) for name, content in boxes if name not in _INDEX | {b"free", b"skip"})
    yield from _data_boxes("index data", boxes)
    tracks = [content for name, content in boxes if name == b"trak"]
    if track >= len(tracks):
        return
    inside = child_boxes(tracks[track])
    yield from (Box("track", name, content) for name, content in inside if name not in _TRACK | {b"free", b"skip"})
    yield from (Box("track", name, content) for name, content in inside if name == b"tapt")
    yield from _data_boxes("track data", inside)
    entry = _sample_entry(tracks[track])
    yield from (
        Box("entry", name, content)
        for name, content in child_boxes(entry[8 + _VISUAL_ENTRY :])
        if name not in _CODING | {b"free"}
    )


def _data_boxes(place: str, boxes: list[tuple[bytes, bytes]]) -> Iterator[Box]:
    for name, content in (pair for outer, data in boxes if outer == b"udta" for pair in child_boxes(data)):
        if name[:1] != b"\xa9" and name not in _READ_BY_FFMPEG | {b"free", b"skip"}:
            yield Box(place, name, content)


def _sample_entry(track: bytes) -> bytes:
    data = track
    for name in (b"mdia", b"minf", b"stbl", b"stsd"):
        data = next((content for kind, content in child_boxes(data) if kind == name), b"")
    size = struct.unpack_from(">I", data, 8)[0] if len(data) >= 16 else 0
    return data[8 : 8 + size]

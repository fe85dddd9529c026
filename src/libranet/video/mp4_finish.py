"""Boxes that FFmpeg's muxer does not write, added to a finished .mp4 or .mov file."""

import io
import os
import shutil
import struct
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from libranet.video.mp4_extras import Box, child_boxes, index_boxes, top_boxes

_PIECE = 1 << 20
_OFFSETS = {b"stco": ">I", b"co64": ">Q"}
_PARENTS = (b"moov", b"trak", b"mdia", b"minf", b"stbl")


def add_boxes(target: Path | IO[bytes], boxes: tuple[Box, ...], track: int) -> None:
    """Add boxes to a finished file. Where its index comes first, everything behind moves, and the index says so."""
    with ExitStack() as opened:
        file: IO[bytes] = opened.enter_context(target.open("rb")) if isinstance(target, Path) else target
        places = list(top_boxes(file))
        at, size = next(((at, size) for name, at, size in places if name == b"moov"), (0, 0))
        file.seek(at)
        old = file.read(size)
        present = list(index_boxes(old, track))
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


def _with_boxes(index: bytes, boxes: list[Box], track: int, *, move: int) -> bytes:
    """Return an index with more boxes, whose chunks lie `move` bytes further behind."""
    parts, number = [], 0
    for name, content in child_boxes(index):
        changed = content
        if name == b"trak":
            mine = [box for box in boxes if number == track and box.place in ("entry", "track", "track data")]
            changed, number = _with_track_boxes(content, mine, move), number + 1
        parts.append((name, changed))
    return _joined(parts, boxes, "index")


def _with_track_boxes(data: bytes, boxes: list[Box], move: int) -> bytes:
    parts = []
    for name, content in child_boxes(data):
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

"""Paired sets in few large files: tar shards as WebDataset has them, and an index for reading any frame of them.

A set of single frames is a million small files, which shared file systems and object stores serve slowly. A shard is an
ordinary tar: CLIP.000012.hazy.png beside CLIP.000012.clear.png. All frames of a clip lie in one shard, and index.json
says where each begins, so that a reader fetches a frame by its place, and of a PNG in bands only the rows of its crop.
"""

import io
import json
import os
import re
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np

from libranet.atomic import atomic_file
from libranet.data.frames import Box, FrameFiles, FrameSequence, RgbSamples, read_image_at
from libranet.data.pairs import PairedClip
from libranet.data.png_bands import encode_png
from libranet.errors import InputError

INDEX_FILE = "index.json"
FORMAT = "libranet-packed-pairs"
SHARD_BYTES = 1 << 30  # size at which the next clip begins a new shard
_KEPT = (".png", ".jpg", ".jpeg", ".webp", ".bmp")
"""Frames in these files are packed byte by byte; other frames become PNG in bands."""


class Place(NamedTuple):
    """Where a frame lies in a shard."""

    offset: int
    size: int


@dataclass(frozen=True)
class PackedFrames:
    """The frames of one side of a clip, in a shard."""

    shard: Path
    size: tuple[int, int]  # width and height
    places: tuple[Place, ...]

    def __len__(self) -> int:
        return len(self.places)

    def size_of(self, index: int) -> tuple[int, int]:
        """Width and height, which all frames of a packed clip share."""
        return self.size

    def read(self, index: int, box: Box | None = None) -> RgbSamples:
        place = self.places[index]
        try:
            with self.shard.open("rb") as file:
                file.seek(place.offset)
                return read_image_at(file, f"byte {place.offset} of {self.shard}", box, place.size)
        except OSError as error:
            raise InputError(f"could not read {self.shard}: {error.strerror or error}") from error


def pack_pairs(
    clips: Sequence[PairedClip],
    folder: Path,
    *,
    shard_bytes: int = SHARD_BYTES,
) -> int:
    """Write clips into shards. The index comes last, so a set without one is not finished.

    Args:
        folder: Where the shards go: a new or empty folder, or one that an earlier call did not finish.
        shard_bytes: Size at which the next clip begins a new shard.
    """
    if shard_bytes < 1:
        raise InputError(f"expected shards of at least one byte, got {shard_bytes}")
    if not clips:
        raise InputError("expected at least one clip to pack, got none")
    names = [_member_name(clip.name) for clip in clips]
    if len(set(names)) < len(names):
        raise InputError(f"two clips would have the name {max(names, key=names.count)} in the shards: rename one")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        foreign = [path.name for path in folder.iterdir() if not re.fullmatch(r"\.?shard-\d{6}\.tar.*", path.name)]
        if foreign:
            raise InputError(f"{folder} is not empty ({foreign[0]}): choose another folder")
        entries: list[dict[str, Any]] = []
        rest = list(zip(names, clips, strict=True))
        shards = 0
        while rest:
            with atomic_file(folder / f"shard-{shards:06d}.tar") as temporary, tarfile.open(temporary, "w") as tar:
                while rest and (not tar.offset or tar.offset < shard_bytes):
                    name, clip = rest.pop(0)
                    entries.append(_add_clip(tar, f"shard-{shards:06d}.tar", name, clip))
            shards += 1
        with atomic_file(folder / INDEX_FILE) as temporary:
            temporary.write_text(json.dumps({"format": FORMAT, "version": 1, "clips": entries}))
    except OSError as error:
        raise InputError(f"could not write to {folder}: {error.strerror or error}") from error
    return shards


def packed_pairs(folder: str | Path) -> list[PairedClip]:
    """Open a set that `pack_pairs` wrote."""
    folder = Path(folder)
    try:
        index = json.loads((folder / INDEX_FILE).read_text())
        if index["format"] != FORMAT:
            raise ValueError
        clips = [
            PairedClip(entry["name"], _side(folder, entry, "hazy"), _side(folder, entry, "clear"))
            for entry in index["clips"]
        ]
    except OSError:
        raise InputError(f"no finished packed set in {folder}: run `libranet data pack` again") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{folder / INDEX_FILE} is damaged: run `libranet data pack` again") from None
    needed: dict[Path, int] = {}
    for clip in clips:
        for side in (clip.hazy, clip.clear):
            assert isinstance(side, PackedFrames)
            needed[side.shard] = max(needed.get(side.shard, 0), *(place.offset + place.size for place in side.places))
    for shard, size in needed.items():
        if not shard.is_file() or os.path.getsize(shard) < size:
            raise InputError(f"{shard} is missing or cut off: copy it again, or run `libranet data pack` again")
    return clips


def _side(folder: Path, entry: dict[str, Any], side: str) -> PackedFrames:
    width, height = entry["size"]
    return PackedFrames(folder / entry["shard"], (width, height), tuple(Place(*place) for place in entry[side]))


def _member_name(clip: str) -> str:
    """WebDataset splits names at the first dot, so that a clip's own name has none."""
    return re.sub(r"[^\w/-]+", "_", clip)


def _add_clip(tar: tarfile.TarFile, shard: str, name: str, clip: PairedClip) -> dict[str, Any]:
    places: dict[str, list[Place]] = {"hazy": [], "clear": []}
    for index in range(len(clip)):
        for side, frames in (("hazy", clip.hazy), ("clear", clip.clear)):
            suffix, content = _frame_bytes(frames, index)
            member = tarfile.TarInfo(f"{name}.{index:06d}.{side}{suffix}")
            member.size = len(content)
            head = len(member.tobuf(tar.format, tar.encoding or "utf-8", tar.errors or "surrogateescape"))
            places[side].append(Place(tar.offset + head, len(content)))
            tar.addfile(member, io.BytesIO(content))
    return {"name": clip.name, "shard": shard, "size": list(clip.hazy.size), **places}


def _frame_bytes(frames: FrameSequence, index: int) -> tuple[str, bytes]:
    if isinstance(frames, FrameFiles) and frames.paths[index].suffix.lower() in _KEPT:
        path = frames.paths[index]
        try:
            return path.suffix.lower(), path.read_bytes()
        except OSError as error:
            raise InputError(f"could not read the frame {path}: {error.strerror or error}") from error
    samples = frames.read(index)
    if samples.dtype == np.uint8:
        return ".png", encode_png(samples)
    ok, deep = cv2.imencode(".png", np.ascontiguousarray(samples[..., ::-1]))  # in bands are 8 bits only
    assert ok
    return ".png", deep.tobytes()

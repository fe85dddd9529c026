"""The tables of a track in MP4 and QuickTime: each says anew how many samples there are, and how long they last.

The silent loss: a wrong number in one of them moves frames out of the part that the edit list shows, and readers leave
them out as they leave out what a user has cut away. Then the tables contradict each other, which those of a cut file do
not.
"""

import struct

import numpy as np

_SPARE = 1
"""Some programs write one sample too many into one table."""
_MOST_HELD = 16
"""Frames that a decoder of H.264 or HEVC holds back at most, to show others before them."""
_MOST_SAMPLES = 50_000_000
_UNKNOWN = (0, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)
"""Durations that programs write before they know them."""
_FOR_VIDEO = b"vide"


def check_track(boxes: dict[bytes, bytes], movie_header: bytes, file_size: int) -> bool:
    """Return whether the tables of a video track agree with each other and with the size of the file.

    Args:
        boxes: Contents of the track's boxes by name.
        movie_header: Content of the movie's header.
        file_size: In bytes.
    """
    if boxes.get(b"hdlr", b"")[8:12] != _FOR_VIDEO or b"stts" not in boxes:
        return True
    try:
        return _samples_size(boxes) <= file_size and _agree(boxes, movie_header)
    except (struct.error, ValueError, KeyError):
        return False  # a table that is longer than its box, or is not there


def _agree(boxes: dict[bytes, bytes], movie_header: bytes) -> bool:
    counts, steps = _pairs(boxes[b"stts"], ">u4")
    samples = int(counts.sum())
    if samples == 0 or samples > _MOST_SAMPLES:  # all samples are in fragments
        return samples == 0
    sized = _sized(boxes)
    if abs(sized - samples) > _SPARE or abs(_placed(boxes, sized) - sized) > _SPARE:
        return False
    decoded = np.concatenate([[0], np.cumsum(np.repeat(steps, counts))]).astype(np.float64)
    offsets = np.zeros(samples)
    if b"ctts" in boxes:
        repeats, values = _pairs(boxes[b"ctts"], ">i4")
        if abs(int(repeats.sum()) - samples) > _SPARE:
            return False
        values = np.repeat(values, repeats)[:samples]
        offsets[: len(values)] = values
    return _shows_all(decoded, offsets, boxes, movie_header)


def _shows_all(
    decoded: np.ndarray,  # [N + 1], times of decoding, and the end
    offsets: np.ndarray,  # [N]
    boxes: dict[bytes, bytes],
    movie_header: bytes,
) -> bool:
    """Return whether all samples lie inside of the edit list, or those outside of it were cut away."""
    if b"elst" not in boxes:
        return True
    scale, _ = _numbers(boxes[b"mdhd"], 12, 20)
    movie_scale, _ = _numbers(movie_header, 12, 20)
    if scale == 0 or movie_scale == 0:
        return False
    tick = scale / movie_scale
    edits, total = _edits(boxes[b"elst"], tick)
    if len(edits) != 1:  # put together from several parts
        return True
    (begin, end), shown = edits[0], decoded[:-1] + offsets
    late = shown >= end
    if not ((shown < begin).any() or late.any()):
        return True
    steps = np.diff(decoded)
    step = float(steps.max())
    # Frames change places only with near ones.
    if shown.max() - shown.min() > decoded[-2] + _MOST_HELD * step:
        return False
    steady = bool((steps[:-1] == step).all())
    if steady and not _has_all_places(np.sort(shown), step, begin, end if late.any() else -1.0):
        return False
    slack = 2 * tick + 1 + (0 if steady else step)
    if end != float("inf") and end > shown.max() + (step if steady else steps[-1]) + slack:
        return False
    _, duration = _numbers(boxes[b"tkhd"], 16, 24)
    lengths = (total, end - begin)
    return duration in _UNKNOWN or any(abs(duration * tick - length) <= slack + step for length in lengths)


def _has_all_places(shown: np.ndarray, step: float, begin: float, complete_to: float) -> bool:
    """Return whether frames of one duration, in order, leave no place between them free.

    Copies of a part of a video lack frames near both of its ends, which would be shown before frames that came first.
    Where frames are hidden behind the edit, those inside of it are complete.
    """
    if ((shown - shown[0]) % step != 0).any():
        return False
    free = np.flatnonzero(np.diff(shown) != step)
    if ((shown[free] >= begin) & (shown[free] + step < complete_to)).any():
        return False
    return bool(((free < _MOST_HELD) | (free >= len(shown) - 1 - _MOST_HELD)).all())


def _pairs(table: bytes, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the two columns of a table: counts and values."""
    rows = struct.unpack_from(">I", table, 4)[0]
    columns = np.frombuffer(table, np.dtype([("count", ">u4"), ("value", kind)]), count=rows, offset=8)
    return columns["count"].astype(np.int64), columns["value"].astype(np.int64)


def _sized(boxes: dict[bytes, bytes]) -> int:
    """Return how many samples have a size."""
    table = boxes.get(b"stsz") or boxes.get(b"stz2")
    return 0 if table is None else int(struct.unpack_from(">I", table, 8)[0])


def _samples_size(boxes: dict[bytes, bytes]) -> int:
    """Return how many bytes all samples have, where a table says it in four bytes for each."""
    table = boxes.get(b"stsz", b"")
    if len(table) < 12:
        return 0
    size, count = struct.unpack_from(">II", table, 4)
    return size * count if size else int(np.frombuffer(table, ">u4", offset=12)[:count].sum(dtype=np.int64))


def _placed(boxes: dict[bytes, bytes], samples: int) -> int:
    """Return how many samples have a place, at most as many as there are."""
    table = boxes.get(b"stco") or boxes.get(b"co64")
    if table is None:
        return 0
    chunks = struct.unpack_from(">I", table, 4)[0]
    rows = struct.unpack_from(">I", boxes[b"stsc"], 4)[0]
    columns = np.frombuffer(boxes[b"stsc"], ">u4", count=3 * rows, offset=8).reshape(-1, 3).astype(np.int64)
    lengths = np.diff(np.append(columns[:, 0], chunks + 1))
    return min(samples, int((lengths * columns[:, 1]).sum())) if (lengths > 0).all() else 0


def _numbers(header: bytes, narrow: int, wide: int) -> tuple[int, int]:
    """Return two numbers of a header, the second one a duration. Times have four bytes in version 0, eight in 1."""
    if header[:1] == b"\x01":
        first, second = struct.unpack_from(">IQ", header, wide)
    else:
        first, second = struct.unpack_from(">II", header, narrow)
    return int(first), int(second)


def _edits(table: bytes, tick: float) -> tuple[list[tuple[float, float]], float]:
    """Return begin and end of the parts of a track that are shown, and the duration of all with the pauses between."""
    rows = struct.unpack_from(">I", table, 4)[0]
    entry = struct.Struct(">Qqi" if table[:1] == b"\x01" else ">Iii")
    if 8 + rows * entry.size > len(table):
        raise ValueError("the list is longer than its box")
    edits, total = [], 0.0
    for length, begin, _ in entry.iter_unpack(table[8 : 8 + rows * entry.size]):
        total += length * tick
        if begin >= 0:
            edits.append((begin, begin + length * tick if length else float("inf")))
    return edits, total

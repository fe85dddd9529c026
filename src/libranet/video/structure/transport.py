"""MPEG transport streams: packets of one size, with a counter in each stream.

The silent losses: sound that a receiver missed (FFmpeg marks only frames that lack a piece), bytes that FFmpeg passes
over to find the next packet, two frames that it joins because the second lost its start, and the end of a file that was
cut between two packets: sound says how long a piece of it is, and lacks the rest.
"""

from collections.abc import Collection
from pathlib import Path

import numpy as np

from libranet.video.structure.breaks import Breaks, FileBytes

_SYNC = 0x47
_LEAST = 188
_SIZES = (188, 192, 204)
"""Plain, of Blu-ray and camcorders, and of broadcasts."""
_TABLE = 0
"""Number of the table that a recording begins with."""
_ROWS = 20_000
_WINDOW = 1 << 16


def walk_transport(
    file: FileBytes, breaks: Breaks, streams: Collection[int], joins: int, video: int | None = None
) -> None:
    """Follow packets and counters, and count the times of frames.

    A counter may start anew where a recording was joined to another: there the clock jumps, or the table of programs
    comes first, with a counter that starts anew as well.

    Args:
        file: The file.
        breaks: What is found.
        streams: Numbers of the streams that count.
        joins: Jumps of the clock.
        video: Number of the video. A time in it means that a frame begins there.
    """
    size, at = _layout(file, 0)
    if size == 0:
        return
    counters = _Counters(streams, video)
    while at + _LEAST <= file.size:
        data = np.frombuffer(file.read(at, _ROWS * size).ljust(size, b"\0"), np.uint8)
        rows = data[: len(data) // size * size].reshape(-1, size)
        if len(data) % size >= _LEAST:  # the last one has no end of its own
            breaks.cut |= len(data) % size > _LEAST and not file.only_zeros(at + len(rows) * size + _LEAST)
            rows = np.concatenate([rows, np.pad(data[len(rows) * size :], (0, size - len(data) % size))[None]])
        bad = np.flatnonzero(rows[:, 0] != _SYNC)
        good = rows[: bad[0]] if bad.size else rows
        counters.take(good)
        at += len(good) * size
        if bad.size:
            if file.only_zeros(at):
                break
            _, further = _layout(file, at + 1, (size,))
            breaks.add(further - at)
            at = further
    breaks.cut |= 0 < file.size - at < _LEAST and not file.only_zeros(at)
    breaks.cut |= any(rest > 0 for rest in counters.owed.values())
    gaps = max((count for count in counters.gaps.values()), default=0)
    breaks.gaps += gaps if gaps > joins else 0
    breaks.video_packets = None if video is None else counters.times


def goes_on(path: Path, stream: int, place: int) -> bool:
    """Return whether a stream's counter goes on at a place: a recording paused there, and was not joined to another.

    Args:
        path: The file.
        stream: The stream's number (PID).
        place: Where a packet of it begins.
    """
    with FileBytes(path) as file:
        size, first = _layout(file, 0)
        if size == 0 or place < first:
            return False
        last = (place - first) // size  # FFmpeg's place of a packet is that of its sync byte, and so is `first`
        begin = max(0, last - _ROWS)
        data = file.read(first + begin * size, (last - begin) * size + _LEAST)
    rows = np.frombuffer(data.ljust((last - begin + 1) * size, b"\0"), np.uint8).reshape(-1, size)
    return not any(_starts_anew(rows, number) for number in (stream, _TABLE))


def _starts_anew(rows: np.ndarray, stream: int) -> bool:  # [N, size]
    """Return whether the counter of a stream, or of the table of programs, starts anew behind its packet before."""
    number = (rows[:, 1].astype(np.int64) & 0x1F) << 8 | rows[:, 2]
    mine = rows[(rows[:, 0] == _SYNC) & (number == stream) & (rows[:, 3] & 0x10 != 0)][-2:]
    if len(mine) < 2:
        return False
    told = bool(mine[1, 3] & 0x20 and mine[1, 4] and mine[1, 5] & 0x80)
    return told or (int(mine[1, 3] & 15) - int(mine[0, 3] & 15)) % 16 != 1


def _layout(file: FileBytes, at: int, sizes: tuple[int, ...] = _SIZES) -> tuple[int, int]:
    """Return the size of packets and where the next one begins; (0, end of the file) where there is none."""
    while at < file.size:
        data = np.frombuffer(file.read(at, _WINDOW), np.uint8)
        starts = np.flatnonzero(data == _SYNC)
        for start in starts:
            for size in sizes:
                following = data[start::size][:5]
                if (following == _SYNC).all() and (len(following) >= 3 or at + len(data) == file.size):
                    return size, at + int(start)
        at += max(1, len(data) - 5 * max(sizes)) if len(data) == _WINDOW else len(data)
    return 0, file.size


def _payload(packet: np.ndarray) -> bytes:  # [size]
    at = 5 + int(packet[4]) if packet[3] & 0x20 else 4
    return packet[at:_LEAST].tobytes()


class _Counters:
    """The counter of each stream."""

    def __init__(self, streams: Collection[int], video: int | None) -> None:
        self.gaps = dict.fromkeys(streams, 0)
        self.times = 0
        """Times of presentation in the video, each counted once."""
        self.owed = dict.fromkeys(set(streams) - {video}, 0)
        """Bytes that each sound still lacks of the piece that began last."""
        self._video, self._time = video, b""
        self._last: dict[int, tuple[int, int]] = {}
        """Counter and place of each stream's last packet."""
        self._restart = -1
        """Place of the last table that started anew."""
        self._rows = 0

    def take(self, rows: np.ndarray) -> None:  # [N, size]
        """Count gaps in the next packets."""
        number = (rows[:, 1].astype(np.int64) & 0x1F) << 8 | rows[:, 2]
        filled = (rows[:, 3] & 0x10) != 0
        told = ((rows[:, 3] & 0x20) != 0) & (rows[:, 4] > 0) & ((rows[:, 5] & 0x80) != 0)
        restarts = [place for place, _ in self._jumps(_TABLE, rows, number, filled, told)]
        for stream in self.gaps:
            for place, before in self._jumps(stream, rows, number, filled, told):
                inside = any(before < restart < place for restart in (self._restart, *restarts))
                self.gaps[stream] += not inside
        self._restart = restarts[-1] if restarts else self._restart
        self._rows += len(rows)
        begins = (rows[:, 1] & 0x40 != 0) & filled
        for stream in self.owed:
            self._take_sound(stream, rows[(number == stream) & filled], begins[(number == stream) & filled])
        for row in rows[begins & (number == self._video)] if self._video is not None else ():
            self._count_time(row)

    def _take_sound(self, stream: int, rows: np.ndarray, begins: np.ndarray) -> None:  # [N, size], [N]
        starts = np.flatnonzero(begins)
        if starts.size:
            rows = rows[starts[-1] :]
            head = _payload(rows[0])
            told = int.from_bytes(head[4:6], "big") if head[:3] == b"\0\0\1" else 0
            self.owed[stream] = told + 6 if told else 0  # pieces may go on without saying how long
        if self.owed[stream] > 0:
            self.owed[stream] -= sum(len(_payload(row)) for row in rows)

    def _count_time(self, packet: np.ndarray) -> None:
        """Count the time in the header of a frame. Packets that are sent twice, and parts of a frame, repeat it."""
        head = _payload(packet)[:14]
        if len(head) == 14 and head[:3] == b"\0\0\1" and head[7] & 0x80 and head[9:14] != self._time:
            self.times, self._time = self.times + 1, head[9:14]

    def _jumps(
        self, stream: int, rows: np.ndarray, number: np.ndarray, filled: np.ndarray, told: np.ndarray
    ) -> list[tuple[int, int]]:
        """Return the places where a counter jumps, and those of the stream's packet before."""
        index = np.flatnonzero((number == stream) & filled)
        if not index.size:
            return []
        counter = (rows[index, 3] & 0x0F).astype(np.int64)
        last, where = self._last.get(stream, (int(counter[0]) - 1, -1))
        before = np.concatenate([[last], counter[:-1]])
        step = (counter - before) % 16
        again = (step == 0) & np.concatenate([[True], (rows[index[1:]] == rows[index[:-1]]).all(1)])
        places = index + self._rows
        previous = np.concatenate([[where], places[:-1]])
        self._last[stream] = int(counter[-1]), int(places[-1])
        wrong = (step != 1) & ~again & ~told[index]
        return [(int(a), int(b)) for a, b in zip(places[wrong], previous[wrong], strict=True)]

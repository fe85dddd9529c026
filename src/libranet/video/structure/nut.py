"""NUT: packets with a start code, a length and a checksum; frames between them, whose size stands in their header."""

import re
from dataclasses import dataclass

from libranet.video.structure.breaks import Breaks, FileBytes
from libranet.video.structure.checksum import is_sound

_NAME = b"nut/multimedia container\0"
_MAIN, _STREAM, _SYNC = b"NM\x7a\x56\x1f\x5f\x04\xad", b"NS\x11\x40\x5b\xf2\xf9\xdb", b"NK\xe4\xad\xee\xca\x45\x69"
_INDEX, _INFO = b"NX\xdd\x67\x2f\x23\xe6\x4e", b"NI\xab\x68\xb5\x96\xba\x78"
_START = re.compile(b"|".join(re.escape(code) for code in (_MAIN, _STREAM, _SYNC, _INDEX, _INFO)))
_HEAD = 64
"""Bytes to read for a header: those of a frame and of a packet have fewer."""
_LONG = 4096
"""A packet longer than this has a checksum of its header, and a frame longer than this has no elided bytes."""
_PTS, _STREAM_ID, _SIZE, _CHECKSUM, _RESERVED, _ELIDED, _MATCH, _CODED, _INVALID = (
    1 << bit for bit in (3, 4, 5, 6, 7, 10, 11, 12, 13)
)
_IS_VIDEO = 0


@dataclass(frozen=True)
class _FrameCode:
    """What the first byte of a frame stands for."""

    flags: int
    stream: int
    multiple: int
    rest: int
    """The size is `multiple` times a number in the frame, plus this."""
    reserved: int
    elided: int
    """Number of the bytes that all frames of this code begin with. They are left out of the file."""


class _Numbers:
    """Numbers of seven bits in each byte, one after another."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def next(self) -> int:
        """Return the next number. Raises IndexError at the end of the data."""
        value = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value = value << 7 | byte & 0x7F
            if byte < 0x80:
                return value


def walk_nut(file: FileBytes, breaks: Breaks) -> None:
    """Follow packets and frames."""
    _Walk(file, breaks).run()


class _Walk:
    def __init__(self, file: FileBytes, breaks: Breaks) -> None:
        self._file, self._breaks = file, breaks
        self._codes: list[_FrameCode] = []
        self._elided: list[int] = [0]
        self._streams: dict[int, int] = {}
        """Kinds of the streams."""
        self._ended = False
        """The last packet was the index, which programs write at the end."""

    def run(self) -> None:
        at = len(_NAME)
        while at < self._file.size:
            head = self._file.read(at, _HEAD)
            try:
                end = self._packet(at, head) if _START.match(head) else self._frame(at, head)
            except IndexError:
                end = None if len(head) == _HEAD else self._file.size + 1
            if end is None:
                if self._ended:
                    return  # what other programs append
                further = self._file.find(_START, at + 1)
                end = self._file.size if further is None else further
                self._breaks.add(end - at)
            at = end
        self._breaks.cut |= at > self._file.size

    def _packet(self, at: int, head: bytes) -> int | None:
        """Return where a packet ends, or None where its checksum is wrong."""
        code, numbers = head[:8], _Numbers(head[8:])
        size = numbers.next()
        begin = 8 + numbers.at
        if size > _LONG:
            begin += 4
            if not is_sound(head[:begin]):
                return None
        end = at + begin + size
        if end > self._file.size:
            return end
        data = self._file.read(at + begin, size)
        if not is_sound(data):
            return None
        self._ended = code == _INDEX
        if code == _MAIN:
            self._read_main(_Numbers(data))
        elif code == _STREAM:
            fields = _Numbers(data)
            number, kind = fields.next(), fields.next()
            if kind == _IS_VIDEO and self._breaks.video_packets is None:
                self._breaks.video_packets = 0
            self._streams[number] = kind
        return end

    def _read_main(self, numbers: _Numbers) -> None:
        """Read the table of frame codes and the sizes of the bytes that are left out."""
        if numbers.next() > 3:
            numbers.next()
        numbers.next()
        numbers.next()
        for _ in range(2 * numbers.next()):
            numbers.next()
        codes: list[_FrameCode] = []
        multiple, stream, elided = 1, 0, 0
        while len(codes) < 256:
            flags, fields = numbers.next(), numbers.next()
            values = [numbers.next() for _ in range(fields)]
            multiple = values[1] if fields > 1 else multiple
            stream = values[2] if fields > 2 else stream
            size = values[3] if fields > 3 else 0
            reserved = values[4] if fields > 4 else 0
            count = values[5] if fields > 5 else multiple - size
            elided = values[7] if fields > 7 else elided
            for rest in range(size, size + min(count, 256)):
                if len(codes) == ord("N"):  # the first letter of the start codes
                    codes.append(_FrameCode(_INVALID, 0, 1, 0, 0, 0))
                codes.append(_FrameCode(flags, stream, multiple, rest, reserved, elided))
        self._codes, self._elided = codes, [0]
        for _ in range(numbers.next()):
            self._elided.append(numbers.next())
            numbers.at += self._elided[-1]

    def _frame(self, at: int, head: bytes) -> int | None:
        """Return where a frame ends, or None where no frame is."""
        code = self._codes[head[0]] if self._codes else None
        if code is None or self._ended:
            return None
        numbers = _Numbers(head)
        numbers.at = 1
        flags = code.flags
        if flags & _CODED:
            flags ^= numbers.next()
        if flags & _INVALID:
            return None
        stream = numbers.next() if flags & _STREAM_ID else code.stream
        if stream not in self._streams:
            return None
        if flags & _PTS:
            numbers.next()
        size = code.rest + (code.multiple * numbers.next() if flags & _SIZE else 0)
        if flags & _MATCH:
            numbers.next()
        elided = numbers.next() if flags & _ELIDED else code.elided
        for _ in range(numbers.next() if flags & _RESERVED else code.reserved):
            numbers.next()
        if elided >= len(self._elided):
            return None
        numbers.at += 4 if flags & _CHECKSUM else 0
        if flags & _CHECKSUM and not is_sound(head[: numbers.at]):
            return None
        in_file = size - (0 if size > _LONG else self._elided[elided])
        if in_file < 0:
            return None
        if size and self._streams[stream] == _IS_VIDEO and stream == self._first_video():
            self._breaks.video_packets = (self._breaks.video_packets or 0) + 1
        return at + numbers.at + in_file

    def _first_video(self) -> int:
        return min(number for number, kind in self._streams.items() if kind == _IS_VIDEO)

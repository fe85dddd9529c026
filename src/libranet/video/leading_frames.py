"""Frames of an HEVC stream that no decoder shows, because they refer to frames before its beginning.

A copy that was cut out of a stream with open GOPs begins with them. They are no loss.
"""

_START_CODE = b"\0\0\1"
_RASL = (8, 9)
_BLA, _CRA, _INTRA = range(16, 19), 21, range(16, 24)
_FIRST_PARAMETER_SET = 32
"""Units from this type on hold no frame."""


class LeadingFrames:
    """Follows a stream and finds frames to skip. Give it the packets in decoding order."""

    def __init__(self, extradata: bytes | None) -> None:
        # hvcC begins with its version and says how many bytes the lengths of units have. Annex B has start codes.
        lengths = extradata is not None and len(extradata) > 21 and extradata[0] == 1
        self._length_size = (extradata[21] & 3) + 1 if lengths and extradata else 0
        self._intra = 0
        self._broken = False
        """The last intra frame is one after which its leading frames cannot be decoded."""

    def skips(self, data: bytes) -> bool:
        """Return whether the frame in a packet is not shown by any decoder."""
        kind = self._frame_type(data)
        if kind in _INTRA:
            self._intra += 1
            self._broken = kind in _BLA or (kind == _CRA and self._intra == 1)
        return kind in _RASL and self._broken

    def _frame_type(self, data: bytes) -> int | None:
        at = 0
        while True:
            if self._length_size:
                start = at + self._length_size
                at = start + int.from_bytes(data[at:start], "big")
            else:
                at = data.find(_START_CODE, at)
                if at < 0:
                    return None
                start = at = at + len(_START_CODE)
            if start >= len(data):
                return None
            if (kind := data[start] >> 1 & 63) < _FIRST_PARAMETER_SET:
                return kind

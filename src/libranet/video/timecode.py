"""Timecodes such as 01:00:00:00, moved to another frame."""

import re
from fractions import Fraction

_TIMECODE = re.compile(r"(\d+):(\d+):(\d+)([:;.])(\d+)")


def shift_timecode(timecode: str, frames: int, rate: Fraction) -> str:
    """Return the timecode of `frames` frames later, or the same text where it is no timecode.

    Drop-frame timecodes (with `;`) skip two numbers (four at 60 fps) every minute but every tenth.
    """
    match = _TIMECODE.fullmatch(timecode.strip())
    count = round(rate)
    if match is None or count < 1:
        return timecode
    hours, minutes, seconds, number = (int(match[group]) for group in (1, 2, 3, 5))
    dropped = count // 15 if match[4] == ";" else 0
    total_minutes = 60 * hours + minutes
    index = (total_minutes * 60 + seconds) * count + number - dropped * (total_minutes - total_minutes // 10)
    index = (index + frames) % (24 * 3600 * count - dropped * (24 * 60 - 24 * 6))
    if dropped:
        ten_minutes = 600 * count - 9 * dropped
        tens, rest = divmod(index, ten_minutes)
        extra = max(0, (rest - dropped) // (60 * count - dropped)) if rest >= dropped else 0
        index += dropped * (9 * tens + extra)
    seconds, number = divmod(index, count)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{match[4]}{number:02}"

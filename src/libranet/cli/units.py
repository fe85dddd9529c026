"""Values with units on the command line: times, bit rates, lists."""

import math
import re

from libranet.errors import InputError

_TIME = re.compile(r"(?:(?:(\d+):)?(\d+):)?(\d+(?:\.\d*)?|\.\d+)")
_RATE = re.compile(r"(\d+(?:\.\d+)?)([kKmM]?)")


def parse_time(text: str, option: str) -> float:
    """Read seconds, mm:ss or hh:mm:ss, with decimals.

    Raises:
        InputError: It is none of them.
    """
    match = _TIME.fullmatch(text.strip())
    value = math.nan
    if match:
        hours, minutes, seconds = match[1] or 0, match[2] or 0, match[3]
        value = int(hours) * 3600 + int(minutes) * 60 + float(seconds)
    if not math.isfinite(value):
        raise InputError(f"expected {option} in seconds, as mm:ss or as hh:mm:ss, got {text!r}")
    return value


def parse_bitrate(text: str) -> int:
    """Read bits per second, such as 8M or 2500k.

    Raises:
        InputError: It is none.
    """
    match = _RATE.fullmatch(text.strip())
    value = float(match[1]) * {"": 1, "k": 1000, "m": 1_000_000}[match[2].lower()] if match else 0.0
    if value < 1000:
        raise InputError(f"expected --bitrate in bits per second, such as 8M or 2500k, got {text!r}")
    return round(value)


def parse_pairs(texts: list[str], option: str) -> tuple[tuple[str, str], ...]:
    """Read options such as key=value.

    Raises:
        InputError: One of them has no key or no value.
    """
    pairs = []
    for text in texts:
        key, sign, value = text.partition("=")
        if not (key and sign and value):
            raise InputError(f"expected {option} as key=value, got {text!r}")
        pairs.append((key, value))
    return tuple(pairs)


def parse_numbers(text: str, option: str) -> tuple[int, ...]:
    """Read numbers such as 0,2.

    Raises:
        InputError: One of them is no number.
    """
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise InputError(f"expected {option} as numbers such as 0,2, got {text!r}")
    return tuple(int(part) for part in parts)

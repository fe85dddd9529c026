"""Values on the command line: times, sizes, bit rates, lists. What cannot be read raises an InputError."""

import math
import re
from pathlib import Path

from libranet.errors import InputError

_TIME = re.compile(r"(?:(?:(\d+):)?(\d+):)?(\d+(?:\.\d*)?|\.\d+)")
_RATE = re.compile(r"(\d+(?:\.\d+)?)([kKmM]?)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmMgGtT]?)i?[bB]?")
_FRAME_SIZE = re.compile(r"(\d+)[xX×](\d+)")


def parse_time(text: str, option: str) -> float:
    """Read seconds, mm:ss or hh:mm:ss, with decimals."""
    match = _TIME.fullmatch(text.strip())
    value = math.nan
    if match:
        hours, minutes, seconds = match[1] or 0, match[2] or 0, match[3]
        value = int(hours) * 3600 + int(minutes) * 60 + float(seconds)
    if not math.isfinite(value):
        raise InputError(f"expected {option} in seconds, as mm:ss or as hh:mm:ss, got {text!r}")
    return value


def parse_bitrate(text: str) -> int:
    """Read bits per second, such as 8M or 2500k."""
    match = _RATE.fullmatch(text.strip())
    value = float(match[1]) * {"": 1, "k": 1000, "m": 1_000_000}[match[2].lower()] if match else 0.0
    if value < 1000:
        raise InputError(f"expected --bitrate in bits per second, such as 8M or 2500k, got {text!r}")
    return round(value)


def parse_strength(text: str) -> tuple[float, tuple[tuple[float, float], ...]]:
    """Read a strength, or key frames: 0:0.2,5:1 or the name of a CSV file with a time and a strength per line.

    Returns:
        The largest strength, and the key frames.
    """
    keyed = ":" in text
    lines = text.split(",") if keyed else [text]
    if Path(text).suffix.lower() == ".csv":
        try:
            lines, keyed = Path(text).read_text("utf-8-sig").replace(",", "=").split("\n"), True
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read the key frames in {text} ({error}): check the file") from None
        lines = [line for line in lines if line.strip()]
    keys = []
    for line in lines:
        time, sign, value = line.rpartition("=" if "=" in line else ":")
        try:
            keys.append((parse_time(time, "--strength") if sign else 0.0, float(value)))
        except ValueError:
            raise InputError(
                f"expected --strength as a number, as key frames such as 0:0.2,5:1, or as a .csv file, got {line!r}"
            ) from None
    if not keys:
        raise InputError(f"there is no key frame in {text}: write a time and a strength per line")
    return max(value for _, value in keys), tuple(keys) if keyed else ()


def parse_pairs(texts: list[str], option: str) -> tuple[tuple[str, str], ...]:
    """Read options such as key=value."""
    pairs = []
    for text in texts:
        key, sign, value = text.partition("=")
        if not (key and sign and value):
            raise InputError(f"expected {option} as key=value, got {text!r}")
        pairs.append((key, value))
    return tuple(pairs)


def parse_numbers(text: str, option: str) -> tuple[int, ...]:
    """Read numbers such as 0,2."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise InputError(f"expected {option} as numbers such as 0,2, got {text!r}")
    return tuple(int(part) for part in parts)


def parse_bytes(text: str, option: str) -> int:
    """Read a size such as 500M, 4G or 1T, in powers of 1024."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or float(match[1]) <= 0:
        raise InputError(f"expected {option} as a size such as 500M or 4G, got {text!r}")
    return round(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def parse_size(text: str) -> tuple[int, int]:
    """Read a frame size as WIDTHxHEIGHT."""
    match = _FRAME_SIZE.fullmatch(text.strip())
    if match is None:
        raise InputError(f"expected a size as WIDTHxHEIGHT, for example 3840x2160, got {text!r}")
    return int(match[1]), int(match[2])

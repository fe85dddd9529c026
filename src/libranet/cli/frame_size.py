"""Frame sizes as people write them: 3840x2160."""

import re

from libranet.errors import InputError


def parse_size(text: str) -> tuple[int, int]:
    """Read WIDTHxHEIGHT."""
    match = re.fullmatch(r"(\d+)[xX×](\d+)", text.strip())
    if match is None:
        raise InputError(f"expected a size as WIDTHxHEIGHT, for example 3840x2160, got {text!r}")
    return int(match[1]), int(match[2])

"""Inputs by name: the one place that knows a file from a sequence, an address, a camera or a pipe."""

import glob
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from libranet.errors import InputError

Kind = Literal["file", "folder", "sequence", "url", "camera", "pipe"]

_NUMBER = re.compile(r"%(0?)(\d*)d")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")


@dataclass(frozen=True)
class Source:
    """An input. `parse_source` makes it from what the user wrote."""

    kind: Kind
    name: str
    """As the user wrote it."""
    path: Path | None = None
    """Of a file, a folder or a pipe in the file system. Standard input (`-`) has none."""
    files: tuple[tuple[int, Path], ...] = ()
    """Of a sequence: numbers and files in order."""

    @property
    def can_reopen(self) -> bool:
        """Whether the source can be read more than once."""
        return self.kind in ("file", "sequence")

    @property
    def is_standard_input(self) -> bool:
        """Whether frames come as y4m from standard input."""
        return self.kind == "pipe" and self.path is None

    @property
    def location(self) -> str:
        """What FFmpeg opens. A local name gets a prefix, so that `:` or `%` in it have no meaning."""
        return self.name if self.path is None else f"file:{self.path}"

    @property
    def gaps(self) -> int:
        """Numbers that are missing between the first and the last file of a sequence."""
        return self.files[-1][0] - self.files[0][0] + 1 - len(self.files) if self.files else 0


def parse_source(text: str | Path) -> Source:
    """Decide what an input means. What exists under exactly this name is always meant first.

    Args:
        text: A path, a numbered pattern such as frame_%04d.png, an address, `camera:0`, or `-` for y4m.

    Raises:
        InputError: There is no such input, or it cannot be read.
    """
    name = str(text)
    if name.strip() == "" or (isinstance(text, Path) and not text.parts):
        raise InputError("an input is empty: give the name of a file or folder")
    if name == "-":
        return Source("pipe", name)
    if re.fullmatch(r"camera:.+|/dev/video\d+", name):
        return Source("camera", name)
    path = Path(name)
    if os.path.lexists(path):
        return _existing(name, path)
    if name.startswith("file:"):
        return _file_address(name)
    if _SCHEME.match(name):
        return Source("url", name)
    if _NUMBER.search(name):
        return Source("sequence", name, files=_numbered_files(name))
    raise InputError(f"there is no file {path}: check the path")


def is_pattern(text: str | Path) -> bool:
    """Return whether a name holds the place of a number, such as frame_%04d.png."""
    return _NUMBER.search(str(text)) is not None


def numbered_name(pattern: str, number: int) -> Path:
    """Fill the number into a pattern."""
    match = _NUMBER.search(pattern)
    assert match is not None
    return Path(pattern[: match.start()] + _digits(match, number) + pattern[match.end() :])


def _existing(name: str, path: Path) -> Source:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): check the path") from None
    if stat.S_ISDIR(mode):
        return Source("folder", name, path)
    if not os.access(path, os.R_OK):
        raise InputError(f"{path} may not be read: change its permissions")
    if not stat.S_ISREG(mode):
        return Source("pipe", name, path)
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty (0 bytes): copy or record it again")
    return Source("file", name, path)


def _file_address(name: str) -> Source:
    rest = name.removeprefix("file:")
    rest = rest.removeprefix("//") if rest.startswith("//") else rest
    for candidate in (rest, unquote(rest)):
        if candidate and os.path.lexists(candidate):
            return _existing(name, Path(candidate))
    raise InputError(f"there is no file {unquote(rest)}: check the address {name}")


def _numbered_files(pattern: str) -> tuple[tuple[int, Path], ...]:
    match = _NUMBER.search(pattern)
    assert match is not None
    before, after = pattern[: match.start()], pattern[match.end() :]
    number = re.compile(re.escape(before) + r"(\d+)" + re.escape(after) + r"\Z")
    names = glob.glob(glob.escape(before) + "*" + glob.escape(after))
    hits = [(hit[1], Path(name)) for name in names if (hit := number.match(name))]
    found = sorted((int(digits), path) for digits, path in hits if digits == _digits(match, int(digits)))
    if found:
        return tuple(found)
    if hits:
        raise InputError(
            f"no file matches {pattern}, but {hits[0][1].name} is there: write the number as %0{len(hits[0][0])}d"
        )
    raise InputError(f"no file matches {pattern}: check the folder and the number of digits")


def _digits(match: re.Match[str], number: int) -> str:
    width = int(match[2] or 0)
    return f"{number:0{width}d}" if match[1] else f"{number:{width}d}"

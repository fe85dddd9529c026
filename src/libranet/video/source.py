"""Inputs by name: the one place that knows a file from a sequence, an address, a camera or a pipe."""

import glob
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal
from urllib.parse import unquote

from libranet.errors import InputError

Kind = Literal["file", "folder", "sequence", "url", "camera", "pipe"]

_NUMBER = re.compile(r"%(0?)(\d*)d")
_LIVE = re.compile(r"(?:rtsps?|rtmps?|srt|udp|tcp)://.+|.+\.m3u8|/dev/video\d+", re.IGNORECASE)
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
    version: str = ""
    """Tells this file from others of its name, where it is a copy of one elsewhere; else its place and time do."""
    opener: Callable[[], IO[bytes]] | None = field(default=None, compare=False, repr=False)
    """Opens a file that is elsewhere; then nothing need be at `path`, whose name says what it is."""

    @property
    def can_reopen(self) -> bool:
        """Whether the source can be read more than once."""
        return self.kind in ("file", "sequence")

    @property
    def is_standard_input(self) -> bool:
        """Whether frames come as y4m from standard input."""
        return self.kind == "pipe" and self.path is None

    @property
    def location(self) -> str | IO[bytes]:
        """What FFmpeg opens. A local name gets a prefix, so that `:` or `%` in it have no meaning."""
        if self.opener is not None:
            return self.opener()
        return self.name if self.path is None else f"file:{self.path}"


def parse_source(text: str | Path | Source) -> Source:
    """Decide what an input means. What exists under exactly this name is always meant first.

    Args:
        text: A path, a numbered pattern such as frame_%04d.png, an address, `camera:0`, or `-` for y4m.

    Raises:
        InputError: There is no such input, or it cannot be read.
    """
    if isinstance(text, Source):
        return text
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
        return Source("sequence", name, files=_needed_files(name))
    raise InputError(f"there is no file {path}: check the path")


def is_live_output(output: object) -> bool:
    """Return whether a name is that of a live output: an address of a server, an HLS playlist, or a virtual camera."""
    return isinstance(output, str) and "\n" not in output and _LIVE.fullmatch(output) is not None


def is_pattern(text: str | Path) -> bool:
    """Return whether a name holds the place of a number, such as frame_%04d.png."""
    return _NUMBER.search(str(text)) is not None


def numbered_name(pattern: str, number: int) -> Path:
    match = _NUMBER.search(pattern)
    assert match is not None
    return Path(pattern[: match.start()] + _digits(match, number) + pattern[match.end() :])


def _existing(name: str, path: Path) -> Source:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): check the path") from None
    if stat.S_ISDIR(mode):
        return folder_sequence(name, path) or Source("folder", name, path)
    if not os.access(path, os.R_OK):
        raise InputError(f"{path} may not be read: change its permissions")
    if not stat.S_ISREG(mode):
        return Source("pipe", name, path)
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty (0 bytes): copy or record it again")
    return Source("file", name, path)


def folder_sequence(name: str, folder: Path) -> Source | None:
    """A folder that holds the frames of one clip and nothing else, as a sequence; None for other folders.

    Raises:
        InputError: A frame is there twice.
    """
    from libranet.sequences import is_clip, is_video_file, list_frames, list_images, running_numbers  # folders alone

    visible = [path for path in folder.iterdir() if not path.name.startswith(".")]
    images = list_images(folder)
    if any(path.is_dir() or is_video_file(path) for path in visible) or not is_clip(images):
        return None
    numbers = running_numbers(list_frames(folder))
    assert numbers is not None  # or it were no clip
    return Source("sequence", name, files=tuple(zip(numbers, images, strict=True)))


def _file_address(name: str) -> Source:
    rest = name.removeprefix("file:")
    rest = rest.removeprefix("//") if rest.startswith("//") else rest
    for candidate in (rest, unquote(rest)):
        if candidate and os.path.lexists(candidate):
            return _existing(name, Path(candidate))
    raise InputError(f"there is no file {unquote(rest)}: check the address {name}")


def numbered_files(pattern: str) -> tuple[tuple[int, Path], ...]:
    """The files that match a pattern such as frame_%04d.png, by number; there may be none."""
    match = _NUMBER.search(pattern)
    assert match is not None
    return tuple(
        sorted((int(digits), path) for digits, path in _hits(pattern) if digits == _digits(match, int(digits)))
    )


def _hits(pattern: str) -> list[tuple[str, Path]]:
    """The files with a number of any length in the pattern's place."""
    match = _NUMBER.search(pattern)
    assert match is not None
    before, after = pattern[: match.start()], pattern[match.end() :]
    number = re.compile(re.escape(before) + r"(\d+)" + re.escape(after) + r"\Z")
    names = glob.glob(glob.escape(before) + "*" + glob.escape(after))
    return [(hit[1], Path(name)) for name in names if (hit := number.match(name))]


def _needed_files(pattern: str) -> tuple[tuple[int, Path], ...]:
    if found := numbered_files(pattern):
        return found
    if hits := _hits(pattern):
        raise InputError(
            f"no file matches {pattern}, but {hits[0][1].name} is there: write the number as %0{len(hits[0][0])}d"
        )
    raise InputError(f"no file matches {pattern}: check the folder and the number of digits")


def _digits(match: re.Match[str], number: int) -> str:
    width = int(match[2] or 0)
    return f"{number:0{width}d}" if match[1] else f"{number:{width}d}"

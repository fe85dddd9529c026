"""Files that appear under their name only when whole."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from libranet.errors import InputError

TEMPORARY_SUFFIX = ".part"
LONGEST_NAME = 255
"""Bytes of a name that file systems take."""


def hidden_name(name: str, ending: str, *, room: int = 0) -> str:
    """Return the name of a hidden file or folder that belongs to another one.

    Args:
        ending: What comes behind it.
        room: Bytes that will be added.
    """
    whole = f".{name}{ending}"
    if len(os.fsencode(whole)) + room <= LONGEST_NAME:
        return whole
    return f".{hashlib.sha256(os.fsencode(name)).hexdigest()[:32]}{ending}"


@dataclass(frozen=True)
class FileMark:
    """What tells whether a file is still the one that it was: another one, a longer one or none gives another mark."""

    identity: tuple[int, ...] | None
    """None where there is no file."""

    @classmethod
    def of(cls, path: Path) -> "FileMark":
        try:
            stat = path.stat()
        except OSError:
            return cls(None)
        return cls((stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns))


class Claim:
    """The name of a file that will be finished later. A file that appears or changes there meanwhile stays."""

    def __init__(self, path: Path) -> None:
        self._path = replaced_file(path)
        self._before = FileMark.of(self._path)

    @property
    def is_free(self) -> bool:
        """Whether nothing appeared there, and nothing that was there changed."""
        return FileMark.of(self._path) == self._before

    def check(self) -> None:
        """See that the name is free, for writers that publish a file themselves."""
        if not self.is_free:
            self._refuse()

    def publish(self, finished: Path) -> None:
        """Give a finished file its name."""
        self.check()
        if self._before.identity is None:
            try:
                os.link(finished, self._path)  # unlike renaming, it never replaces a file that appeared just now
            except FileExistsError:
                self._refuse()
            except OSError:  # a file system without links
                os.replace(finished, self._path)
            else:
                finished.unlink()
        else:
            os.replace(finished, self._path)

    def _refuse(self) -> None:
        what = "appeared" if self._before.identity is None else "was changed"
        raise InputError(
            f"{self._path} {what} while its output was made, and stays as it is: move it away or add --overwrite, "
            "and run the same command again"
        )


def replaced_file(path: Path) -> Path:
    """Return the file that an output takes the place of: what a symbolic link points to, or the path itself."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


@contextmanager
def atomic_file(path: Path, *, suffix: str = "", claim: Claim | None = None) -> Iterator[Path]:
    """Yield a temporary file beside `path` to write to; it takes the name when the block ends without an error.

    A kill or a full disk leaves the old file or none, never a part of one. A symbolic link stays: the file that it
    points to is replaced.

    Args:
        path: The name that the file gets.
        suffix: How the temporary name ends, for writers that go by it.
        claim: Of the name; without it, a file that appears there meanwhile is replaced.
    """
    path = replaced_file(path)
    ending = TEMPORARY_SUFFIX + suffix
    prefix = hidden_name(path.name, ".", room=len(os.fsencode(ending)) + 16)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=ending)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        os.chmod(temporary, 0o644)
        if claim is not None:
            claim.publish(temporary)
        else:
            os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    try:
        with atomic_file(path) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise InputError(f"could not write {path}: {error.strerror or error}") from error


def locked_file(path: Path) -> IO[str] | None:
    """Open a file that nobody else can open so until it is closed, or its process ends; None where another has it."""
    file = path.open("w")
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:  # Windows: nothing keeps two processes apart
        pass
    except OSError:
        file.close()
        return None
    return file

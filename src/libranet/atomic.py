"""Files that appear under their name only when whole."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from libranet.errors import InputError

TEMPORARY_SUFFIX = ".part"


def replaced_file(path: Path) -> Path:
    """Return the file that an output takes the place of: what a symbolic link points to, or the path itself."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


@contextmanager
def atomic_file(path: Path, *, suffix: str = "") -> Iterator[Path]:
    """Yield a temporary file beside `path` to write to; it takes the name when the block ends without an error.

    A kill or a full disk leaves the old file or none, never a part of one. A symbolic link stays: the file that it
    points to is replaced.

    Args:
        path: The name that the file gets.
        suffix: How the temporary name ends, for writers that go by it.
    """
    path = replaced_file(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=TEMPORARY_SUFFIX + suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file whole or not at all.

    Raises:
        InputError: The folder or the disk does not take it.
    """
    try:
        with atomic_file(path) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise InputError(f"could not write {path}: {error.strerror or error}") from error

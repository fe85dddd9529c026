"""Files that appear under their name only when whole."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TEMPORARY_SUFFIX = ".part"


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a temporary file beside `path` to write to; it takes the name when the block ends without an error.

    A kill or a full disk leaves the old file or none, never a part of one.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=TEMPORARY_SUFFIX)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise

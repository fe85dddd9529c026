"""Room on a node's own disk for sources, segments and outputs of object stores, shared by its workers.

A job reserves what it will need before it copies anything. Where the disk has no room, left folders of dead workers go
first; then the job waits. Reservations are files whose lock a process holds, so those of the dead count for nothing.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from libranet.engine.options import OutputError
from libranet.errors import LibraNetError

SPARE = 0.05
"""Share of the disk that stays free: other programs write there, too."""
_LOCK = "reserved"


class CrowdedError(LibraNetError):
    """The disk has no room for a job until others have ended."""


@contextmanager
def scratch_folder(address: str, needed: int = 0) -> Iterator[Path]:
    """A folder of this user for the work on an output: the same whenever it is asked for, so that a job goes on.

    The caller deletes what nobody will ask for again.

    Args:
        needed: Bytes that it may come to hold.

    Raises:
        CrowdedError: There is no room for now.
        OutputError: There never will be, or the folder cannot be made.
    """
    root = scratch_root()
    folder = root / hashlib.sha256(address.encode()).hexdigest()[:16]
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (root / "lock").open("w") as lock:
            _lock(lock)  # one worker of the node after another; closing it lets the next one in
            folder.mkdir(exist_ok=True)
            reservation = (folder / _LOCK).open("a+")
            if not _lock(reservation, wait=False):
                reservation.close()
                raise CrowdedError(f"another process works in {folder}: wait for it")
            try:
                _make_room(root, folder, needed)
            except LibraNetError:
                reservation.close()
                raise
            reservation.truncate(0)
            reservation.write(str(needed))
            reservation.flush()
    except OSError as error:
        raise OutputError(f"cannot create {folder} ({error.strerror}): free some space there") from None
    try:
        yield folder
    finally:
        reservation.close()


def scratch_root() -> Path:
    """The folder of all scratch folders; TMPDIR chooses its disk."""
    user = str(os.getuid()) if hasattr(os, "getuid") else "user"
    return Path(tempfile.gettempdir()) / f"libranet-{user}"


def _make_room(root: Path, folder: Path, needed: int) -> None:
    """Delete folders that nobody works in, the oldest first, until there is room."""
    disk = shutil.disk_usage(root)
    usable = int(disk.total * (1 - SPARE))
    if needed > usable:
        raise OutputError(f"the job needs {_mb(needed)} in {root}, whose disk has {_mb(usable)}: use a larger one")
    others = [path for path in root.iterdir() if path.is_dir() and path != folder]
    promised, left = 0, []
    for path in others:
        held = _promise(path)
        if held is None:
            left.append(path)
        else:
            promised += max(0, held - _size(path))
    room = shutil.disk_usage(root).free - disk.total + usable - promised + _size(folder)
    for path in sorted(left, key=lambda path: path.stat().st_mtime):
        if room >= needed:
            break
        room += _size(path)
        shutil.rmtree(path, ignore_errors=True)
    if room < needed:
        raise CrowdedError(f"{root} has room for {_mb(max(0, room))}, the job needs {_mb(needed)}: it waits for others")


def _promise(folder: Path) -> int | None:
    """Bytes that a folder's worker reserved; None where nobody works in it."""
    try:
        with (folder / _LOCK).open("r+") as file:
            return None if _lock(file, wait=False) else int(file.read() or 0)
    except (OSError, ValueError):
        return None


def _lock(file: IO[str], *, wait: bool = True) -> bool:
    """Lock a file until it is closed. Return False where another process has it."""
    try:
        import fcntl
    except ImportError:  # Windows: one worker at a time
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # somebody may delete it meanwhile
            total += path.stat().st_blocks * 512 if hasattr(os.stat_result, "st_blocks") else path.stat().st_size
    return total


def _mb(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"

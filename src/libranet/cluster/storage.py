"""Files elsewhere: object stores through fsspec. Workers copy a source to their own disk and the result back.

Every request may fail for a moment. botocore repeats single requests; whole transfers are repeated here, with waits
that grow and differ. What will not change, such as a missing file or a missing right, is not repeated.
"""

import errno
import io
import os
import random
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Literal, TypeVar

from libranet.atomic import write_atomically
from libranet.engine.jobs import is_remote, local_name
from libranet.engine.options import OutputError
from libranet.errors import InputError, LibraNetError, MissingDependencyError, install_command

Result = TypeVar("Result")
Kind = Literal["transient", "missing", "refused", "full"]

MOST_TRIES = 5
FIRST_WAIT = 0.5
LONGEST_WAIT = 20.0
"""Seconds. Each wait is about twice the one before it."""
BLOCK_BYTES = 4 * 2**20
"""How much of a file is read ahead where only a range of it is wanted."""

_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs", "abfss": "adlfs"}
_FOR_NOW = {408, 425, 429}
"""HTTP answers below 500 that another try may change."""
_BROKEN_CONNECTIONS = {
    "HTTPClientError",  # botocore: connections and time limits
    "IncompleteRead",
    "IncompleteReadError",
    "ClientPayloadError",  # aiohttp: half an answer
    "ClientConnectionError",
    "ResponseParserError",  # botocore: an answer that is no XML
    "FSTimeoutError",
    "ServiceRequestError",  # Azure
    "TransportError",  # Google
}
_failures: Counter[tuple[str, str]] = Counter()
_counting = threading.Lock()  # fsspec's requests run in a thread of their own


class StoreError(LibraNetError):
    """An object store fails for now: the same request may succeed later."""


class RefusedError(OutputError):
    """An object store does not take a file, from nobody with these rights."""


def list_files(address: str) -> list[str]:
    """List the files below a folder, or those that match a pattern, as addresses in order."""
    store, path, scheme = _open(address)
    pattern = any(sign in path for sign in "*?[")
    found = _retried(lambda: store.glob(path) if pattern else store.find(path), address, "list")
    return [f"{scheme}://{name.lstrip('/') if scheme != 'hdfs' else name}" for name in sorted(found)]


def fingerprint(address: str) -> str | None:
    """Facts that change when a file is replaced; None if there is no file."""
    if not is_remote(address):
        try:
            stat = os.stat(address)
        except OSError:
            return None
        return f"{stat.st_ino} {stat.st_size} {stat.st_mtime_ns}"
    store, path, _ = _open(address)

    def look() -> dict[str, Any] | None:
        store.invalidate_cache(store._parent(path))
        return store.info(path) if store.exists(path) else None

    info = _retried(look, address, "look at")
    if info is None:
        return None
    return f"{info.get('ETag', '')} {info.get('size')} {info.get('LastModified') or info.get('mtime')}"


def size_of(address: str) -> int:
    """Bytes of a file; 0 where they are not known."""
    try:
        if not is_remote(address):
            return Path(address).stat().st_size
        store, path, _ = _open(address)
        return int(_retried(lambda: store.info(path), address, "look at").get("size") or 0)
    except (OSError, LibraNetError):
        return 0


def fetch(address: str, target: Path) -> None:
    """Copy a file from a store. It gets its name when it is whole."""
    store, path, _ = _open(address)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        _retried(lambda: store.get_file(path, str(part)), address, "read")
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def upload(source: Path, address: str) -> None:
    """Copy a file to a store. Object stores show it when it is whole."""
    store, path, _ = _open(address)
    _retried(lambda: store.put_file(str(source), path), address, "write")


def fetch_folder(address: str, folder: Path) -> bool:
    """Copy the files below an address to a folder that is not there yet; return whether there were any.

    It gets its name when it is whole: a manifest must not come without the files that it names.
    """
    if folder.exists() or not (files := list_files(address)):
        return False
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    for name in files:
        target = part / name.removeprefix(address).lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        fetch(name, target)
    os.replace(part, folder)
    return True


def remove_folder(address: str) -> None:
    """Delete the files below an address. Object stores have no folders that would remain."""
    store, _, _ = _open(address)
    for name in list_files(address):
        _retried(lambda name=name: store.rm_file(store._strip_protocol(name)), name, "delete")  # type: ignore[misc]
    store.invalidate_cache()


class RangeFile(io.RawIOBase):
    """A file in a store that is read where somebody looks, and not fetched."""

    def __init__(self, address: str) -> None:
        store, path, _ = _open(address)
        self._address = address
        self._file: IO[bytes] = _retried(
            lambda: store.open(path, "rb", block_size=BLOCK_BYTES, cache_type="readahead"), address, "read"
        )

    def read(self, size: int = -1) -> bytes:
        place = self._file.tell()

        def again() -> bytes:
            self._file.seek(place)
            return self._file.read(size)

        return _retried(again, self._address, "read")

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True


def write_text(address: str, text: str) -> None:
    """Write a small file to a store or to this machine. It gets its name when it is whole."""
    if not is_remote(address):
        try:
            write_atomically(Path(local_name(address)), text.encode())
        except OSError as error:
            raise OutputError(f"cannot write {address} ({error.strerror}): choose another place") from None
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text"
        path.write_text(text)
        upload(path, address)


def take_failures() -> dict[tuple[str, str], int]:
    """Failed requests since the last call, by operation and kind; those that succeeded later are among them."""
    with _counting:
        taken = dict(_failures)
        _failures.clear()
    return taken


def _note(operation: str, kind: str) -> None:
    with _counting:
        _failures[operation, kind] += 1


def _retried(action: Callable[[], Result], address: str, verb: str) -> Result:
    """Do something with a store, and again where it failed for a moment.

    Raises:
        InputError: What is to be read is not there, or may not be read.
        OutputError: The disk is full.
        RefusedError: What is to be written may not be written.
        StoreError: It failed too often.
    """
    for attempt in range(1, MOST_TRIES + 1):
        try:
            return action()
        except LibraNetError:
            raise
        except Exception as error:  # every store has errors of its own
            kind, reason = error_kind(error), _one_line(error)
        _note(verb, kind)
        if kind == "full":
            raise OutputError(f"the disk is full while copying {address}: free some space")
        if kind == "missing" and verb != "write":
            raise InputError(f"there is no file {address}: check the address")
        if kind != "transient":
            refused = RefusedError if verb == "write" else InputError
            raise refused(f"cannot {verb} {address} ({reason}): check the address and your rights")
        if attempt < MOST_TRIES:
            # Workers that failed together must not come back together.
            time.sleep(random.uniform(0.5, 1.0) * min(LONGEST_WAIT, FIRST_WAIT * 2 ** (attempt - 1)))
    raise StoreError(f"cannot {verb} {address} in {MOST_TRIES} tries ({reason}): the store fails, try again later")


def error_kind(error: BaseException) -> Kind:
    """Return whether another try may help, after the error itself, its causes and the answer's HTTP status."""
    for one in _causes(error):
        if isinstance(one, OSError) and one.errno in (errno.ENOSPC, errno.EDQUOT):
            return "full"
        status = _status(one)
        if status is not None:
            if status >= 500 or status in _FOR_NOW:
                return "transient"
            return "missing" if status == 404 else "refused"
        if isinstance(one, FileNotFoundError):
            return "missing"
        if isinstance(one, PermissionError | IsADirectoryError | NotADirectoryError):
            return "refused"
        names = {cls.__name__ for cls in type(one).__mro__}
        if isinstance(one, ConnectionError | TimeoutError) or names & _BROKEN_CONNECTIONS:
            return "transient"
        if isinstance(one, OSError) and one.errno in (errno.EBUSY, errno.EIO, errno.EAGAIN):
            return "transient"
    return "refused"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """What is behind an error first: s3fs raises plain ones in place of botocore's."""
    chain: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in chain:
        chain.append(one)
        one = one.__cause__ or one.__context__
    return reversed(chain)


def _status(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    if isinstance(response, dict):  # botocore
        found = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:  # aiohttp, gcsfs, Azure
        found = next((getattr(error, name, None) for name in ("status", "status_code", "code")), None)
    try:
        return int(found) if found is not None and 100 <= int(found) < 600 else None
    except (TypeError, ValueError):
        return None


def _open(address: str) -> tuple[Any, str, str]:
    """The store, the path in it, and the scheme."""
    scheme = address.partition("://")[0]
    store = _store(scheme)
    return store, store._strip_protocol(address), scheme


@lru_cache(maxsize=8)
def _store(scheme: str) -> Any:
    try:
        import fsspec

        return fsspec.filesystem(scheme, **(_counted_session() if scheme == "s3" else {}))
    except ImportError:
        package = _PACKAGES.get(scheme, "")
        what = f" and {package}" if package not in ("", "s3fs") else ""
        needed = install_command("cluster") + (f" {package}" if what else "")
        raise MissingDependencyError(f"{scheme}:// needs fsspec{what or ' and s3fs'}: {needed}") from None


def _counted_session() -> dict[str, Any]:
    """A session whose failed requests are counted: botocore repeats them, and nobody would see how the store is."""
    from aiobotocore.session import get_session

    def count(response: Any = None, caught_exception: Any = None, operation: Any = None, **_: Any) -> None:
        status = getattr(response[0], "status_code", 200) if response else 200
        if caught_exception is not None or status >= 500 or status in _FOR_NOW:
            _note(getattr(operation, "name", "request"), "transient")

    session = get_session()
    session.register("needs-retry.s3", count)
    return {"session": session}


def _one_line(error: BaseException) -> str:
    return (str(error).split("\n")[0] or type(error).__name__)[:200]

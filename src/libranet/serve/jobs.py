"""The jobs of a server: one row each in SQLite, one folder each on disk. A restart finds both."""

import asyncio
import logging
import re
import secrets
import shutil
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from libranet.serve.media import Media

logger = logging.getLogger(__name__)

ID_PATTERN = r"^[A-Za-z0-9_-]{22}$"
_LONGEST_NAME = 120
_ASIDE = "gone-"


class State(StrEnum):
    """Where a job stands."""

    uploading = "uploading"
    checking = "checking"
    """All bytes are here; another process decodes the first frame."""
    ready = "ready"
    queued = "queued"
    running = "running"
    done = "done"
    failed = "failed"
    cancelled = "cancelled"


UNDER_WAY = (State.queued, State.running)
CAN_START = (State.ready, State.done, State.failed, State.cancelled)


@dataclass(frozen=True)
class Job:
    """One file, from its upload to its result."""

    id: str
    name: str
    """What the visitor calls the file. For display and as the name of the download, never as a path."""
    size: int
    state: State = State.uploading
    created: float = 0.0
    changed: float = 0.0
    queued: float = 0.0
    attempts: int = 0
    """How often a worker has begun it."""
    media: Media | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    """One sentence for the visitor."""
    report: dict[str, Any] = field(default_factory=dict)
    result: str = ""


_JSON = TypeAdapter(Job)


class JobFolder:
    """The files of one job. All names are our own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def upload(self) -> Path:
        """The bytes that have come so far."""
        return self.path / "upload"

    def source(self, media: Media) -> Path:
        """The whole file, with the suffix of its content."""
        return self.path / f"source{media.suffix}"

    def result(self, suffix: str) -> Path:
        return self.path / f"result{suffix}"

    def bytes_used(self) -> int:
        """What the job takes on disk."""
        total = 0
        for file in self.path.rglob("*"):
            try:
                total += file.stat().st_size if file.is_file() else 0
            except OSError:  # it was deleted meanwhile
                continue
        return total

    def set_result_aside(self) -> Path:
        """Move the result and what an unfinished run left out of the way, at once. Returns what is to be deleted."""
        aside = self.path / f"{_ASIDE}{secrets.token_hex(8)}"
        aside.mkdir()
        for file in (*self.path.glob("result*"), *self.path.glob(".result*")):
            file.rename(aside / file.name)
        return aside

    def empty(self) -> None:
        """Delete the files of a refused upload, also those that its inspection may have left."""
        for file in self.path.iterdir():
            file.unlink(missing_ok=True)


class JobStore:
    """All jobs, in memory and in SQLite. It belongs to the server's thread, which never waits for the disk.

    A thread of its own writes the rows, in order. `written` waits until it has caught up.
    """

    def __init__(self, database: Path, folder: Path) -> None:
        """Open the list, or make it. The folder holds one folder per job."""
        self._folder = folder
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="jobs")
        self._db, rows = self._writer.submit(_open, database).result()
        self._jobs = {job.id: job for job in (_JSON.validate_json(text) for (text,) in rows)}

    def close(self) -> None:
        """Write the last changes and close the file."""
        self._writer.submit(self._db.close)
        self._writer.shutdown()

    async def written(self) -> None:
        """Wait until every change is in the file: what a visitor was promised survives a kill of the server."""
        await asyncio.wrap_future(self._writer.submit(lambda: None))

    def add(self, name: str, size: int) -> Job:
        """Begin a job. Its folder is there when this returns."""
        now = time.time()
        job = Job(secrets.token_urlsafe(16), clean_name(name), size, created=now, changed=now)
        self.folder(job).path.mkdir(mode=0o700)
        self.folder(job).upload.touch()
        self._save(job)
        return job

    def get(self, id_: str) -> Job | None:
        return self._jobs.get(id_)

    def all(self) -> list[Job]:
        """Every job, the oldest first."""
        return list(self._jobs.values())

    def update(self, job: Job, **changes: Any) -> Job:
        """Change a job and write it down. Returns it as it is now."""
        job = replace(self._jobs[job.id], **changes, changed=time.time())
        self._save(job)
        return job

    def forget(self, job: Job) -> None:
        """Strike a job from the list. Its files are the caller's."""
        self._jobs.pop(job.id, None)
        self._write("DELETE FROM jobs WHERE id = ?", (job.id,))

    def next_queued(self) -> Job | None:
        waiting = [job for job in self._jobs.values() if job.state == State.queued]
        return min(waiting, key=lambda job: job.queued, default=None)

    def queue_position(self, job: Job) -> int | None:
        """How many jobs are before one that waits."""
        if job.state != State.queued:
            return None
        return sum(
            other.state == State.running or (other.state == State.queued and other.queued < job.queued)
            for other in self._jobs.values()
        )

    def folder(self, job: Job) -> JobFolder:
        return JobFolder(self._folder / job.id)

    def remove_strays(self) -> None:
        """Delete what belongs to no job, as a crash may leave."""
        for path in self._folder.iterdir():
            if path.name not in self._jobs:
                shutil.rmtree(path, ignore_errors=True)
        for path in self._folder.glob(f"*/{_ASIDE}*"):
            shutil.rmtree(path, ignore_errors=True)

    def _save(self, job: Job) -> None:
        self._jobs[job.id] = job
        text = _JSON.dump_json(job).decode()
        self._write("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?)", (job.id, job.created, text))

    def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        def execute() -> None:
            try:
                self._db.execute(statement, values)
            except sqlite3.Error as error:
                logger.error("the list of jobs could not be written: %s", error)

        self._writer.submit(execute)


def _open(database: Path) -> tuple[sqlite3.Connection, list[tuple[str]]]:
    """Open the file on the thread that will write it. Returns every row, the oldest first."""
    db = sqlite3.connect(database, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")  # a killed server loses nothing, and no answer waits for the disk
    db.execute("CREATE TABLE IF NOT EXISTS jobs (id TEXT PRIMARY KEY, created REAL, job TEXT NOT NULL)")
    return db, db.execute("SELECT job FROM jobs ORDER BY created").fetchall()


def clean_name(name: str) -> str:
    """Make a visitor's file name harmless: its last part, without control characters and quotes."""
    last = re.split(r"[/\\]", name)[-1]
    kept = "".join(c for c in last if c.isprintable() and c not in '"<>|:*?;%').strip(" .")
    return kept[-_LONGEST_NAME:] or "unnamed"

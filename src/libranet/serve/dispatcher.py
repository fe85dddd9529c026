"""Who does what: files to the inspectors, jobs to the workers, single frames to the previewer, old files to the bin."""

import asyncio
import logging
import shutil
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from libranet.serve.child import Child, ChildDied
from libranet.serve.confine import resident_bytes
from libranet.serve.inspectors import Inspectors
from libranet.serve.jobs import UNDER_WAY, Job, JobStore, State
from libranet.serve.previews import Previews
from libranet.serve.settings import GIB, ServeSettings

logger = logging.getLogger(__name__)

_MOST_ATTEMPTS = 3
_START_SECONDS = 300.0
_CANCEL_SECONDS = 8.0
_TIDY_SECONDS = 30.0
_FASTEST = 1000.0
"""Frames per second that a file may claim."""
_LIBRARIES = 6 * GIB
"""Memory that a process may have in use for the network and its libraries, beside the media."""
_NICE_PREVIEWS, _NICE_JOBS = 2, 5
"""A visitor waits for a preview: it goes before the jobs and after the server itself."""


@dataclass
class Attempt:
    """A worker's run of one job. The worker may still be starting."""

    number: int
    child: Child | None = None


class Dispatcher:
    """Runs the processes of one server. Nothing here waits for the disk: that is left to threads."""

    def __init__(self, settings: ServeSettings) -> None:
        self.settings, self.limits = settings, settings.limits
        self.store = JobStore(settings.database, settings.jobs_folder, self._notify)
        self.previews = Previews(self._start_previewer, self.limits.preview_seconds)
        self.progress: dict[str, dict[str, Any]] = {}
        """The latest report of each running job."""
        self.devices: dict[str, str] = {}
        """Where each worker computes."""
        self.weights: dict[str, str] = {}
        self._listeners: dict[str, set[asyncio.Event]] = {}
        self._work_waits = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._background: set[asyncio.Task[None]] = set()
        self._attempts: dict[str, Attempt] = {}
        self._numbers = count()
        self._cancelled: set[str] = set()
        self._deleting: set[str] = set()
        self._inspectors = Inspectors(self.limits)
        self._room = asyncio.Lock()

    async def start(self) -> None:
        """Take up what an earlier server left, and begin."""
        self.store.remove_strays()
        for job in self.store.all():
            if job.state == State.running:
                self.store.update(job, state=State.queued)
            elif job.state == State.checking:
                self.check(job)
        self._tasks = [asyncio.create_task(self._work(device)) for device in self.settings.devices]
        begin = (self._tidy(), self.previews.warm_up(), self._inspectors.prepare())
        self._tasks += [asyncio.create_task(work) for work in begin]

    async def stop(self) -> None:
        """End every process. Running jobs go on when the server starts again."""
        for task in [*self._tasks, *self._background]:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._background, return_exceptions=True)
        await self.previews.stop()
        await self._inspectors.stop()
        self.store.close()

    # Files

    async def create(self, name: str, size: int) -> Job | None:
        """Begin a job, or return None where there is no room for its file."""
        async with self._room:
            if await self.bytes_used() + size > self.limits.quota_bytes:
                return None
            return self.store.add(name, size)

    def check(self, job: Job) -> None:
        """Begin to inspect a file whose last byte has come."""
        job = self.store.update(job, state=State.checking)
        self._spawn(self._check(job))

    async def _check(self, job: Job) -> None:
        folder = self.store.folder(job)
        try:
            found = await self._inspectors.inspect(str(folder.upload))
            if self.store.get(job.id) is None:
                return
            if not isinstance(found, str):
                folder.upload.rename(folder.source(found))
                self.store.update(job, state=State.ready, media=found)
                return
        except OSError as error:
            logger.error("an upload could not be inspected: %s", error)
            found = "the server could not look at the file: its log says more"
        if self.store.get(job.id) is not None:
            self.store.update(job, state=State.failed, error=found)
            await asyncio.to_thread(folder.empty)

    async def bytes_used(self) -> int:
        """What all jobs take, unfinished uploads as if they were whole."""
        jobs = self.store.all()
        folders = [self.store.folder(job) for job in jobs if job.state != State.uploading]
        promised = sum(job.size for job in jobs if job.state == State.uploading)
        return promised + await asyncio.to_thread(lambda: sum(folder.bytes_used() for folder in folders))

    # Jobs

    async def submit(self, job: Job, settings: dict[str, Any]) -> Job:
        """Put a job into the queue."""
        aside = self.store.folder(job).set_result_aside()
        job = self.store.update(
            job, state=State.queued, settings=settings, queued=time.time(), attempts=0, error="", report={}, result=""
        )
        self._work_waits.set()
        if aside is not None:
            await asyncio.to_thread(shutil.rmtree, aside, ignore_errors=True)
        return job

    async def cancel(self, job: Job) -> None:
        """Stop a job, and wait until it has stopped."""
        if job.id not in self._attempts:
            if job.state in UNDER_WAY:
                await self._end(job, State.cancelled)
            return
        self._cancelled.add(job.id)
        begin, told = time.monotonic(), None
        while (attempt := self._attempts.get(job.id)) is not None:
            child = attempt.child
            if child is not None and told is not child:
                told = child
                with suppress(ChildDied):
                    await child.send({"op": "cancel", "run": attempt.number})
            elif child is not None and time.monotonic() - begin > _CANCEL_SECONDS:
                await child.kill()
            await asyncio.sleep(0.02)

    async def delete(self, job: Job) -> None:
        """Stop a job and delete it with its files."""
        self._deleting.add(job.id)
        try:
            await self.cancel(job)
        finally:
            self._deleting.discard(job.id)
        self.progress.pop(job.id, None)
        self.store.forget(job)
        await asyncio.to_thread(self.store.folder(job).remove)

    async def _work(self, device: str) -> None:
        """One worker's life: the next job, as long as the server runs."""
        child: Child | None = None
        try:
            while True:
                job = self.store.next_queued()
                if job is None:
                    self._work_waits.clear()
                    await self._work_waits.wait()
                    continue
                attempt = self._attempts[job.id] = Attempt(next(self._numbers))
                try:
                    job = self.store.update(job, state=State.running, attempts=job.attempts + 1)
                    if child is None or not child.alive:
                        child = await self._start_worker(device)
                    attempt.child = child
                    await self._finish(job, await self._follow(job, attempt.number, child))
                except (ChildDied, TimeoutError):
                    if child is not None:
                        await child.kill()
                    await self._finish(job, {"event": "died"})
                except Exception:
                    logger.exception("job %s met an unexpected error", job.id)
                    await self._finish(job, {"event": "failed", "error": "the server made a mistake: see its log"})
                finally:
                    self._attempts.pop(job.id, None)
                    self._cancelled.discard(job.id)
        finally:
            if child is not None:
                await child.stop()

    async def _start_worker(self, device: str) -> Child:
        arguments = (device, self.settings.model or "", str(self.limits.memory_bytes))
        child = await Child.start("libranet.serve.worker", *arguments, nice=_NICE_JOBS)
        await self._greet(child, device)
        return child

    async def _start_previewer(self) -> Child:
        limits, device = self.limits, self.settings.devices[0]
        arguments = (device, self.settings.model or "", str(limits.memory_bytes), str(limits.cameras))
        child = await Child.start("libranet.serve.previewer", *arguments, nice=_NICE_PREVIEWS)
        await self._greet(child, device)
        return child

    async def _greet(self, child: Child, device: str) -> None:
        try:
            hello = await asyncio.wait_for(child.receive(), _START_SECONDS)
        except (TimeoutError, asyncio.CancelledError):
            await child.kill()
            raise
        self.devices[device] = hello["device"]
        self.weights = {key: hello[key] for key in ("weights_name", "weights_version")}

    async def _follow(self, job: Job, run: int, child: Child) -> dict[str, Any]:
        """Give a job to a worker and return how it ended."""
        assert job.media is not None
        if job.id in self._cancelled:
            return {"event": "cancelled"}
        folder, media = self.store.folder(job), job.media
        suffix = result_suffix(job)
        rate = min(media.rate or 60.0, _FASTEST)
        await child.send(
            {
                "op": "run",
                "run": run,
                "name": job.name,
                "kind": media.kind,
                "source": str(folder.source(media)),
                "result": str(folder.result(suffix)),
                "settings": job.settings,
                "interlaced": media.interlaced,
                "most_frames": int(self.limits.seconds * max(rate, 1.0)) + 1,
            }
        )
        heard = checked = time.monotonic()
        receive = asyncio.ensure_future(child.receive())
        try:
            while True:
                done, _ = await asyncio.wait({receive}, timeout=1.0)
                now = time.monotonic()
                if now - checked >= 1.0:
                    checked = now
                    if problem := await self._problem(child, now - heard):
                        await child.kill()
                        return {"event": "failed", "error": problem}
                if not done:
                    continue
                message, heard = receive.result(), now
                if message["event"] in ("done", "failed", "cancelled"):
                    return message
                if message["event"] == "progress":
                    self.progress[job.id] = message
                    self._notify(job)
                receive = asyncio.ensure_future(child.receive())
        finally:
            receive.cancel()

    async def _problem(self, child: Child, silent: float) -> str:
        """Why a running job must end, or nothing."""
        if silent > self.limits.stall_seconds:
            return f"a frame took longer than {self.limits.stall_seconds:.0f} s"
        if (resident_bytes(child.pid) or 0) > self.limits.memory_bytes + _LIBRARIES:
            return "it takes more memory than the server gives to one file"
        if await self.bytes_used() > self.limits.quota_bytes:
            return "the result does not fit into the server's space: delete other jobs first"
        return ""

    async def _finish(self, job: Job, outcome: dict[str, Any]) -> None:
        self.progress.pop(job.id, None)
        if self.store.get(job.id) is None:
            await asyncio.to_thread(self.store.folder(job).remove)
        elif job.id in self._cancelled or outcome["event"] == "cancelled":
            await self._end(job, State.cancelled)
        elif outcome["event"] == "done":
            name = self.store.folder(job).result(result_suffix(job)).name
            self.store.update(job, state=State.done, report=outcome["report"], result=name)
        elif outcome["event"] == "died" and job.attempts < _MOST_ATTEMPTS:
            logger.warning("a worker died during job %s, which goes on where it was", job.id)
            self.store.update(job, state=State.queued)
        else:
            died = f"the process that dehazed it ended {_MOST_ATTEMPTS} times: the file may be damaged"
            await self._end(job, State.failed, error=outcome.get("error", died))

    async def _end(self, job: Job, state: State, *, error: str = "") -> None:
        """End a job without a result."""
        if job.id in self._deleting:  # visitors hear of the deletion, not of a cancellation before it
            return
        aside = self.store.folder(job).set_result_aside()
        self.store.update(job, state=state, error=error)
        if aside is not None:
            await asyncio.to_thread(shutil.rmtree, aside, ignore_errors=True)

    # News and order

    async def follow(self, id_: str, *, heartbeat: float = 15.0) -> AsyncIterator[Job | None]:
        """Yield a job whenever it changes, and None from time to time. Ends when the job is deleted."""
        event = asyncio.Event()
        self._listeners.setdefault(id_, set()).add(event)
        try:
            while (job := self.store.get(id_)) is not None:
                event.clear()  # before the visitor is told: what changes meanwhile is news
                yield job
                while True:
                    try:
                        await asyncio.wait_for(event.wait(), heartbeat)
                        break
                    except TimeoutError:
                        yield None
        finally:
            listeners = self._listeners.get(id_, set())
            listeners.discard(event)
            if not listeners:
                self._listeners.pop(id_, None)

    def _notify(self, job: Job) -> None:
        for event in self._listeners.get(job.id, ()):
            event.set()

    async def _tidy(self) -> None:
        """Delete what nobody has touched for long, and uploads that do not go on."""
        limits = self.limits
        while True:
            for job in self.store.all():
                age = time.time() - job.changed
                abandoned = job.state == State.uploading and age > limits.abandoned_seconds
                if abandoned or (job.state not in UNDER_WAY and age > limits.keep_seconds):
                    await self.delete(job)
            await asyncio.sleep(min(_TIDY_SECONDS, limits.keep_seconds, limits.abandoned_seconds))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def result_suffix(job: Job) -> str:
    """How the result's name ends."""
    assert job.media is not None
    chosen = job.settings.get("container", "same")
    return job.media.result_suffix if chosen == "same" or job.media.kind == "image" else f".{chosen}"

"""Who does what: files to the inspector, jobs to the workers, single frames to the previewer, old files to the bin."""

import asyncio
import json
import logging
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from libranet.serve.child import Child, ChildDied
from libranet.serve.confine import resident_bytes
from libranet.serve.jobs import UNDER_WAY, Job, JobStore, State
from libranet.serve.media import Media
from libranet.serve.settings import GIB, ServeSettings

logger = logging.getLogger(__name__)

_MOST_ATTEMPTS = 3
_START_SECONDS = 300.0
_CANCEL_SECONDS = 8.0
_TIDY_SECONDS = 30.0
_INSPECTORS = 2
_MOST_WAITING = 64
_LIBRARIES = 6 * GIB
"""Memory that a process may have in use for the network and its libraries, beside the media."""


class Busy(Exception):  # noqa: N818
    """Too many wait already."""


class Dispatcher:
    """Runs the processes of one server."""

    def __init__(self, settings: ServeSettings) -> None:
        self.settings, self.limits = settings, settings.limits
        self.store = JobStore(settings.database, settings.jobs_folder, self._notify)
        self.progress: dict[str, dict[str, Any]] = {}
        """The latest report of each running job."""
        self.devices: dict[str, str] = {}
        """Where each worker computes."""
        self.weights: dict[str, str] = {}
        self._listeners: dict[str, set[asyncio.Event]] = {}
        self._work_waits = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._background: set[asyncio.Task[None]] = set()
        self._running: dict[str, Child] = {}
        self._cancelled: set[str] = set()
        self._inspectors = asyncio.Semaphore(_INSPECTORS)
        self._previewer: Child | None = None
        self._preview_turn = asyncio.Lock()
        self._previews_waiting = 0

    async def start(self) -> None:
        """Take up what an earlier server left, and begin."""
        self.store.remove_strays()
        for job in self.store.all():
            if job.state == State.running:
                self.store.update(job, state=State.queued)
            elif job.state == State.checking:
                self.check(job)
        self._tasks = [asyncio.create_task(self._work(device)) for device in self.settings.devices]
        self._tasks += [asyncio.create_task(self._tidy()), asyncio.create_task(self._warm_up())]

    async def stop(self) -> None:
        """End every process. Running jobs go on when the server starts again."""
        for task in [*self._tasks, *self._background]:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._background, return_exceptions=True)
        if self._previewer is not None:
            await self._previewer.stop()
        self.store.close()

    # Files

    def check(self, job: Job) -> None:
        """Begin to inspect a file whose last byte has come."""
        job = self.store.update(job, state=State.checking)
        self._spawn(self._check(job))

    async def _check(self, job: Job) -> None:
        folder = self.store.folder(job)
        async with self._inspectors:
            found = await self._inspect(str(folder.upload))
        if self.store.get(job.id) is None:
            return
        if isinstance(found, str):
            folder.upload.unlink(missing_ok=True)
            self.store.update(job, state=State.failed, error=found)
            return
        folder.upload.rename(folder.source(found))
        self.store.update(job, state=State.ready, media=found)

    async def _inspect(self, path: str) -> Media | str:
        """The facts of a file, or why it is refused."""
        limits, seconds = self.limits, self.limits.inspect_seconds
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "libranet.serve.media", path, str(limits.pixels), str(limits.seconds), str(seconds)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            # Twice the processor time: the process has the lowest priority.
            output, _ = await asyncio.wait_for(process.communicate(), 2 * seconds)
            answer = json.loads(output)
        except (TimeoutError, ValueError):
            return "the file takes too much time or memory to decode, or makes the decoder fail"
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        return str(answer["refused"]) if "refused" in answer else Media(**answer)

    def bytes_used(self) -> int:
        """What all jobs take, unfinished uploads as if they were whole."""
        jobs = self.store.all()
        return sum(j.size if j.state == State.uploading else self.store.folder(j).bytes_used() for j in jobs)

    # Jobs

    def submit(self, job: Job, settings: dict[str, Any]) -> Job:
        """Put a job into the queue."""
        self.store.folder(job).remove_result()
        job = self.store.update(
            job, state=State.queued, settings=settings, queued=time.time(), attempts=0, error="", report={}, result=""
        )
        self._work_waits.set()
        return job

    async def cancel(self, job: Job) -> None:
        """Stop a job, and wait until it has stopped."""
        child = self._running.get(job.id)
        if child is None:
            if job.state in UNDER_WAY:
                self.store.folder(job).remove_result()
                self.store.update(job, state=State.cancelled)
            return
        self._cancelled.add(job.id)
        with suppress(ChildDied):
            await child.send({"op": "cancel", "id": job.id})
        begin = time.monotonic()
        while self._running.get(job.id) is child:
            if time.monotonic() - begin > _CANCEL_SECONDS:
                await child.kill()
            await asyncio.sleep(0.05)

    async def delete(self, job: Job) -> None:
        """Stop a job and delete it with its files."""
        await self.cancel(job)
        self.progress.pop(job.id, None)
        self.store.remove(job)

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
                job = self.store.update(job, state=State.running, attempts=job.attempts + 1)
                try:
                    if child is None or not child.alive:
                        child = await self._start_worker(device)
                    self._running[job.id] = child
                    outcome = await self._follow(job, child)
                except ChildDied:
                    outcome = {"event": "died"}
                    if child is not None:
                        await child.kill()
                        child = None
                finally:
                    self._running.pop(job.id, None)
                self._finish(job, outcome)
        finally:
            if child is not None:
                await child.stop()

    async def _start_worker(self, device: str) -> Child:
        child = await Child.start(
            "libranet.serve.worker", device, self.settings.model or "", str(self.limits.memory_bytes)
        )
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

    async def _follow(self, job: Job, child: Child) -> dict[str, Any]:
        """Give a job to a worker and return how it ended."""
        assert job.media is not None
        folder, media = self.store.folder(job), job.media
        suffix = result_suffix(job)
        rate = media.rate or 60.0
        await child.send(
            {
                "op": "run",
                "id": job.id,
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
                    if problem := self._problem(job, child, now - heard):
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

    def _problem(self, job: Job, child: Child, silent: float) -> str:
        """Why a running job must end, or nothing."""
        if silent > self.limits.stall_seconds:
            return f"a frame took longer than {self.limits.stall_seconds:.0f} s"
        if (resident_bytes(child.pid) or 0) > self.limits.memory_bytes + _LIBRARIES:
            return "it takes more memory than the server gives to one file"
        if self.bytes_used() > self.limits.quota_bytes:
            return "the result does not fit into the server's space: delete other jobs first"
        return ""

    def _finish(self, job: Job, outcome: dict[str, Any]) -> None:
        self.progress.pop(job.id, None)
        folder = self.store.folder(job)
        wanted = job.id not in self._cancelled
        self._cancelled.discard(job.id)
        if self.store.get(job.id) is None:
            folder.remove()
            return
        if not wanted or outcome["event"] == "cancelled":
            folder.remove_result()
            self.store.update(job, state=State.cancelled)
        elif outcome["event"] == "done":
            name = folder.result(result_suffix(job)).name
            self.store.update(job, state=State.done, report=outcome["report"], result=name)
        elif outcome["event"] == "died" and job.attempts < _MOST_ATTEMPTS:
            logger.warning("a worker died during job %s, which goes on where it was", job.id)
            self.store.update(job, state=State.queued)
        else:
            folder.remove_result()
            died = f"the process that dehazed it ended {_MOST_ATTEMPTS} times: the file may be damaged"
            self.store.update(job, state=State.failed, error=outcome.get("error", died))

    # Single frames

    async def ask_previewer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Have one frame decoded or restored.

        Raises:
            Busy: Too many wait already.
            TimeoutError: It takes too long.
            ChildDied: The decoder failed.
        """
        if self._previews_waiting >= _MOST_WAITING:
            raise Busy
        self._previews_waiting += 1
        try:
            async with self._preview_turn:
                child = await self._ready_previewer()
                try:
                    await child.send(request)
                    return await asyncio.wait_for(child.receive(), self.limits.preview_seconds)
                except BaseException:  # the answer that is still to come must not be taken for the next one's
                    await child.kill()
                    raise
        finally:
            self._previews_waiting -= 1

    async def _ready_previewer(self) -> Child:
        if self._previewer is None or not self._previewer.alive:
            limits, device = self.limits, self.settings.devices[0]
            self._previewer = await Child.start(
                "libranet.serve.previewer",
                *(device, self.settings.model or "", str(limits.memory_bytes), str(limits.cameras)),
            )
            await self._greet(self._previewer, device)
        return self._previewer

    async def _warm_up(self) -> None:
        with suppress(ChildDied, TimeoutError):
            async with self._preview_turn:
                await self._ready_previewer()

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
        """Delete what nobody has touched for long."""
        while True:
            for job in self.store.all():
                if job.state not in UNDER_WAY and time.time() - job.changed > self.limits.keep_seconds:
                    await self.delete(job)
            await asyncio.sleep(min(_TIDY_SECONDS, self.limits.keep_seconds))

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def result_suffix(job: Job) -> str:
    """How the result's name ends."""
    assert job.media is not None
    chosen = job.settings.get("container", "same")
    return job.media.result_suffix if chosen == "same" or job.media.kind == "image" else f".{chosen}"

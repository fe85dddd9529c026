"""Who does what: files to the inspectors, jobs to the workers, single frames to the previewer, old files to the bin."""

import asyncio
import logging
import shutil
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from fastapi import HTTPException

from libranet.serve.child import Child, ChildDied, Message, Pool
from libranet.serve.confine import resident_bytes
from libranet.serve.jobs import UNDER_WAY, Job, JobStore, State
from libranet.serve.media import REFUSED, Media
from libranet.serve.settings import GIB, ServeSettings

logger = logging.getLogger(__name__)

_MOST_ATTEMPTS = 3
_TIDY_SECONDS = 30.0
_FASTEST = 1000.0
"""Frames per second that a file may claim."""
_LIBRARIES = 6 * GIB
"""Memory that a process may have in use for the network and its libraries, beside the media."""
_INSPECTIONS = 2
"""Files that are inspected at once."""
_NICE_VISITS, _NICE_JOBS = 2, 5
"""Visitors wait for previews and inspections: they go before the jobs and after the server itself."""


class Dispatcher:
    """Runs the processes of one server. Nothing here waits for the disk: that is left to threads."""

    def __init__(self, settings: ServeSettings) -> None:
        self.settings, self.limits = settings, settings.limits
        self.store = JobStore(settings.database, settings.jobs_folder)
        self.progress: dict[str, Message] = {}
        """The latest report of each running job."""
        self._previewer = self._child("previewer", settings.devices[0], _NICE_VISITS)
        self._workers = [self._child("worker", device, _NICE_JOBS) for device in settings.devices]
        limits = (self.limits.pixels, self.limits.seconds, self.limits.inspect_seconds)
        self._inspectors = [Child("libranet.serve.media", *limits, nice=_NICE_VISITS) for _ in range(_INSPECTIONS)]
        self.previews, self._inspections = Pool(self._previewer), Pool(*self._inspectors)
        self._tasks: set[asyncio.Task[None]] = set()
        self._runs: dict[str, asyncio.Task[None]] = {}
        """The jobs that workers have, by their ids."""
        self._work_waits = asyncio.Event()
        self._room = asyncio.Lock()
        self._announced: dict[str, str] = {}
        """The address that an unfinished upload comes from, by its job."""

    def _child(self, module: str, device: str, nice: int) -> Child:
        models = (self.settings.model or "", self.settings.fast_model or "")
        arguments = (device, *models, self.limits.memory_bytes)
        return Child(f"libranet.serve.{module}", *arguments, nice=nice)

    @property
    def hellos(self) -> list[Message]:
        """What the processes with a network say about it, as far as they have been started."""
        return [child.hello for child in (self._previewer, *self._workers) if child.hello]

    async def start(self) -> None:
        """Take up what an earlier server left, and begin."""
        self.store.remove_strays()
        for job in self.store.all():
            if job.state == State.running:
                self.store.update(job, state=State.queued)
            elif job.state == State.checking:
                self.check(job)
        warm_up = (self.previews.warm_up(), self._inspections.warm_up())
        for work in (self._tidy(), *warm_up, *map(self._work, self._workers)):
            self._spawn(work)

    async def stop(self) -> None:
        """End every process. Running jobs go on when the server starts again."""
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(child.kill() for child in (self._previewer, *self._workers, *self._inspectors)))
        self.store.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Files

    async def create(self, name: str, size: int, *, address: str = "") -> Job:
        """Begin a job for a visitor at an address."""
        if size > (most := self.limits.upload_bytes):
            raise HTTPException(413, f"the file has {size} bytes, at most {most} are accepted")
        async with self._room:
            if await self._no_room(size, address) is not None:
                await self._delete_silent_uploads()
            if (refusal := await self._no_room(size, address)) is not None:
                raise refusal
            job = self.store.add(name, size)
            self._announced[job.id] = address
        await self.store.written()
        return job

    async def _no_room(self, size: int, address: str) -> HTTPException | None:
        """Why a file of this size is refused, or None. An upload that never comes must not keep others out."""
        limits, jobs = self.limits, self.store.all()
        uploads = {job.id: job for job in jobs if job.state == State.uploading}
        self._announced = {id_: place for id_, place in self._announced.items() if id_ in uploads}
        own = [uploads[id_].size for id_, place in self._announced.items() if place == address]
        if len(jobs) >= limits.jobs:
            return HTTPException(429, f"there are {limits.jobs} jobs already: delete some first")
        if await self.bytes_used() + size > limits.quota_bytes:
            return HTTPException(507, "the server has no room for this file: delete other jobs first")
        if len(own) >= limits.uploads_per_address or (own and sum(own) + size > limits.quota_bytes / 2):
            return HTTPException(429, "other uploads from your address are unfinished: finish or delete them first")
        return None

    async def _delete_silent_uploads(self) -> None:
        for job in self.store.all():
            if job.state == State.uploading:
                with suppress(FileNotFoundError):  # a piece is written in parts, and the job changes after the last
                    last = max(job.changed, self.store.folder(job).upload.stat().st_mtime)
                    if time.time() - last > self.limits.silent_seconds:
                        await self.delete(job)

    def check(self, job: Job) -> None:
        """Begin to inspect a file whose last byte has come."""
        self._spawn(self._check(self.store.update(job, state=State.checking)))

    async def _check(self, job: Job) -> None:
        folder = self.store.folder(job)
        try:
            found = await self._inspect(str(folder.upload))
            if self.store.get(job.id) is None:
                return
            if isinstance(found, Media):
                folder.upload.rename(folder.source(found))
                self.store.update(job, state=State.ready, media=found)
                return
        except OSError as error:
            logger.error("an upload could not be inspected: %s", error)
            found = "the server could not look at the file: its log says more"
        if self.store.get(job.id) is not None:
            self.store.update(job, state=State.failed, error=found)
            await asyncio.to_thread(folder.empty)

    async def _inspect(self, path: str) -> Media | str:
        """Return the facts of a file, or why it is refused."""
        async with self._inspections.take() as child:
            for _ in range(2):  # a file harms a copy of the process alone: where that itself died, another may answer
                try:
                    # The copy ends by itself after twice its processor time; this is for the process itself.
                    answer = await child.ask({"path": path}, 3 * self.limits.inspect_seconds + 10)
                    return str(answer["error"]) if "error" in answer else Media(**answer)
                except ChildDied:
                    continue
                except TimeoutError:
                    break
            return REFUSED

    async def bytes_used(self) -> int:
        """What all jobs take, unfinished uploads as if they were whole."""
        jobs = self.store.all()
        folders = [self.store.folder(job) for job in jobs if job.state != State.uploading]
        promised = sum(job.size for job in jobs if job.state == State.uploading)
        return promised + await asyncio.to_thread(lambda: sum(folder.bytes_used() for folder in folders))

    # Jobs

    async def submit(self, job: Job, settings: dict[str, Any]) -> None:
        begun = {"state": State.queued, "settings": settings, "queued": time.time(), "attempts": 0}
        await self._change(job, **begun, error="", report={}, result="")

    async def cancel(self, job: Job) -> None:
        """Stop a job, and wait until nothing writes its result any more."""
        await self._stop(job)
        current = self.store.get(job.id)
        if current is not None and current.state in UNDER_WAY:
            await self._change(job, state=State.cancelled)

    async def delete(self, job: Job) -> None:
        """Stop a job and delete it with its files."""
        await self._stop(job)
        self.store.forget(job)
        await asyncio.to_thread(shutil.rmtree, self.store.folder(job).path, ignore_errors=True)

    async def _stop(self, job: Job) -> None:
        """Take a job from its worker. That process ends, and the next job starts another."""
        while (run := self._runs.get(job.id)) is not None:
            run.cancel()
            await asyncio.wait({run})

    async def _change(self, job: Job, **changes: Any) -> None:
        """Change a job that is to have no result from now on."""
        aside = self.store.folder(job).set_result_aside()
        self.store.update(job, **changes)
        self._work_waits.set()
        await asyncio.to_thread(shutil.rmtree, aside, ignore_errors=True)

    async def _work(self, worker: Child) -> None:
        """One worker's life: the next job, as long as the server runs."""
        while True:
            job = self.store.next_queued()
            if job is None:
                self._work_waits.clear()
                await self._work_waits.wait()
                continue
            job = self.store.update(job, state=State.running, attempts=job.attempts + 1)
            self._runs[job.id] = run = self._spawn(self._run(job, worker))
            try:
                await asyncio.wait({run})
            finally:
                del self._runs[job.id]
            if worker.hello and worker.pid is None:  # whoever cancels soon starts again: it loads meanwhile
                with suppress(ChildDied, TimeoutError):
                    await worker.start()

    async def _run(self, job: Job, worker: Child) -> None:
        """Have a worker run a job, and write down how it ended."""
        try:
            await worker.start()
            outcome = await self._follow(job, worker)
        except (ChildDied, TimeoutError):
            if job.attempts < _MOST_ATTEMPTS:
                logger.warning("a worker died during job %s, which goes on where it was", job.id)
                self.store.update(job, state=State.queued)
                return
            outcome = {"error": f"the process that dehazed it ended {_MOST_ATTEMPTS} times: the file may be damaged"}
        except Exception:
            logger.exception("job %s met an unexpected error", job.id)
            outcome = {"error": "the server made a mistake: see its log"}
        if "error" in outcome:
            await self._change(job, state=State.failed, error=outcome["error"])
        else:
            name = self.store.folder(job).result(result_suffix(job)).name
            self.store.update(job, state=State.done, report=outcome["report"], result=name)

    async def _follow(self, job: Job, worker: Child) -> Message:
        """Give a job to a worker and return its answer, or why it had to end."""
        stall = self.limits.stall_seconds
        rate = min((job.media and job.media.rate) or 60.0, _FASTEST)
        request = {
            **self.about(job),
            "result": str(self.store.folder(job).result(result_suffix(job))),
            "settings": job.settings,
            "most_frames": int(self.limits.seconds * max(rate, 1.0)) + 1,
        }

        def show(progress: Message) -> None:
            self.progress[job.id] = progress

        answer = asyncio.create_task(worker.ask(request, stall, show))
        try:
            while not (await asyncio.wait({answer}, timeout=1.0))[0]:
                if problem := await self._problem(worker):
                    return {"error": problem}
            return answer.result()
        except TimeoutError:
            return {"error": f"a frame took longer than {stall:.0f} s"}
        finally:
            self.progress.pop(job.id, None)
            answer.cancel()  # where it has not come, this ends the process
            await asyncio.wait({answer})

    async def _problem(self, worker: Child) -> str:
        """Why a running job must end, or nothing."""
        if worker.pid is not None and (resident_bytes(worker.pid) or 0) > self.limits.memory_bytes + _LIBRARIES:
            return "it takes more memory than the server gives to one file"
        if await self.bytes_used() > self.limits.quota_bytes:
            return "the result does not fit into the server's space: delete other jobs first"
        return ""

    def about(self, job: Job) -> Message:
        """What processes are told of a file."""
        assert job.media is not None
        source = str(self.store.folder(job).source(job.media))
        return {"name": job.name, "kind": job.media.kind, "source": source, "interlaced": job.media.interlaced}

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


def result_suffix(job: Job) -> str:
    assert job.media is not None
    chosen = job.settings.get("container", "same")
    return job.media.suffix if chosen == "same" or job.media.kind == "image" else f".{chosen}"

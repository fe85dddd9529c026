"""The server's housekeeping, without its processes: room, age, order, cancellations and workers that do not start."""

import asyncio
import os
import sqlite3
import time

import httpx
import pytest
from fastapi import HTTPException

from libranet.serve.app import make_app
from libranet.serve.child import Child, Pool
from libranet.serve.dispatcher import Dispatcher
from libranet.serve.jobs import State
from libranet.serve.media import Media
from libranet.serve.routes import ask
from libranet.serve.settings import Limits, ServeSettings, make_folders

VIDEO = Media("video", ".mp4", 64, 48, "h264", 10, 25.0, 0.4)


def make_dispatcher(tmp_path, **limits) -> Dispatcher:
    settings = ServeSettings(folder=tmp_path, devices=("cpu",), limits=Limits(**limits))
    make_folders(settings)
    return Dispatcher(settings)


def statuses(tmp_path, requests, **limits) -> list[int]:
    """What an application without processes answers."""

    async def ask() -> list[int]:
        guard = make_app(ServeSettings(folder=tmp_path, limits=Limits(**limits)))
        known = guard._app.state.dispatcher = make_dispatcher(tmp_path, **limits)
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=guard), base_url="http://127.0.0.1:8000"
        ) as client:
            found = [await client.request(method, path, json=body) for method, path, body in requests]
        known.store.close()
        return [answer.status_code for answer in found]

    return asyncio.run(ask())


def test_there_is_no_room_beyond_the_quota(tmp_path):
    new = ("POST", "/api/jobs", {"name": "x", "size": 600})
    assert statuses(tmp_path, [new, new], quota_bytes=1000) == [201, 507]


def test_there_are_no_more_jobs_than_allowed(tmp_path):
    new = ("POST", "/api/jobs", {"name": "x", "size": 1})
    assert statuses(tmp_path, [new, new, new], jobs=2) == [201, 201, 429]


def test_a_result_that_outgrows_the_quota_ends_its_job(tmp_path):
    known = make_dispatcher(tmp_path, quota_bytes=1000)

    async def check() -> list[str]:
        job = known.store.update(known.store.add("a.mp4", 10), state=State.running)
        before = await known._problem(FakeWorker())
        known.store.folder(job).result(".mp4").write_bytes(b"0" * 2000)
        return [before, await known._problem(FakeWorker())]

    fine, full = asyncio.run(check())
    assert (fine, "space" in full) == ("", True)


def test_old_files_and_abandoned_uploads_are_deleted(tmp_path):
    known = make_dispatcher(tmp_path, keep_seconds=0.3, abandoned_seconds=0.1)
    store = known.store

    async def wait() -> list[list[str]]:
        _, ready, queued = (store.add(name, 10) for name in ("upload", "ready", "queued"))
        store.update(ready, state=State.ready, media=VIDEO)
        store.update(queued, state=State.queued)
        tidy = asyncio.create_task(known._tidy())
        seen = []
        for _ in range(2):
            await asyncio.sleep(0.22)
            seen.append([job.name for job in store.all()])
        tidy.cancel()
        return seen

    assert asyncio.run(wait()) == [["ready", "queued"], ["queued"]]
    assert len(list((tmp_path / "jobs").iterdir())) == 1


def test_promises_are_in_the_file_before_they_are_given(tmp_path):
    known = make_dispatcher(tmp_path)

    async def add() -> list[str]:
        jobs = [known.store.add(str(number), 10) for number in range(20)]
        known.store.forget(jobs[3])
        await known.store.written()
        with sqlite3.connect(tmp_path / "jobs.sqlite") as other:
            return [id_ for (id_,) in other.execute("SELECT id FROM jobs")]

    assert len(asyncio.run(add())) == 19
    known.store.close()
    assert len(make_dispatcher(tmp_path).store.all()) == 19


def test_positions_in_the_queue(tmp_path):
    store = make_dispatcher(tmp_path).store
    first, second, third, ready = (store.add(name, 10) for name in "abcd")
    third = store.update(third, state=State.queued, queued=3.0)
    first = store.update(first, state=State.running, queued=1.0)
    second = store.update(second, state=State.queued, queued=2.0)
    assert [store.queue_position(job) for job in (first, second, third, ready)] == [None, 1, 2, None]
    assert store.next_queued().id == second.id
    assert ready.state == State.uploading


class FakeWorker(Child):
    """A worker that starts and answers as its functions do."""

    pid = os.getpid()

    def __init__(self, start=None, answer=None) -> None:
        super().__init__("no module", nice=0)
        self._start, self._answer, self.asked = start, answer, []

    async def start(self):
        if self._start is not None:
            await self._start()

    async def ask(self, request, seconds, on_progress=None):
        self.asked.append(request)
        return {"report": {}} if self._answer is None else await self._answer()

    async def kill(self):
        pass


def with_worker(known, worker, visit):
    """Let one worker work while a visitor does something. Returns what the visitor saw."""

    async def both():
        work = known._spawn(known._work(worker))
        try:
            return await asyncio.wait_for(visit(), 10)
        finally:
            work.cancel()
            await asyncio.gather(*known._tasks, return_exceptions=True)

    return asyncio.run(both())


async def wait_for(known, job, *states):
    while (now := known.store.get(job.id)).state not in states:
        await asyncio.sleep(0.01)
    return now


@pytest.mark.parametrize("when", ["start", "answer"])
def test_a_cancellation_ends_its_run_alone(tmp_path, when):
    """Also while the worker starts; and a job that is started again is not cancelled by what came before."""
    known = make_dispatcher(tmp_path)
    calls = []

    async def endless_at_first():
        calls.append(when)
        await asyncio.sleep(100 if len(calls) == 1 else 0)
        return {"report": {}}

    worker = FakeWorker(**{when: endless_at_first})

    async def visit():
        first, second = (known.store.update(known.store.add("x", 1), media=VIDEO) for _ in range(2))
        await known.submit(first, {})
        await wait_for(known, first, State.running)
        begin = time.monotonic()
        await known.cancel(known.store.get(first.id))
        taken, at_once = time.monotonic() - begin, known.store.get(first.id).state
        await known.submit(second, {})
        await wait_for(known, second, State.done)
        still = known.store.get(first.id).state
        await known.submit(known.store.get(first.id), {})
        return taken, at_once, still, (await wait_for(known, first, State.done, State.cancelled)).state

    taken, *states = with_worker(known, worker, visit)
    assert taken < 2
    assert states == [State.cancelled, State.cancelled, State.done]
    assert len(worker.asked) == (2 if when == "start" else 3)


@pytest.mark.parametrize("error", [TimeoutError, ValueError])
def test_a_worker_that_does_not_start_fails_its_job_and_not_the_queue(tmp_path, error):
    known = make_dispatcher(tmp_path)

    async def start():
        raise error

    async def visit():
        jobs = [known.store.update(known.store.add("x", 1), media=VIDEO) for _ in range(2)]
        for job in jobs:
            await known.submit(job, {})
        return [await wait_for(known, job, State.failed) for job in jobs]

    ended = with_worker(known, FakeWorker(start=start), visit)
    assert all(job.error for job in ended)


def test_a_frame_that_takes_too_long_ends_its_job(tmp_path):
    known = make_dispatcher(tmp_path)

    async def answer():
        raise TimeoutError

    async def visit():
        job = known.store.update(known.store.add("x", 1), media=VIDEO)
        await known.submit(job, {})
        return await wait_for(known, job, State.failed)

    assert "longer than 300 s" in with_worker(known, FakeWorker(answer=answer), visit).error


def test_a_preview_that_nobody_waits_for_is_not_computed(tmp_path):
    class Gone:
        async def body(self):
            return b""

        async def is_disconnected(self):
            return True

    worker = FakeWorker()
    known = make_dispatcher(tmp_path)
    known.previews = Pool(worker)
    with pytest.raises(HTTPException, match="nobody waits"):
        asyncio.run(ask(known, {"op": "frame"}, Gone()))
    assert worker.asked == []

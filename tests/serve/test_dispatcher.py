"""The server's housekeeping, without its processes: room, age, order, cancellations and workers that do not start."""

import asyncio
import os
import sqlite3
import time

import httpx
import pytest

from libranet.serve.app import make_app
from libranet.serve.dispatcher import Dispatcher
from libranet.serve.jobs import State
from libranet.serve.media import Media
from libranet.serve.previews import Gone, Previews
from libranet.serve.settings import Limits, ServeSettings, make_folders

VIDEO = Media("video", ".mp4", ".mp4", 64, 48, "h264", 10, 25.0, 0.4)


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

    class Child:
        pid = os.getpid()

    async def check() -> list[str]:
        job = known.store.update(known.store.add("a.mp4", 10), state=State.running)
        before = await known._problem(Child(), 0.0)
        known.store.folder(job).result(".mp4").write_bytes(b"0" * 2000)
        return [before, await known._problem(Child(), 0.0), await known._problem(Child(), 1e6)]

    fine, full, silent = asyncio.run(check())
    assert (fine, "space" in full, "longer than" in silent) == ("", True, True)


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
    store.update(third, state=State.queued, queued=3.0)
    store.update(first, state=State.running, queued=1.0)
    store.update(second, state=State.queued, queued=2.0)
    assert store.queue_positions() == {second.id: 1, third.id: 2}
    assert store.next_queued().id == second.id
    assert ready.state == State.uploading


class FakeWorker:
    """A worker that runs until it is cancelled, or ends at once."""

    pid, alive = os.getpid(), True

    def __init__(self, *, endless: bool) -> None:
        self.endless, self.sent = endless, []

    async def send(self, message):
        self.sent.append(message)

    async def receive(self):
        while self.endless and not any(message["op"] == "cancel" for message in self.sent):
            await asyncio.sleep(0.01)
        return {"event": "cancelled"} if self.endless else {"event": "done", "report": {}}

    async def stop(self):
        pass

    kill = stop


async def with_worker(known, start_worker, visit):
    """Let one worker work while a visitor does something. Returns what the visitor saw."""
    known._start_worker = start_worker
    work = asyncio.create_task(known._work("cpu"))
    try:
        return await asyncio.wait_for(visit(), 10)
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def wait_for(known, job, *states):
    while (now := known.store.get(job.id)).state not in states:
        await asyncio.sleep(0.01)
    return now


def test_a_cancellation_while_the_worker_starts_is_kept(tmp_path):
    known = make_dispatcher(tmp_path)
    started = []

    async def start_worker(_):
        await asyncio.sleep(0.3)
        started.append(FakeWorker(endless=False))
        return started[0]

    async def visit():
        first, second = (known.store.update(known.store.add("x", 1), media=VIDEO) for _ in range(2))
        await known.submit(first, {})
        await wait_for(known, first, State.running)
        await known.cancel(known.store.get(first.id))
        at_once = known.store.get(first.id).state
        await known.submit(second, {})
        await wait_for(known, second, State.done)
        return at_once, known.store.get(first.id).state

    assert asyncio.run(with_worker(known, start_worker, visit)) == (State.cancelled, State.cancelled)
    assert len(started[0].sent) == 1  # the worker never heard of the first job


def test_a_cancellation_names_its_run(tmp_path):
    """A job that was cancelled and started again is not cancelled by the old message."""
    known = make_dispatcher(tmp_path)
    worker = FakeWorker(endless=True)

    async def start_worker(_):
        return worker

    async def visit():
        job = known.store.update(known.store.add("x", 1), media=VIDEO)
        await known.submit(job, {})
        await wait_for(known, job, State.running)
        begin = time.monotonic()
        await known.cancel(known.store.get(job.id))
        taken = time.monotonic() - begin
        worker.endless = False
        await known.submit(known.store.get(job.id), {})
        return taken, (await wait_for(known, job, State.done, State.cancelled)).state

    taken, state = asyncio.run(with_worker(known, start_worker, visit))
    assert (taken < 2, state) == (True, State.done)
    runs = {message["op"]: message["run"] for message in worker.sent[:2]}
    assert runs["run"] == runs["cancel"] != worker.sent[2]["run"]


@pytest.mark.parametrize("error", [TimeoutError, ValueError])
def test_a_worker_that_does_not_start_fails_its_job_and_not_the_queue(tmp_path, error):
    known = make_dispatcher(tmp_path)

    async def start_worker(_):
        raise error

    async def visit():
        jobs = [known.store.update(known.store.add("x", 1), media=VIDEO) for _ in range(2)]
        for job in jobs:
            await known.submit(job, {})
        return [await wait_for(known, job, State.failed) for job in jobs]

    ended = asyncio.run(with_worker(known, start_worker, visit))
    assert all(job.error for job in ended)


def test_a_preview_that_nobody_waits_for_is_not_computed():
    async def start():
        raise AssertionError("it was computed")

    async def gone():
        return False

    with pytest.raises(Gone):
        asyncio.run(Previews(start, 1.0).ask({"op": "frame"}, gone))

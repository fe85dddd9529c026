"""Visitors who are slow, and uploads that are announced and never come: nobody else waits for them."""

import asyncio
import os
import re
import resource
import socket
import subprocess
import sys
import threading
import time

import pytest
import uvicorn
from fastapi import HTTPException

from libranet.serve import connections
from libranet.serve.dispatcher import Dispatcher
from libranet.serve.jobs import State
from libranet.serve.settings import Limits, ServeSettings, make_folders

SLOW = 600
HALF_A_HEAD = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
NO_READING = b"GET /long HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
HALF_A_BODY = b"POST /api/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\nabc"


async def hello(scope, receive, send):
    """An application that reads the body and answers, at length where that is asked for."""
    while (await receive()).get("more_body"):
        pass
    pieces = [bytes(1 << 18)] * 1024 if scope["path"] == "/long" else [b"hi"]
    length = (b"content-length", str(sum(map(len, pieces))).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    for number, piece in enumerate(pieces, 1):
        await send({"type": "http.response.body", "body": piece, "more_body": number < len(pieces)})


@pytest.fixture
def few(monkeypatch):
    """A server that keeps eight connections."""
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 8)
    server = uvicorn.Server(
        uvicorn.Config(hello, log_level="critical", lifespan="off", http=connections.PromptProtocol)
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        yield listener.getsockname()
        server.should_exit = True
        thread.join(10)


def connect(place, source="127.0.0.1", first=b""):
    connection = socket.create_connection(place, timeout=10, source_address=(source, 0))
    connection.sendall(first)
    return connection


def is_closed(connection) -> bool:
    connection.settimeout(0.3)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def ask(place, source="127.0.0.1") -> tuple[bytes, float]:
    """The first line of an answer, and how long it took."""
    begin = time.monotonic()
    with connect(place, source, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") as connection:
        line = connection.recv(4096).partition(b"\r\n")[0]
    return line, time.monotonic() - begin


@pytest.mark.parametrize("first", [b"", HALF_A_HEAD, HALF_A_BODY], ids=["nothing", "head", "body"])
def test_the_address_that_keeps_most_waiting_loses_its_oldest(few, first):
    patient = connect(few, "127.0.0.9", HALF_A_BODY)  # an upload by someone else
    slow = [connect(few, "127.0.0.2", first) for _ in range(20)]
    assert ask(few)[0] == b"HTTP/1.1 200 OK"
    assert is_closed(slow[0])
    assert not is_closed(slow[-1])
    patient.sendall(b"x" * 997)
    assert patient.recv(100).startswith(b"HTTP/1.1 200")
    for connection in (patient, *slow):
        connection.close()


@pytest.mark.parametrize("first", [HALF_A_HEAD, HALF_A_BODY, NO_READING], ids=["head", "body", "answer"])
def test_whoever_keeps_the_server_waiting_gives_way(few, first):
    slow = [connect(few, "127.0.0.2", first) for _ in range(8)]
    time.sleep(0.8)  # until the server waits for all of them, and their buffers are full
    assert [ask(few)[0] for _ in range(3)] == [b"HTTP/1.1 200 OK"] * 3
    for connection in slow:
        connection.close()


def test_many_addresses_lose_the_oldest_first(few):
    slow = [connect(few, f"127.0.1.{number}", HALF_A_HEAD) for number in range(1, 21)]
    assert [ask(few)[0] for _ in range(3)] == [b"HTTP/1.1 200 OK"] * 3
    assert is_closed(slow[0])
    for connection in slow:
        connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("addresses", [1, SLOW])
@pytest.mark.parametrize("first", [HALF_A_HEAD, HALF_A_BODY], ids=["head", "body"])
def test_six_hundred_slow_visitors_keep_nobody_waiting(tmp_path, tiny_checkpoint, first, addresses):
    """The real server, as `libranet serve` runs it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    words = ["serve", "--port", "0", "--data", str(tmp_path), "--model", str(tiny_checkpoint), "--device", "cpu"]
    server = subprocess.Popen([sys.executable, "-m", "libranet", *words], stderr=subprocess.PIPE, text=True)
    slow = []
    try:
        assert server.stderr is not None
        port = int(re.search(r":(\d+)/", next(line for line in server.stderr if "http://" in line))[1])
        threading.Thread(target=server.stderr.read, daemon=True).start()
        place = ("127.0.0.1", port)
        while b"200" not in ask(place)[0]:
            time.sleep(0.1)
        numbers = [number % addresses for number in range(SLOW)]
        slow = [connect(place, f"127.1.{number // 200}.{number % 200 + 1}", first) for number in numbers]
        ask(place)  # which waits until the server has looked at all of them
        answers = [ask(place) for _ in range(30)]
        assert {line for line, _ in answers} == {b"HTTP/1.1 200 OK"}
        assert max(seconds for _, seconds in answers) < 1.0
    finally:
        for connection in slow:
            connection.close()
        server.terminate()
        server.wait(20)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def with_dispatcher(folder, limits, visit):
    settings = ServeSettings(folder=folder, limits=limits)
    make_folders(settings)

    async def once():
        known = Dispatcher(settings)
        try:
            return await visit(known)
        finally:
            await known.stop()

    return asyncio.run(once())


def let_be_silent(known, job, seconds=100.0):
    """As if no piece had come for so long."""
    known.store._jobs[job.id] = job = known.store.update(job)
    object.__setattr__(job, "changed", time.time() - seconds)
    os.utime(known.store.folder(job).upload, (time.time() - seconds,) * 2)


def test_announced_uploads_that_never_come_give_way(tmp_path):
    async def visit(known):
        first = [await known.create("x", 400, address="1.1.1.1") for _ in range(1)]
        first += [await known.create("x", 400, address="2.2.2.2")]
        with pytest.raises(HTTPException, match="no room"):
            await known.create("y", 400, address="3.3.3.3")
        for job in first:
            let_be_silent(known, job)
        kept = await known.create("y", 400, address="3.3.3.3")
        return [job.id for job in known.store.all()] == [kept.id]

    assert with_dispatcher(tmp_path, Limits(quota_bytes=1000, silent_seconds=50), visit)


def test_a_silent_upload_stays_as_long_as_there_is_room(tmp_path):
    async def visit(known):
        job = await known.create("x", 400, address="1.1.1.1")
        let_be_silent(known, job)
        await known.create("y", 400, address="3.3.3.3")
        return {job.state for job in known.store.all()}, len(known.store.all())

    assert with_dispatcher(tmp_path, Limits(quota_bytes=1000, silent_seconds=50), visit) == ({State.uploading}, 2)


def test_one_address_cannot_take_all_uploads(tmp_path):
    async def visit(known):
        for _ in range(3):
            await known.create("x", 1, address="1.1.1.1")
        with pytest.raises(HTTPException, match="from your address"):
            await known.create("x", 1, address="1.1.1.1")
        await known.create("y", 300, address="2.2.2.2")
        with pytest.raises(HTTPException, match="from your address"):  # half of the quota is for others
            await known.create("y", 300, address="2.2.2.2")
        job = await known.create("z", 300, address="3.3.3.3")
        known.store.update(job, state=State.failed)  # as soon as it has come, the next may
        await known.create("z", 300, address="3.3.3.3")

    with_dispatcher(tmp_path, Limits(quota_bytes=1000, uploads_per_address=3), visit)

"""The processes of a server: their priority, files that harm them, visitors who go away, silent connections."""

import asyncio
import os
import signal
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

import cv2
import numpy as np
import uvicorn

from clips import Clip, write_clip
from libranet.serve import connections
from libranet.serve.child import Child
from libranet.serve.dispatcher import Dispatcher
from libranet.serve.media import Media
from libranet.serve.settings import Limits, ServeSettings, make_folders


def test_the_server_goes_first(clean, children, tmp_path):
    """Priorities count within a session: in one of their own, the processes would be the server's equals."""
    clean.run(clean.upload(write_clip(tmp_path / "in.mp4", Clip(frames=2)))["id"])
    own = os.getpriority(os.PRIO_PROCESS, 0)
    steps = {}
    for module, processes in children().items():
        for process in processes:
            assert os.getsid(process) == os.getsid(0)
            assert os.getpgid(process) != os.getpgid(0)  # Ctrl-C is not for them
            steps[module] = os.getpriority(os.PRIO_PROCESS, process) - own
    assert steps == {"worker": 5, "previewer": 2, "media": 2}


def image(path: Path) -> Path:
    cv2.imwrite(str(path), np.full((32, 48, 3), 90, np.uint8))
    return path


def inspect(folder: Path, upload: Path, limits: Limits, *, killed: bool = False) -> tuple[Media | str, int | None]:
    """What a dispatcher finds out about a file, and the process that did it."""

    async def once() -> tuple[Media | str, int | None]:
        settings = ServeSettings(folder=folder, limits=limits)
        make_folders(settings)
        known = Dispatcher(settings)
        await known._inspections.warm_up()
        first = known._inspectors[-1]
        assert first.pid is not None
        if killed:
            os.kill(first.pid, signal.SIGKILL)
        found = await known._inspect(str(upload))
        pid = first.pid
        await known.stop()
        return found, pid

    return asyncio.run(once())


def test_an_inspector_that_died_is_replaced(tmp_path):
    path = image(tmp_path / "upload.png")
    found, _ = inspect(tmp_path / "serve", path, Limits(), killed=True)
    assert isinstance(found, Media)
    assert (found.kind, found.width, found.height) == ("image", 48, 32)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["serve", "upload.png"]


def test_a_file_that_takes_too_long_is_refused_and_harms_no_other(tmp_path):
    path = tmp_path / "upload"
    noise = np.random.default_rng(0).integers(0, 255, (2000, 2000, 3), np.uint8)
    path.write_bytes(cv2.imencode(".png", noise, [cv2.IMWRITE_PNG_COMPRESSION, 1])[1].tobytes())
    found, pid = inspect(tmp_path / "serve", path, Limits(inspect_seconds=0.001))
    assert "too much time" in str(found)
    assert pid is not None, "the process itself lives on"


def test_visitors_who_go_away_take_their_previews_along(clean, tmp_path, monkeypatch):
    id_ = clean.upload(write_clip(tmp_path / "in.mp4", Clip(frames=5, width=320, height=192)))["id"]
    computed = []
    send = Child.send

    async def counted(self, message):
        if message.get("op") == "preview":
            computed.append(message["settings"]["strength"])
        await send(self, message)

    monkeypatch.setattr(Child, "send", counted)
    host, port = clean.address.removeprefix("http://").split(":")
    for number in range(8):
        with socket.create_connection((host, int(port))) as connection:
            path = f"/api/jobs/{id_}/preview?strength=0.{number + 1}"
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert clean.client.get(f"/api/jobs/{id_}/preview?strength=1").status_code == 200
    assert computed[-1] == 1.0
    assert len(computed) < 8


def test_an_upload_in_drops_ends(clean):
    """Less than four kilobytes a second, without a pause."""
    job = clean.client.post("/api/jobs", json={"name": "x", "size": 1000}).json()
    host, port = clean.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        head = f"PATCH /api/jobs/{job['id']}/content?offset=0 HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1000\r\n\r\n"
        connection.sendall(head.encode())
        connection.settimeout(0.2)
        answer, drops = b"", 0
        while not answer and drops < 100:
            connection.sendall(b"0")
            drops += 1
            with suppress(TimeoutError):
                answer = connection.recv(4096)
    assert b" 408 " in answer.split(b"\r\n")[0]
    assert 2 < drops < 30
    assert clean.client.get(f"/api/jobs/{job['id']}").json()["received"] >= 2


async def hello(scope, receive, send):
    """An application that answers every request."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


def served(connection: socket.socket, request: bytes) -> bool:
    connection.sendall(request)
    answer = b""
    while not answer.endswith(b"hi"):
        if not (more := connection.recv(1000)):
            return False
        answer += more
    return True


def test_connections_that_ask_nothing_are_closed(monkeypatch):
    monkeypatch.setattr(connections, "_SECONDS", 0.4)
    config = uvicorn.Config(hello, log_level="critical", lifespan="off", http=connections.PromptProtocol)
    server = uvicorn.Server(config)
    request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        silent, half, polite = (socket.create_connection(listener.getsockname(), timeout=5) for _ in range(3))
        assert served(half, request)
        half.sendall(request[:10])
        for _ in range(6):
            assert served(polite, request)
            time.sleep(0.2)
        assert silent.recv(1) == b""
        assert half.recv(1) == b""
        for connection in (silent, half, polite):
            connection.close()
        server.should_exit = True
        thread.join(10)

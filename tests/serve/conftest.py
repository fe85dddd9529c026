"""A real server on a loopback port, with a tiny network, in this process; its workers are processes of their own."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import uvicorn

from libranet.serve.app import make_app
from libranet.serve.settings import Limits, ServeSettings

END = ("ready", "done", "failed", "cancelled")


@dataclass(frozen=True)
class Running:
    """A server and a client of it."""

    settings: ServeSettings
    address: str
    client: httpx.Client

    def upload(self, path: Path, name: str | None = None) -> dict:
        """Send a file and wait until it is inspected."""
        content = path.read_bytes()
        job = self.client.post("/api/jobs", json={"name": name or path.name, "size": len(content)}).json()
        for offset in range(0, len(content), step := self.settings.limits.chunk_bytes):
            piece = content[offset : offset + step]
            sent = self.client.patch(f"/api/jobs/{job['id']}/content?offset={offset}", content=piece)
            assert sent.status_code == 200, sent.text
        return self.wait(job["id"])

    def wait(self, id_: str, states: tuple[str, ...] = END, seconds: float = 300.0) -> dict:
        """Wait until a job is in one of these states."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            job = self.client.get(f"/api/jobs/{id_}").json()
            if job["state"] in states:
                return job
            time.sleep(0.05)
        raise AssertionError(f"still {job['state']}: {job}")

    def run(self, id_: str, **settings) -> dict:
        """Start a job and wait for its end."""
        started = self.client.post(f"/api/jobs/{id_}/start", json=settings)
        assert started.status_code == 200, started.text
        return self.wait(id_, ("done", "failed", "cancelled"))

    def files(self) -> list[str]:
        """Everything in the folder of jobs."""
        return sorted(str(path.relative_to(self.settings.jobs_folder)) for path in self.settings.jobs_folder.rglob("*"))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Iterator[Running]:
    limits = Limits(
        upload_bytes=20 << 20, seconds=60, pixels=3840 * 2160, chunk_bytes=1 << 20, idle_seconds=1.0, jobs=60
    )
    folder = tmp_path_factory.mktemp("serve")
    model = str(tiny_checkpoint)
    settings = ServeSettings(folder=folder, model=model, fast_model="libranet-small", devices=("cpu",), limits=limits)
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    process = uvicorn.Server(uvicorn.Config(make_app(settings), log_level="warning"))
    thread = threading.Thread(target=process.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    with httpx.Client(base_url=address, timeout=90) as client:
        yield Running(settings, address, client)
    process.should_exit = True
    thread.join(20)
    assert not thread.is_alive()


@pytest.fixture
def clean(server: Running) -> Iterator[Running]:
    """The server without jobs, before and after; no file is left behind."""
    _delete_all(server)
    yield server
    _delete_all(server)
    assert server.files() == []


@pytest.fixture
def children() -> Callable[[], dict[str, list[int]]]:
    """Finds the processes of this process, by the last name of the module that they run."""
    if not os.path.isdir("/proc"):
        pytest.skip("finds processes through /proc")

    def find() -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                command = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
                parent = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == os.getpid() and b"-m" in command:
                module = command[command.index(b"-m") + 1].decode()
                found.setdefault(module.rpartition(".")[2], []).append(int(entry))
        return found

    return find


def _delete_all(server: Running) -> None:
    for job in server.client.get("/api/jobs").json():
        assert server.client.delete(f"/api/jobs/{job['id']}").status_code == 204

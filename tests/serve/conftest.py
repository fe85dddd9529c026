"""A real server on a loopback port, with a tiny network, in this process; its workers are processes of their own."""

import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import torch
import uvicorn

from libranet.network import LiBrANet, save_checkpoint
from libranet.serve.app import make_app
from libranet.serve.settings import Limits, ServeSettings
from tiny_network import TINY, perturb

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
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    save_checkpoint(perturb(LiBrANet(TINY)), path)
    return path


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Iterator[Running]:
    limits = Limits(
        upload_bytes=20 << 20, seconds=60, pixels=3840 * 2160, chunk_bytes=1 << 20, idle_seconds=1.0, jobs=60
    )
    folder = tmp_path_factory.mktemp("serve")
    settings = ServeSettings(folder=folder, model=str(tiny_checkpoint), devices=("cpu",), limits=limits)
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


def _delete_all(server: Running) -> None:
    for job in server.client.get("/api/jobs").json():
        assert server.client.delete(f"/api/jobs/{job['id']}").status_code == 204

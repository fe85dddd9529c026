"""What may happen to a server: damaged files, bombs, many visitors, a kill in the middle of a job."""

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import av
import cv2
import httpx
import numpy as np
import pytest

from clips import Clip, textured_frame, write_clip
from libranet.engine import DehazeOptions, dehaze_video

MUTATED = 500
CLIENTS = 20


def originals(folder: Path) -> list[bytes]:
    """One small file of each kind."""
    image = cv2.resize(np.random.default_rng(0).integers(0, 255, (9, 12, 3), np.uint8), (96, 72))
    files = []
    for suffix in (".png", ".jpg", ".webp", ".bmp", ".tif"):
        cv2.imwrite(str(folder / f"image{suffix}"), image)
        files.append(folder / f"image{suffix}")
    for suffix, codec in ((".mp4", "libx264"), (".mkv", "libx264"), (".webm", "libvpx-vp9"), (".avi", "mpeg4")):
        files.append(write_clip(folder / f"clip{suffix}", Clip(codec=codec, frames=4)))
    return [file.read_bytes() for file in files]


def mutated(content: bytes, choice: random.Random) -> bytes:
    data = bytearray(content)
    kind = choice.randrange(5)
    if kind == 0:
        del data[choice.randrange(1, len(data)) :]
    elif kind == 1:
        for _ in range(choice.randrange(1, 60)):
            data[choice.randrange(len(data))] = choice.randrange(256)
    elif kind == 2:
        for _ in range(choice.randrange(1, 6)):  # headers
            data[choice.randrange(min(200, len(data)))] = choice.choice((0, 1, 127, 128, 255))
    elif kind == 3:
        at = choice.randrange(len(data))
        data[at:at] = choice.randbytes(choice.randrange(1, 400))
    else:
        start = choice.randrange(len(data))
        data[start : start + choice.randrange(1, 300)] = b""
    return bytes(data) or b"x"


@pytest.mark.slow
def test_mutated_uploads_neither_crash_the_server_nor_stay(clean, tmp_path):
    files = originals(tmp_path)

    def visit(number: int) -> str:
        choice = random.Random(number)
        content = mutated(files[number % len(files)], choice)
        with httpx.Client(base_url=clean.address, timeout=120) as client:
            id_ = client.post("/api/jobs", json={"name": f"{number}.mp4", "size": len(content)}).json()["id"]
            assert client.patch(f"/api/jobs/{id_}/content?offset=0", content=content).status_code == 200
            while (job := client.get(f"/api/jobs/{id_}").json())["state"] == "checking":
                time.sleep(0.05)
            if job["state"] == "ready":
                assert client.get(f"/api/jobs/{id_}/preview").status_code in (200, 422)
                client.post(f"/api/jobs/{id_}/start", json={})
                while (job := client.get(f"/api/jobs/{id_}").json())["state"] in ("queued", "running"):
                    time.sleep(0.05)
            assert job["state"] in ("done", "failed")
            assert job["state"] == "done" or job["error"]
            assert str(clean.settings.folder) not in str(job)
            assert client.delete(f"/api/jobs/{id_}").status_code == 204
        return job["state"]

    with ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(visit, range(MUTATED)))
    assert {ends.count("done") > 20, ends.count("failed") > 20} == {True}, "both kinds are tried"
    assert clean.client.get("/api/jobs").json() == []
    assert clean.files() == []


@pytest.mark.more
def test_a_video_that_hides_its_length_ends_at_the_limit(clean, tmp_path):
    path = tmp_path / "endless.mkv"
    with av.open(str(path), "w", options={"live": "1"}) as container:
        stream = container.add_stream("libx264", rate=1, options={"preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for index in range(70):
            frame = textured_frame("yuv420p", 64, 48, index % 4)
            frame.pts = None
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    job = clean.upload(path)
    if job["state"] == "ready":
        job = clean.run(job["id"])
    assert job["state"] == "failed"
    assert re.search(r"more frames|s long", job["error"])


def test_a_large_frame_in_a_small_video_is_refused(clean, tmp_path):
    bomb = Clip(frames=1, width=4096, height=2304, still=True, options=(("preset", "ultrafast"),))
    path = write_clip(tmp_path / "bomb.mp4", bomb)
    job = clean.upload(path)
    assert (job["state"], "4096x2304" in job["error"]) == ("failed", True)


@pytest.mark.slow
def test_many_visitors_at_once(clean, tmp_path):
    """Every accepted job ends. How fast the server answers meanwhile is measured by benchmarks/serve_load.py."""
    path = write_clip(tmp_path / "in.mp4", Clip(frames=24, width=160, height=96))
    barrier = threading.Barrier(CLIENTS)

    def visit(_: int) -> str:
        barrier.wait()
        job = clean.upload(path)
        return clean.run(job["id"])["state"]

    with ThreadPoolExecutor(CLIENTS) as pool:
        assert list(pool.map(visit, range(CLIENTS))) == ["done"] * CLIENTS


def start_server(folder: Path, model: Path) -> tuple[subprocess.Popen, str]:
    command = [sys.executable, "-m", "libranet", "serve", "--port", "0", "--data", str(folder), "--model", str(model)]
    process = subprocess.Popen([*command, "--device", "cpu"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"http://\S+", line):
            return process, found[0]
    raise AssertionError("the server did not start")


def wait_for(client: httpx.Client, id_: str, ready) -> dict:
    end = time.monotonic() + 900
    while not ready(job := client.get(f"/api/jobs/{id_}").json()):
        assert time.monotonic() < end, job
        time.sleep(0.02)
    return job


@pytest.mark.slow
def test_a_killed_server_resumes_its_job(tmp_path, tiny_checkpoint):
    source = write_clip(
        tmp_path / "in.mp4", Clip(frames=400, width=320, height=192, still=True, options=(("preset", "ultrafast"),))
    )
    content = source.read_bytes()
    server, address = start_server(tmp_path / "data", tiny_checkpoint)
    try:
        with httpx.Client(base_url=address, timeout=60) as client:
            id_ = client.post("/api/jobs", json={"name": "in.mp4", "size": len(content)}).json()["id"]
            client.patch(f"/api/jobs/{id_}/content?offset=0", content=content)
            wait_for(client, id_, lambda job: job["state"] == "ready")
            client.post(f"/api/jobs/{id_}/start", json={"strength": 0.9})
            wait_for(client, id_, lambda job: (job["progress"] or {}).get("frames", 0) > 150)
    finally:
        os.kill(server.pid, signal.SIGKILL)
        server.wait()
    server, address = start_server(tmp_path / "data", tiny_checkpoint)
    try:
        with httpx.Client(base_url=address, timeout=60) as client:
            job = wait_for(client, id_, lambda job: job["state"] in ("done", "failed"))
            assert job["state"] == "done", job["error"]
            result = client.get(f"/api/jobs/{id_}/result").content
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)
    out = tmp_path / "out.mp4"
    dehaze_video(source, out, model=str(tiny_checkpoint), device="cpu", options=DehazeOptions(strength=0.9))
    assert result == out.read_bytes()

"""A server under load: the first preview of a 1080p photo, and how fast the status answers while many visitors work.

    PYTHONPATH=src:benchmarks python3 benchmarks/serve_load.py [--clients 20] [--model WEIGHTS] [--json FILE]

The server runs as its own process with the weights of the package. The photo is sent when the network is loaded; the
time counts from the first byte of the upload to the last of the preview. Then every client uploads a short clip and
starts it, while a process of its own asks for the status of all jobs and of one job again and again. In turn with the
server it asks an echo, a process that sends every byte back: how long that takes is what the machine itself adds.
"""

import argparse
import asyncio
import http.client
import json
import multiprocessing
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import av
import cv2
import httpx
import numpy as np

from libranet.page import example_path
from machine import describe_machine


def frames(width: int, height: int, count: int) -> list[np.ndarray]:  # uint8 [H, W, 3], RGB
    """Frames of the example."""
    with av.open(str(example_path())) as video:
        images = [frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)][:count]
    return [cv2.resize(image, (width, height), interpolation=cv2.INTER_CUBIC) for image in images]


def clip(path: Path) -> bytes:
    """A second of the example, small."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 160, 96, "yuv420p"
        for image in frames(160, 96, 12):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))
    return path.read_bytes()


def upload(client: httpx.Client, name: str, content: bytes) -> str:
    """Send a file and wait until it is inspected."""
    id_ = client.post("/api/jobs", json={"name": name, "size": len(content)}).json()["id"]
    client.patch(f"/api/jobs/{id_}/content?offset=0", content=content).raise_for_status()
    while client.get(f"/api/jobs/{id_}").json()["state"] == "checking":
        time.sleep(0.02)
    return id_


def first_preview(client: httpx.Client) -> float:
    """Seconds from the first byte of a 1080p photo to its preview."""
    jpeg = cv2.imencode(".jpg", frames(1920, 1080, 1)[0][..., ::-1])[1].tobytes()
    begin = time.perf_counter()
    id_ = upload(client, "photo.jpg", jpeg)
    client.get(f"/api/jobs/{id_}/preview").raise_for_status()
    seconds = time.perf_counter() - begin
    client.delete(f"/api/jobs/{id_}")
    return seconds


def echo(listener: socket.socket) -> None:
    """Send every byte back, in a process of its own."""
    connection, _ = listener.accept()
    while data := connection.recv(64):
        connection.sendall(data)


def watch(address: str, echo_port: int, over: Connection) -> None:
    """Ask until told to end; then send the times in milliseconds, in a process of its own."""
    host, port = address.removeprefix("http://").strip("/").split(":")
    server = http.client.HTTPConnection(host, int(port), timeout=60)
    times: dict[str, list[float]] = {"list": [], "one": [], "echo": []}

    def get(path: str) -> bytes:
        server.request("GET", path)
        response = server.getresponse()
        assert response.status in (200, 404), response.status
        return response.read()

    with socket.create_connection(("127.0.0.1", echo_port)) as other:
        while not over.poll():
            begin = time.perf_counter()
            jobs = json.loads(get("/api/jobs"))
            times["list"].append(1e3 * (time.perf_counter() - begin))
            if jobs:
                begin = time.perf_counter()
                get(f"/api/jobs/{jobs[-1]['id']}")
                times["one"].append(1e3 * (time.perf_counter() - begin))
            begin = time.perf_counter()
            other.sendall(b"x")
            other.recv(1)
            times["echo"].append(1e3 * (time.perf_counter() - begin))
            time.sleep(0.05)
    over.send(times)


async def visit(address: str, number: int, content: bytes) -> str:
    """One visitor: upload, start, wait. Returns how the job ended."""
    async with httpx.AsyncClient(base_url=address, timeout=600) as client:
        created = await client.post("/api/jobs", json={"name": f"{number}.mp4", "size": len(content)})
        id_ = created.raise_for_status().json()["id"]
        (await client.patch(f"/api/jobs/{id_}/content?offset=0", content=content)).raise_for_status()
        for begin, ends in ((False, ("checking",)), (True, ("queued", "running"))):
            if begin:
                (await client.post(f"/api/jobs/{id_}/start", json={})).raise_for_status()
            while (state := (await client.get(f"/api/jobs/{id_}")).json()["state"]) in ends:
                await asyncio.sleep(0.25)
        return state


async def crowd(address: str, count: int, content: bytes) -> list[str]:
    """How the jobs of all visitors ended."""
    return await asyncio.gather(*(visit(address, number, content) for number in range(count)))


def watched_crowd(address: str, count: int, content: bytes) -> tuple[list[str], dict[str, list[float]]]:
    """How every client's job ended, and the times of the status meanwhile."""
    fork = multiprocessing.get_context("fork")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        fork.Process(target=echo, args=(listener,), daemon=True).start()
        ours, theirs = fork.Pipe()
        fork.Process(target=watch, args=(address, listener.getsockname()[1], theirs), daemon=True).start()
        ends = asyncio.run(crowd(address, count, content))
        ours.send("over")
        return ends, ours.recv()


def summary(times: list[float]) -> dict[str, float]:
    """Number, percentiles and the largest, in milliseconds."""
    shares = {f"p{share}": round(float(np.percentile(times, share)), 1) for share in (50, 95, 99)}
    return {"requests": len(times), **shares, "largest": round(max(times), 1), "above_200": sum(t > 200 for t in times)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--model", help="a checkpoint; the package's without it")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "libranet", "serve", "--port", "0", "--data", f"{folder}/data"]
        command += ["--model", arguments.model] if arguments.model else []
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            assert server.stderr is not None
            address = next(found[0] for line in server.stderr if (found := re.search(r"http://\S+", line)))
            with httpx.Client(base_url=address, timeout=120) as client:
                while not client.get("/api/server").json()["weights"]:  # the network is being loaded
                    time.sleep(0.1)
                loads = [os.getloadavg()[0]]
                previews = [first_preview(client) for _ in range(3)]
            ends, times = watched_crowd(address, arguments.clients, clip(Path(folder) / "in.mp4"))
            loads.append(os.getloadavg()[0])
        finally:
            server.terminate()
            server.wait(30)
    result: dict[str, object] = {
        "preview_1080p_seconds": [round(value, 2) for value in previews],
        "clients": arguments.clients,
        "ended": {state: ends.count(state) for state in sorted(set(ends))},
        "status_of_all_ms": summary(times["list"]),
        "status_of_one_ms": summary(times["one"]),
        "echo_ms": summary(times["echo"]),
        "load": [round(load, 1) for load in loads],
        "cores": os.cpu_count(),
        **describe_machine(),
    }
    print(json.dumps(result, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()

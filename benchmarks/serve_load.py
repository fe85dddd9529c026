"""A server under load: the first preview of a 1080p photo, and how fast the status answers while many visitors work.

    PYTHONPATH=src:benchmarks python3 benchmarks/serve_load.py [--clients 20] [--model WEIGHTS] [--json FILE]

The server runs as its own process with the weights of the package. The photo is sent when the network is loaded; the
time counts from the first byte of the upload to the last of the preview. Then every client uploads a short clip and
starts it, while one more asks for the status of a job again and again.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
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


def crowd(address: str, count: int, content: bytes) -> tuple[list[str], list[float]]:
    """How every client's job ended, and the times of the status meanwhile, in milliseconds."""
    times: list[float] = []
    over = threading.Event()

    def watch() -> None:
        with httpx.Client(base_url=address, timeout=60) as client:
            while not over.is_set():
                begin = time.perf_counter()
                client.get("/api/jobs").raise_for_status()
                times.append(1e3 * (time.perf_counter() - begin))
                time.sleep(0.05)

    def visit(number: int) -> str:
        with httpx.Client(base_url=address, timeout=600) as client:
            id_ = upload(client, f"{number}.mp4", content)
            client.post(f"/api/jobs/{id_}/start", json={}).raise_for_status()
            while (state := client.get(f"/api/jobs/{id_}").json()["state"]) in ("queued", "running"):
                time.sleep(0.25)
            return state

    watcher = threading.Thread(target=watch)
    watcher.start()
    with ThreadPoolExecutor(count) as pool:
        ends = list(pool.map(visit, range(count)))
    over.set()
    watcher.join()
    return ends, times


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
                previews = [first_preview(client) for _ in range(3)]
            ends, times = crowd(address, arguments.clients, clip(Path(folder) / "in.mp4"))
        finally:
            server.terminate()
            server.wait(30)
    result = {
        "preview_1080p_seconds": [round(value, 2) for value in previews],
        "clients": arguments.clients,
        "ended": {state: ends.count(state) for state in sorted(set(ends))},
        "status_requests": len(times),
        "status_ms_median": round(float(np.median(times)), 1),
        "status_ms_99": round(float(np.percentile(times, 99)), 1),
        "status_ms_largest": round(max(times), 1),
        **describe_machine(),
    }
    print(json.dumps(result, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()

"""The Gradio demo, served on loopback and called by Gradio's own client."""

import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import av
import pytest
import yaml
from hosts import PLUGINS, ROOT, host, run

pytestmark = pytest.mark.slow
SPACE = PLUGINS / "gradio"
COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
"""That the Hub takes for a space."""
CLIENT = """
import sys
from gradio_client import Client, handle_file
from PIL import Image
client = Client(sys.argv[1], verbose=False)
before, after = client.predict(handle_file("hazy.png"), 1.0, "libranet-small", api_name="/photo")
Image.open(after).convert("RGB").save("clear.png")
same = client.predict(handle_file("hazy.png"), 0.0, "libranet-small", api_name="/photo")[1]
Image.open(same).convert("RGB").save("same.png")
clip = client.predict(handle_file("foggy.mp4"), 0.9, "libranet-small", api_name="/video")
print(clip["video"] if isinstance(clip, dict) else clip)
try:
    client.predict(None, 1.0, "libranet-small", api_name="/photo")
except Exception as error:
    print(error)
"""


def test_the_demo_dehazes_by_its_api(tmp_path):
    programs = host("apps")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"GRADIO_SERVER_PORT": str(port), "GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_OFFLINE": "1"}
    environment = {"PATH": f"{programs}:/usr/bin:/bin", "PYTHONPATH": str(ROOT / "src"), "HOME": str(tmp_path)}
    with open(tmp_path / "log", "w") as log:
        server = subprocess.Popen(
            [programs / "python", SPACE / "app.py"], cwd=tmp_path, env=environment | settings, stderr=log, stdout=log
        )
    try:
        address = f"http://127.0.0.1:{port}/"
        wait_for(address, server, tmp_path / "log")
        check_by_client(address, programs, tmp_path)
    finally:
        server.terminate()
        server.wait(20)


def wait_for(address: str, server: subprocess.Popen, log: Path) -> None:
    end = time.monotonic() + 300
    while True:
        assert server.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(address) as answer:
                assert answer.status == 200
                return
        except OSError:
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.5)


def check_by_client(address: str, programs: Path, folder: Path) -> None:
    import numpy as np

    import libranet
    from libranet.images import read_image

    foggy = ROOT / "src/libranet/page/foggy.mp4"
    (folder / "foggy.mp4").write_bytes(foggy.read_bytes())
    with av.open(str(foggy)) as clip:
        next(clip.decode(video=0)).to_image().resize((320, 180)).save(folder / "hazy.png")
    done = run(programs / "python", "-c", CLIENT, address, folder=folder)
    written, refusal = done.stdout.strip().splitlines()[-2:]
    assert refusal == "Choose a photo first."
    hazy, clear, same = (read_image(folder / f"{name}.png").samples for name in ("hazy", "clear", "same"))
    assert np.array_equal(same, hazy)
    expected = libranet.dehaze_image(hazy, model="libranet-small").astype(int)
    assert np.abs(clear - expected).max() <= 1 < np.abs(clear.astype(int) - hazy).mean()
    with av.open(written) as restored, av.open(str(foggy)) as source:
        assert sum(1 for _ in restored.decode(video=0)) == sum(1 for _ in source.decode(video=0)) == 50


def test_the_space_s_metadata_is_whole():
    front = yaml.safe_load((SPACE / "README.md").read_text(encoding="utf-8").split("---")[1])
    assert (front["sdk"], front["app_file"], front["license"]) == ("gradio", "app.py", "apache-2.0")
    assert len(front["short_description"]) <= 60  # the Hub refuses longer ones
    assert {front["colorFrom"], front["colorTo"]} <= COLOURS
    needed = (SPACE / "requirements.txt").read_text().split()
    assert [line.partition(">")[0] for line in needed] == ["libranet", "gradio"]

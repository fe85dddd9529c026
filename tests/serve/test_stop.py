"""Ctrl-C while a page is open: the server ends with a word, and nothing else."""

import json
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from clips import Clip, write_clip

pytestmark = pytest.mark.more  # a server that loads PyTorch
PROGRAM = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a suite in the background ignores it
    "from libranet.cli.main import main; main()"
)


def test_no_traceback_with_a_page_open(tmp_path, tiny_checkpoint):
    words = ["serve", "--port", "0", "--data", tmp_path / "data", "--model", tiny_checkpoint, "--device", "cpu"]
    server = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *map(str, words)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stderr is not None
        address = server.stderr.readline().split(" at ")[1].split()[0]
        data = write_clip(tmp_path / "in.mp4", Clip(frames=2)).read_bytes()
        with _ask(f"{address}api/jobs", {"name": "in.mp4", "size": len(data)}) as answer:
            job = json.load(answer)["id"]
        urllib.request.urlopen(
            urllib.request.Request(f"{address}api/jobs/{job}/content?offset=0", data=data, method="PATCH"), timeout=30
        ).close()
        host, _, port = address.removeprefix("http://").rstrip("/").rpartition(":")
        with (
            urllib.request.urlopen(f"{address}api/jobs/{job}/events", timeout=30) as events,
            socket.create_connection((host, int(port))) as silent,
        ):
            assert events.readline().startswith(b"event")
            silent.send(b"GET / HT")  # a request that never ends
            server.send_signal(signal.SIGINT)
            out, err = server.communicate(timeout=30)
    finally:
        server.kill()
    assert server.returncode == 130
    assert (out, err.strip()) == ("", "stopped")


def _ask(address, body):
    headers = {"Content-Type": "application/json"}
    return urllib.request.urlopen(
        urllib.request.Request(address, data=json.dumps(body).encode(), headers=headers), timeout=30
    )

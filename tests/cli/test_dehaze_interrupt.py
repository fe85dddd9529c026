"""Ctrl-C: a run stops cleanly and can go on; a live recording ends with a whole file."""

import os
import signal
import subprocess
import sys
import time

import pytest

from clips import Clip, read_all, write_clip
from libranet.network import save_checkpoint


def start(tmp_path, tiny_model, *options: str) -> subprocess.Popen:
    save_checkpoint(tiny_model, tmp_path / "tiny.safetensors")
    source = write_clip(
        tmp_path / "in.mkv", Clip(frames=900, width=320, height=192, options=(("preset", "ultrafast"),))
    )
    # A suite in the background of a shell has SIGINT ignored, and so have its children.
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    program += "from libranet.cli.main import main; main()"
    words = ["dehaze", source, "-o", tmp_path / "out.mkv", "--model", tmp_path / "tiny.safetensors", "--device", "cpu"]
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words), *options],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def interrupt_when(process: subprocess.Popen, ready) -> tuple[int, str]:
    while process.poll() is None and not ready():
        time.sleep(0.01)
    assert process.poll() is None, "the run was over before it was stopped"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


@pytest.mark.more
def test_a_stopped_run_says_how_to_go_on(tmp_path, tiny_model):
    process = start(tmp_path, tiny_model, "--segment-frames", "5")
    folder = tmp_path / ".out.mkv.libranet"
    code, err = interrupt_when(process, lambda: list(folder.glob("segment-*.packets")))
    assert code == 130
    assert "--resume" in err
    assert "Traceback" not in err
    assert not (tmp_path / "out.mkv").exists()
    assert (folder / "manifest.json").exists()


@pytest.mark.slow
def test_a_live_recording_ends_whole(tmp_path, tiny_model):
    process = start(tmp_path, tiny_model, "--live")
    part = tmp_path / ".out.mkv.part.mkv"
    code, err = interrupt_when(process, lambda: part.exists() and part.stat().st_size > 20_000)
    assert code == 0, err
    assert 1 <= len(read_all(tmp_path / "out.mkv")[0]) < 900

"""Pipes and live sources: read once, with all streams; Ctrl-C and SIGTERM end them."""

import os
import signal
import subprocess
import sys
import threading
import time

import av
import pytest

from clips import Clip, read_all, write_clip
from libranet.engine import dehaze_video
from libranet.errors import InputError
from libranet.network import save_checkpoint

Q0 = (("qp", "0"),)


@pytest.fixture
def command(tmp_path, tiny_model):
    save_checkpoint(tiny_model, tmp_path / "tiny.safetensors")

    def words(*more) -> list[str]:
        program = "from libranet.cli.main import main; main()"
        model = ["--model", tmp_path / "tiny.safetensors", "--device", "cpu"]
        return [sys.executable, "-c", program, "dehaze", *map(str, more), *map(str, model)]

    return words


def feed(path, data: bytes, *, hold: threading.Event | None = None) -> threading.Thread:
    """Write to a FIFO from another thread, and keep it open while `hold` is not set."""

    def write() -> None:
        with open(path, "wb") as file:
            file.write(data)
            file.flush()
            if hold is not None:
                hold.wait(30)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize(("given", "suffix"), [(".ts", ".mp4"), (".ts", ".mkv"), (".mkv", ".mkv")])
def test_a_fifo_is_read_once_with_all_its_streams(tmp_path, tiny_model, given, suffix):
    source = write_clip(tmp_path / f"in{given}", Clip(frames=20, audio=("aac",), options=Q0))
    os.mkfifo(tmp_path / "fifo")
    writer = feed(tmp_path / "fifo", source.read_bytes())
    output = tmp_path / f"out{suffix}"
    report = dehaze_video(tmp_path / "fifo", output, model=tiny_model, device="cpu")
    writer.join(5)
    assert (report.partial, report.warnings, report.copied_streams) == ("", (), 1)
    assert len(read_all(output)[0]) == 20
    with av.open(str(source)) as before, av.open(str(output)) as after:
        sizes = [len([p for p in c.demux(audio=0) if p.size]) for c in (before, after)]
    assert sizes[0] == sizes[1] > 0


def test_an_output_that_is_no_file_is_refused_without_a_remedy_that_fails(tmp_path, tiny_model):
    source = write_clip(tmp_path / "in.mkv", Clip(frames=2))
    os.mkfifo(tmp_path / "out.mkv")
    with pytest.raises(InputError, match="no ordinary file: choose another name"):
        dehaze_video(source, tmp_path / "out.mkv", model=tiny_model, device="cpu")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_pipe_that_nobody_writes_to_can_be_stopped(tmp_path, command, number):
    os.mkfifo(tmp_path / "fifo")
    process = subprocess.Popen(
        command(tmp_path / "fifo", "-o", tmp_path / "out.mkv"), stderr=subprocess.PIPE, text=True
    )
    hold = threading.Event()
    time.sleep(6.0)
    process.send_signal(number)
    _, err = process.communicate(timeout=15)
    hold.set()
    assert process.returncode == (130 if number == signal.SIGINT else 143)
    assert "Traceback" not in err
    assert not (tmp_path / "out.mkv").exists()


@pytest.mark.slow
def test_sigterm_ends_a_live_recording_whole(tmp_path, command):
    source = write_clip(tmp_path / "in.ts", Clip(frames=40, options=Q0))
    os.mkfifo(tmp_path / "fifo")
    hold = threading.Event()
    feed(tmp_path / "fifo", source.read_bytes(), hold=hold)
    output = tmp_path / "out.mkv"
    process = subprocess.Popen(command(tmp_path / "fifo", "-o", output, "--live"), stderr=subprocess.PIPE, text=True)
    begin = time.monotonic()
    while time.monotonic() - begin < 30 and not any(p.stat().st_size > 5000 for p in tmp_path.glob(".out.mkv.*")):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=20)
    hold.set()
    assert process.returncode == 0, err
    assert 1 <= len(read_all(output)[0]) <= 40

"""Live outputs against servers of other programs: GStreamer, nginx, FFmpeg."""

import json
import signal
import socket
import subprocess
import threading
import time

import av
import pytest

from clips import Clip, read_all, write_clip
from libranet.engine import DehazeOptions, OutputError, live_connection, live_output
from libranet.engine.stream import dehaze_stream
from live_servers import Listener, Nginx, Receiver, free_port, python_program, rtsp_server

SECONDS = 4
CLIP = Clip(width=160, height=96, frames=25 * SECONDS, audio=("aac",), options=(("bf", "2"), ("g", "12")))


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return write_clip(tmp_path_factory.mktemp("clip") / "in.ts", CLIP)


def contents(path) -> tuple[list[float], int]:
    """Times of the frames and the number of packets of sound."""
    with av.open(str(path)) as container:
        frames = [float(frame.pts * frame.time_base) for frame in container.decode(video=0)]
    with av.open(str(path)) as container:
        sound = sum(packet.size > 0 for packet in container.demux(audio=0)) if container.streams.audio else 0
    return frames, sound


def check_live(report, frames: list[float], *, least: int) -> None:
    live = report.live
    assert report.partial == ""
    assert least <= len(frames) <= report.frames
    assert report.frames + live.late + live.unsent == CLIP.frames
    assert frames == sorted(frames)
    assert live.latency_ms.p50 <= live.latency_ms.p95 <= live.latency_ms.most
    assert live.frames_behind.p50 <= 12  # at most two on a quiet machine: docs/performance.md


def test_rtmp_with_sound_and_a_recording(tmp_path, tiny_model, clip):
    address = f"rtmp://127.0.0.1:{free_port()}/live/fog"
    server = Listener(["-listen", "1", "-f", "flv", "-i", address], tmp_path / "got.mkv")
    options = DehazeOptions(record=str(tmp_path / "rec.mkv"))
    report = dehaze_stream(clip, address, tiny_model, options=options)
    frames, sound = contents(server.end())
    check_live(report, frames, least=10)
    assert sound > 43  # packets of AAC at 44.1 kHz
    assert report.files == (str(tmp_path / "rec.mkv"),)
    recorded, _ = contents(tmp_path / "rec.mkv")
    assert len(recorded) + report.live.late == CLIP.frames  # also what the server was not ready for


def test_srt(tmp_path, tiny_model, clip):
    address = f"srt://127.0.0.1:{free_port()}"
    server = Listener(["-i", f"{address}?mode=listener"], tmp_path / "got.mkv")
    report = dehaze_stream(clip, f"{address}?mode=caller", tiny_model)
    check_live(report, contents(server.end())[0], least=10)


def test_udp_in_and_out(tmp_path, tiny_model, clip):
    """A source that sends to us, and a viewer that we send to; both without a connection."""
    source, viewer = (f"udp://127.0.0.1:{free_port()}" for _ in range(2))
    sender = Listener(["-re", "-stream_loop", "1", "-i", str(clip), "-f", "mpegts"], f"{source}?pkt_size=1316")
    received = Receiver(viewer)
    report = dehaze_stream(f"{source}?timeout=2000000", viewer, tiny_model)
    sender.end()
    assert report.live.camera_latency_ms is None
    assert report.frames > 10
    assert len(received.end().frames) > 10


def test_an_rtsp_camera_to_an_rtsp_server(tmp_path, tiny_model):
    """The camera's sound goes on to a recording; GStreamer's server tells the time at which it took each frame."""
    with rtsp_server(tmp_path) as (address, recording):
        options = DehazeOptions(end=8.0, record=str(tmp_path / "rec.mkv"), audio="none")
        report = dehaze_stream(f"{address}/camera", f"{address}/sink", tiny_model, options=options)
        time.sleep(0.5)
        frames, _ = contents(recording)
    assert len(frames) > 20
    assert report.live.camera_latency_ms is not None
    assert 0 < report.live.camera_latency_ms.p50 < 5000
    assert len(read_all(tmp_path / "rec.mkv")[0]) >= report.frames


def test_a_server_that_goes_away_and_comes_back(tmp_path, tiny_model, monkeypatch):
    monkeypatch.setattr(live_output, "FIRST_PAUSE", 0.2)
    server = Nginx(tmp_path)
    server.start()
    clip = write_clip(tmp_path / "in.ts", Clip(width=64, height=48, frames=25 * 9, still=True, options=(("g", "25"),)))
    away = threading.Timer(3.0, lambda: (server.stop(), time.sleep(1.5), server.start()))
    away.start()
    try:
        report = dehaze_stream(clip, server.address, tiny_model)
    finally:
        away.join()
        server.stop()
    assert report.live.reconnections == 1
    assert report.live.unsent > 5  # more than a second without a server
    parts = [contents(path)[0] for path in server.recordings]
    assert len(parts) == 2
    assert min(len(part) for part in parts) > 5
    assert "came back 1 times" in " ".join(report.warnings)


def test_a_server_that_takes_nothing(tmp_path, tiny_model, clip, monkeypatch):
    """It accepts the connection and is silent: nothing piles up, nothing hangs, and the recording is whole."""
    monkeypatch.setattr(live_connection, "STALL_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"rtmp://127.0.0.1:{server.getsockname()[1]}/live/fog"
        with pytest.raises(OutputError, match="takes nothing"):
            dehaze_stream(clip, address, tiny_model)
        options = DehazeOptions(record=str(tmp_path / "rec.mkv"))
        report = dehaze_stream(clip, address, tiny_model, options=options)
    assert "takes nothing" in report.partial
    assert report.frames == 0
    assert len(contents(tmp_path / "rec.mkv")[0]) + report.live.late == CLIP.frames


def test_nobody_there(tiny_model, clip):
    with pytest.raises(OutputError, match=r"cannot be reached \(Connection refused\)"):
        dehaze_stream(clip, f"rtmp://127.0.0.1:{free_port()}/live/fog", tiny_model)


def test_a_playlist_ends_and_keeps_no_more_than_it_shows(tmp_path, tiny_model, clip):
    report = dehaze_stream(clip, str(tmp_path / "fog.m3u8"), tiny_model)
    text = (tmp_path / "fog.m3u8").read_text()
    assert text.rstrip().endswith("#EXT-X-ENDLIST")
    pieces = [line for line in text.splitlines() if line.endswith(".ts")]
    assert sorted(path.name for path in tmp_path.glob("*.ts")) == pieces
    frames = sum(len(contents(tmp_path / piece)[0]) for piece in pieces)
    check_live(report, list(range(frames)), least=10)
    assert frames == report.frames


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopping_ends_a_live_video_well(tmp_path, tiny_checkpoint, number):
    clip = write_clip(tmp_path / "in.ts", Clip(width=64, height=48, frames=25 * 60, still=True, options=(("g", "25"),)))
    address = f"rtmp://127.0.0.1:{free_port()}/live/fog"
    server = Listener(["-listen", "1", "-f", "flv", "-i", address], tmp_path / "got.mkv")
    words = ["dehaze", clip, "-o", address, "--model", tiny_checkpoint, "--device", "cpu", "--json"]
    process = subprocess.Popen(python_program(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 40
    while time.monotonic() < end and not (server.target.exists() and server.target.stat().st_size > 2000):
        time.sleep(0.1)
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    result = json.loads(out)["results"][0]
    frames, _ = contents(server.end())
    assert 0 < len(frames) <= result["frames"] < 25 * 60
    assert result["live"]["latency_ms"]["p50"] > 0

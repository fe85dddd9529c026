"""Recordings: in parts, timed, and from network sources that are lost and come back."""

import http.server
import threading
import time
from fractions import Fraction
from itertools import pairwise

import av
import pytest

from clips import Clip, read_all, write_clip
from libranet.engine import DehazeOptions, dehaze_video, stream
from libranet.engine.stream import dehaze_stream
from libranet.errors import InputError
from libranet.video import reconnect

CLIP = Clip(frames=75, audio=("aac",), options=(("qp", "0"),))


class Camera:
    """An HTTP server that gives each connection its own answer: bytes, or nothing."""

    def __init__(self, answers: list[bytes | None]) -> None:
        served = iter(answers)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer = next(served, None)
                if answer is None:
                    self.send_error(503)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}/live.ts"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def source(tmp_path):
    return write_clip(tmp_path / "in.ts", CLIP)


@pytest.fixture
def camera(monkeypatch):
    monkeypatch.setattr(stream, "LIVE_DELAY", 1e9)  # a busy machine drops no frame
    cameras = []

    def start(*answers: bytes | None) -> str:
        cameras.append(Camera(list(answers)))
        return cameras[-1].address

    yield start
    for each in cameras:
        each.close()


def sound_packets(path) -> list[bytes]:
    with av.open(str(path)) as container:
        return [bytes(packet) for packet in container.demux(audio=0) if packet.size]


@pytest.mark.parametrize("name", ["record.mkv", "record_%02d.mkv"])
def test_parts_hold_every_frame_and_packet_once(tmp_path, tiny_model, source, name):
    options = DehazeOptions(live=True, segment_time=1.0, crf=0, strength=0.0)
    report = dehaze_stream(source, tmp_path / name, tiny_model, options=options)
    files = sorted(tmp_path.glob("record*.mkv"))
    assert [str(path) for path in files] == list(report.files)
    assert files[0].name == {"record.mkv": "record-0001.mkv"}.get(name, "record_01.mkv")
    assert (len(files), report.frames, report.partial) == (3, 75, "")
    parts = [read_all(path) for path in files]
    assert [len(times) for times, _ in parts] == [25, 25, 25]
    assert all(times[0] < Fraction(1, 10) for times, _ in parts)  # each begins at zero, or behind its sound's start
    before = read_all(source)[1]
    after = [frame for _, frames in parts for frame in frames]
    assert all((a == b).all() for x, y in zip(before, after, strict=True) for a, b in zip(x, y, strict=True))
    adts = 7  # bytes before each packet of AAC that only a transport stream has
    assert [data for path in files for data in sound_packets(path)] == [data[adts:] for data in sound_packets(source)]


def test_a_recording_that_is_started_again_goes_on_counting(tmp_path, tiny_model, source):
    (tmp_path / "record-0001.mkv").write_text("precious")
    options = DehazeOptions(live=True, segment_time=2.0)
    report = dehaze_stream(source, tmp_path / "record.mkv", tiny_model, options=options)
    assert [path[-8:] for path in report.files] == ["0002.mkv", "0003.mkv"]
    assert (tmp_path / "record-0001.mkv").read_text() == "precious"


def test_a_failed_part_leaves_the_others(tmp_path, tiny_model, source):
    def stop(step) -> None:
        if step.frames == 40:
            raise OSError("power cut")

    options = DehazeOptions(live=True, segment_time=1.0)
    with pytest.raises(OSError, match="power cut"):
        dehaze_stream(source, tmp_path / "record.mkv", tiny_model, options=options, progress=stop)
    assert [path.name for path in tmp_path.iterdir() if "record" in path.name] == ["record-0001.mkv"]
    assert len(read_all(tmp_path / "record-0001.mkv")[0]) == 25


def test_a_timed_recording(tmp_path, tiny_model, source, camera):
    address = camera(source.read_bytes())
    options = DehazeOptions(live=True, end=1.2)
    report = dehaze_stream(address, tmp_path / "out.mkv", tiny_model, options=options)
    assert 29 <= report.frames <= 31  # the sound begins a little earlier
    with av.open(str(tmp_path / "out.mkv")) as container:
        assert container.duration / av.time_base == pytest.approx(1.2, abs=0.1)


def test_a_lost_source_comes_back(tmp_path, tiny_model, source, camera, monkeypatch):
    monkeypatch.setattr(reconnect, "PAUSE", 0.2)
    data = source.read_bytes()
    address = camera(data[: len(data) // 2 // 188 * 188], None, None, data)
    options = DehazeOptions(live=True, reconnect=3.0, crf=0, strength=0.0)
    begin = time.monotonic()
    report = dehaze_stream(address, tmp_path / "out.mkv", tiny_model, options=options)
    took = time.monotonic() - begin
    times, _ = read_all(tmp_path / "out.mkv")
    assert report.frames == len(times) > 75 + 30
    gaps = [b - a for a, b in pairwise(times)]
    assert min(gaps) > 0
    pause = max(gaps)
    assert Fraction(3, 10) < pause < took  # two refusals, 0.2 s each, in the recording's own clock
    lost = [warning for warning in report.warnings if "lost" in warning or "come back" in warning]
    assert lost[0].startswith("the source was lost for")
    assert lost[1] == "the source ended, and did not come back within 3 s"
    with av.open(str(tmp_path / "out.mkv")) as container:
        sound = [packet.pts for packet in container.demux(audio=0) if packet.size]
    assert sound == sorted(sound)


def test_a_source_that_comes_back_as_another_ends_the_recording(tmp_path, tiny_model, source, camera, monkeypatch):
    monkeypatch.setattr(reconnect, "PAUSE", 0.1)
    other = write_clip(tmp_path / "other.ts", Clip(codec="mpeg2video", time_base=Fraction(1, 25), frames=9))
    address = camera(source.read_bytes(), other.read_bytes())
    report = dehaze_stream(address, tmp_path / "out.mkv", tiny_model, options=DehazeOptions(live=True, reconnect=1.0))
    assert report.frames == 75
    assert "came back with another video" in report.partial


def test_refusals(tmp_path, tiny_model, source):
    with pytest.raises(InputError, match="for network sources"):
        dehaze_stream(source, tmp_path / "out.mkv", tiny_model, options=DehazeOptions(live=True, reconnect=5))
    with pytest.raises(InputError, match="at least 1 second"):
        DehazeOptions(segment_time=0.5)
    options = DehazeOptions(live=True, two_pass=True, bitrate=10**6)
    with pytest.raises(InputError, match="leave out two_pass"):
        dehaze_stream(source, tmp_path / "out.mkv", tiny_model, options=options)
    assert [path.name for path in tmp_path.iterdir()] == ["in.ts"]


def test_chapters_and_clock_of_an_address(tmp_path, tiny_model, camera):
    source = write_clip(tmp_path / "in.mkv", Clip(frames=20, first=25_600, chapters=2, audio=("aac",)))
    address = camera(*[source.read_bytes()] * 3)
    report = dehaze_video(address, tmp_path / "out.mkv", model=tiny_model, device="cpu")
    assert (report.partial, report.copied_streams) == ("", 1)
    assert read_all(tmp_path / "out.mkv")[0] == read_all(source)[0]
    with av.open(str(source)) as before, av.open(str(tmp_path / "out.mkv")) as after:
        facts = [[(c["start"] * c["time_base"], c["metadata"]) for c in f.chapters()] for f in (before, after)]
    assert facts[0] == facts[1]
    assert len(facts[0]) == 2

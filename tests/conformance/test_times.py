"""Hard clocks at strength 0, judged by Debian's ffprobe: frames, times and their distance to the sound are kept."""

import functools
import http.server
import subprocess
import threading

import pytest
from conformance_sources import FFMPEG, FFPROBE
from time_sources import CUT, MAKERS, MKVMERGE, NEEDS_MKVMERGE, make_timed

from libranet.engine import DehazeOptions, dehaze_video

pytestmark = pytest.mark.skipif(
    not (FFMPEG and FFPROBE), reason="Debian's ffmpeg is not installed: `make test` as root, or apt-get install ffmpeg"
)
SUFFIXES = (".mp4", ".mkv", ".ts", ".avi")
FIRST = dict(zip(MAKERS, (SUFFIXES[number % 4] for number in range(len(MAKERS))), strict=True))
"""The container that each source goes into on every day; the others have their turn at night."""
JOINED = {"ts-twice": 1, "ts-back": 1, "ts-ahead": 1, "ts-thrice-silent": 2, "hls-joined": 3, "hls-joined-lost": 2}
"""Sources whose own clock jumps so many times."""
LOST = {
    "hls-middle": 1, "hls-end": 1, "hls-two": 2, "hls-silent": 1, "hls-fmp4": 1, "hls-page": 1, "hls-fmp4-page": 1,
    "hls-gap": 1, "hls-joined-lost": 1, "hls-bframes-middle": 1,
}  # fmt: skip
"""Files that a playlist names and nobody finds."""
STEP = {".mp4": 0.0011, ".mkv": 0.0011, ".ts": 0.0011, ".avi": 0.021}
PACKET = 0.05
"""Seconds: a packet of sound, which containers without edit lists cannot cut."""


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Every source, once."""
    folder = tmp_path_factory.mktemp("timed")

    @functools.cache
    def make(name):
        if name in NEEDS_MKVMERGE and MKVMERGE is None:
            pytest.skip("mkvtoolnix is not installed: apt-get install mkvtoolnix")
        return make_timed(name, folder)

    return make


def shown(path):
    """Times of all frames in seconds, in order."""
    return sorted(time for time, _ in _frames(path, "V:0", "best_effort_timestamp_time"))


def heard(path):
    """Time of the first sample and the length of all samples, in seconds, or None."""
    frames = [frame for frame in _frames(path, "a:0", "best_effort_timestamp_time,nb_samples") if frame[1]]
    rate = _ask(path, "a:0", "stream=sample_rate").split(",")[0].strip()
    if not frames:
        return None
    return min(time for time, _ in frames), sum(int(samples) for _, samples in frames) / int(rate.splitlines()[0])


def _frames(path, stream, entries):
    rows = [line.strip(",").split(",") for line in _ask(path, stream, f"frame={entries}").splitlines() if line.strip()]
    frames = []
    for row in rows:  # the last frame of a program stream may have no time: it follows the one before
        time = frames[-1][0] + 0.04 if row[0] == "N/A" and frames else row[0]
        if time != "N/A":
            frames.append((float(time), row[1] if len(row) > 1 and row[1].isdigit() else 0))
    return frames


def _ask(path, stream, entries):
    command = [str(FFPROBE), "-v", "quiet", "-select_streams", stream, "-show_entries", entries, "-of", "csv=p=0"]
    return subprocess.run([*command, str(path)], capture_output=True, text=True, timeout=60, check=False).stdout


def dehaze(source, output, network):
    return dehaze_video(source, output, model=network, options=DehazeOptions(strength=0.0, crf=0), device="cpu")


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        pytest.param(name, suffix, marks=() if FIRST[name] == suffix else (pytest.mark.slow,), id=f"{name}{suffix}")
        for name in MAKERS
        for suffix in SUFFIXES
    ],
)
def test_frames_times_and_sound(name, suffix, made, tmp_path, tiny_model):
    source, output = made(name), tmp_path / f"out{suffix}"
    report = dehaze(source, output, tiny_model)
    said = " ".join((report.partial, *report.warnings))
    before, after = shown(source), shown(output)
    assert len(after) == len(before) == report.frames
    if name in LOST:
        total = 4
        gap = f"the playlist itself calls {LOST[name]} of {total} files missing"
        found = gap if name == "hls-gap" else f"{LOST[name]} of {total} files of the playlist cannot be read"
        assert found in report.partial
    else:
        assert report.partial == "" or (suffix == ".avi" and "against the frames" in report.partial)
    if name in JOINED:
        assert f"jumps in {JOINED[name]} place" in said
        assert after[-1] - after[0] < 1.3 * len(after) / 25  # without a gap
    else:
        assert "jumps" not in said
        moved = max(abs((b - after[0]) - (a - before[0])) for a, b in zip(before, after, strict=True))
        assert moved <= STEP[suffix], f"frames moved by {moved:.3f} s"
    if suffix != ".ts" and source.suffix in (".ts", ".m2ts", ".mpg", ".m3u8"):
        assert 0 <= after[0] < 1  # a broadcast begins at any hour, a file does not
    _check_sound(source, output, before, after, suffix=suffix, said=said, joined=name in JOINED)


@pytest.mark.parametrize(
    ("name", "file"), [("hls-cut", "s1.ts"), ("hls-cut-silent", "s2.ts"), ("hls-cut-end", "s3.ts")]
)
def test_files_of_a_playlist_that_are_cut_short(name, file, tmp_path, tiny_model):
    source = CUT[name](tmp_path)
    report = dehaze(source, tmp_path / "out.mkv", tiny_model)
    missing = 40 - len(shown(source))
    assert 1 <= missing <= 6
    assert report.frames == 40 - missing
    assert f"{missing} frames are missing at the ends of 1 of 4 files ({file})" in report.partial


def _check_sound(source, output, before, after, *, suffix, said, joined):
    wanted, found = heard(source), heard(output)
    assert "cannot be heard" not in said
    if wanted is None or "is left out" in said:
        return
    assert found is not None, "the sound is gone"
    slack = PACKET * (3 if suffix == ".avi" or joined else 1)
    cut = max(0.0, before[0] - wanted[0]) if suffix == ".avi" else 0.0  # AVI begins with the first frame
    assert abs(found[1] - (wanted[1] - cut)) <= slack, f"{found[1]:.3f} s of sound instead of {wanted[1]:.3f} s"
    distance = (wanted[0] + cut - before[0]) - (found[0] - after[0])
    if not joined and "against the frames" not in said:
        assert abs(distance) <= slack, f"the sound moved by {distance:.3f} s"


class _Ranges(http.server.BaseHTTPRequestHandler):
    """A server as most are: HTTP/1.1, and any part of a file."""

    protocol_version = "HTTP/1.1"
    root = None

    def log_message(self, *_):
        pass

    def do_GET(self):
        file = self.root / self.path.lstrip("/")
        data = file.read_bytes() if file.is_file() else None
        first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
        if data is None or int(first) >= len(data):
            self.send_response(404 if data is None else 416)
            body = b""
        else:
            end = min(int(last or len(data) - 1), len(data) - 1)
            body = data[int(first) : end + 1]
            self.send_response(206 if "Range" in self.headers else 200)
            self.send_header("Content-Range", f"bytes {first}-{end}/{len(data)}")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True


@pytest.fixture
def served(made):
    """The address of a source on a server of this machine."""
    servers = []

    def serve(name):
        source = made(name)
        handler = type("Handler", (_Ranges,), {"root": source.parent})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return source, f"http://127.0.0.1:{server.server_port}/{source.name}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("name", ["mp4-bframes", "mp4-hidden", "ts-40000", "hls-middle", "mkv-start", "sound-longer"])
@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
def test_nothing_is_lost_over_http(name, suffix, served, tmp_path, tiny_model):
    """FFmpeg 8 loses the first packet behind a seek where it makes a connection for each request."""
    source, address = served(name)
    output, local = tmp_path / f"out{suffix}", tmp_path / f"local{suffix}"
    report = dehaze(address, output, tiny_model)
    dehaze(source, local, tiny_model)
    assert report.frames == len(shown(output)) == len(shown(source))
    assert shown(output) == pytest.approx(shown(local), abs=0.0011)
    assert heard(output) == pytest.approx(heard(local), abs=0.0011)
    assert ("cannot be read" in report.partial) == (name in LOST)


def test_the_suite_is_large_enough():
    assert len(MAKERS) >= 50

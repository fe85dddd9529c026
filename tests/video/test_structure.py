"""The chain of a file's parts: whole in every whole file, broken where something was lost."""

import random
import subprocess
from pathlib import Path

import av
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clips import Clip, write_clip
from libranet.video.structure import find_breaks

SOURCES = {
    "a.mkv": Clip(frames=30, audio=("aac",), options=(("g", "5"), ("crf", "10"))),
    "a.webm": Clip(codec="libvpx-vp9", audio=("libopus",)),
    "subtitles.mkv": Clip(subtitles="subrip", chapters=2, attachment=True),
    "variable.mkv": Clip(frames=20, variable=True),
    "a.mp4": Clip(audio=("aac",)),
    "variable.mov": Clip(variable=True, first=5000),
    "a.ts": Clip(frames=20, audio=("aac",)),
    "a.m2ts": Clip(frames=20),
    "a.flv": Clip(audio=("aac",)),
    "a.avi": Clip(audio=("libmp3lame",)),
    "a.mxf": Clip(codec="mpeg2video", time_base=1 / Clip.rate),
    "a.gif": Clip(codec="gif", pixel_format="rgb8"),
    "a.y4m": Clip(codec="rawvideo"),
    "deep.y4m": Clip(codec="rawvideo", pixel_format="yuv422p10le", width=66),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("structure")
    return {name: _write(folder / name, clip) for name, clip in SOURCES.items()}


def _write(path: Path, clip: Clip) -> Path:
    if path.suffix != ".gif" and "p10" not in clip.pixel_format:
        return write_clip(path, clip)
    command = ["-f", "lavfi", "-i", f"testsrc2=s={clip.width}x{clip.height}:d=0.3"]
    command += [] if path.suffix == ".gif" else ["-strict", "-1", "-pix_fmt", clip.pixel_format]
    subprocess.run(["ffmpeg", "-v", "error", "-y", *command, str(path)], check=True)
    return path


def sentence(path: Path, *, joins: int = 0) -> str:
    with av.open(str(path)) as container:
        streams = [stream.id for stream in container.streams if stream.type in ("video", "audio")]
        name = container.format.name
    return find_breaks(path, name, streams, joins=joins).sentence()


@pytest.mark.parametrize("name", SOURCES)
def test_a_whole_file_has_no_breaks(files, name):
    assert sentence(files[name]) == ""


@pytest.mark.parametrize("name", [name for name in SOURCES if not name.endswith((".mov", ".mp4", ".gif"))])
def test_a_missing_piece_and_a_cut_are_found(files, name, tmp_path):
    data, generator = files[name].read_bytes(), random.Random(0)
    damaged = tmp_path / name
    # The headers are FFmpeg's business: it refuses to open a file without them.
    head, longest = len(data) // 2, min(1300, len(data) // 4)
    for _ in range(10):
        at = generator.randrange(head, len(data) - longest)
        damaged.write_bytes(data[:at] + data[at + generator.randrange(200, longest) :])
        assert find_breaks(damaged, *_format(files[name])), at
        damaged.write_bytes(data[: generator.randrange(head, len(data) - 200) // 188 * 188 + 7])
        assert find_breaks(damaged, *_format(files[name]))


def _format(path: Path) -> tuple[str, list[int]]:
    with av.open(str(path)) as container:
        return container.format.name, [stream.id for stream in container.streams]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 1 << 30), byte=st.integers(0, 255))
def test_no_byte_of_any_value_stops_the_walk(files, tmp_path, at, byte):
    for name in ("a.mkv", "a.ts", "a.avi", "a.mxf", "a.flv", "a.gif", "a.mp4"):
        data = bytearray(files[name].read_bytes())
        data[at % len(data)] = byte
        (tmp_path / name).write_bytes(data)
        find_breaks(tmp_path / name, *_format(files[name]))


def test_recordings_that_were_joined_are_whole(tmp_path):
    first = write_clip(tmp_path / "a.ts", Clip(frames=20, audio=("aac",)))
    second = write_clip(tmp_path / "b.ts", Clip(frames=33, audio=("aac",), first=90_000))
    joined = tmp_path / "joined.ts"
    joined.write_bytes(first.read_bytes() + second.read_bytes() + first.read_bytes())
    assert sentence(joined) == ""


def test_packets_of_a_transport_stream_that_are_missing(tmp_path):
    data = write_clip(tmp_path / "a.ts", Clip(frames=20)).read_bytes()
    packets = [data[at : at + 188] for at in range(0, len(data), 188)]
    (tmp_path / "b.ts").write_bytes(b"".join(packets[:40] + packets[45:]))
    assert "transport stream" in sentence(tmp_path / "b.ts")
    (tmp_path / "c.ts").write_bytes(b"".join([*packets[:40], packets[39], *packets[40:]]))  # sent twice: allowed
    assert sentence(tmp_path / "c.ts") == ""


def test_a_live_recording_without_sizes_is_whole(tmp_path):
    command = "-v error -f lavfi -i testsrc2=s=64x48:d=3 -c:v libx264 -g 10 -f matroska -live 1 -cluster_time_limit 200"
    path = tmp_path / "live.mkv"
    with path.open("wb") as file:
        subprocess.run(["ffmpeg", *command.split(), "pipe:1"], check=True, stdout=file)
    assert sentence(path) == ""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + data[len(data) // 2 + 700 :])
    assert "belong to no part" in sentence(path)


@pytest.mark.parametrize("name", ["a.mkv", "a.ts", "a.avi", "a.mp4", "a.flv"])
def test_zeros_at_the_end_are_no_loss(files, name, tmp_path):
    (tmp_path / name).write_bytes(files[name].read_bytes() + bytes(5000))
    assert sentence(tmp_path / name) == ""


def test_a_block_of_no_track(files, tmp_path):
    data = bytearray(files["a.mkv"].read_bytes())
    with av.open(str(files["a.mkv"])) as container:
        packet = [packet for packet in container.demux(video=0) if packet.size][3]
    at = data.index(bytes(packet)) - 4  # track, two bytes of time, flags
    assert data[at] == 0x81
    data[at] = 0x8E
    (tmp_path / "a.mkv").write_bytes(data)
    assert sentence(tmp_path / "a.mkv") == "1 packets of the file belong to no stream"

"""The chain of a file's parts: whole in every whole file, broken where something was lost."""

import io
import random
import time
from fractions import Fraction
from functools import cache
from pathlib import Path

import av
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clips import Clip, textured_frame, write_clip
from libranet.video.reader import open_video
from libranet.video.structure import breaks, find_breaks
from libranet.video.structure.riff import walk_riff

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
    "a.gif": Clip(),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("structure")
    return {name: _write(folder / name, clip) for name, clip in SOURCES.items()}


def _write(path: Path, clip: Clip) -> Path:
    if path.suffix == ".gif":
        return _encode(path, "gif", "rgb8", {})
    return write_clip(path, clip)


def _encode(path: Path, codec: str, pixel_format: str, options: dict[str, str], *, width: int = 64) -> Path:
    """Write 50 frames with options of the container."""
    name = "matroska" if path.suffix == ".mkv" else None
    with av.open(str(path), "w", format=name, container_options=options) as container:
        stream = container.add_stream(codec, rate=25)
        stream.width, stream.height, stream.pix_fmt = width, 48, pixel_format
        stream.codec_context.gop_size = 10
        for index in range(50):
            frame = textured_frame("gbrp", width, 48, index).reformat(format=pixel_format)
            frame.pts, frame.time_base = index, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
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


@cache
def _format(path: Path) -> tuple[str, list[int]]:
    with av.open(str(path)) as container:
        return container.format.name, [stream.id for stream in container.streams]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
    assert "pieces of a stream are missing" in sentence(tmp_path / "b.ts")
    (tmp_path / "c.ts").write_bytes(b"".join([*packets[:40], packets[39], *packets[40:]]))  # sent twice: allowed
    assert sentence(tmp_path / "c.ts") == ""


def test_sound_of_a_transport_stream_that_is_missing(tmp_path):
    """FFmpeg marks packets of the video that lack a piece, but not those of sound."""
    data = write_clip(tmp_path / "a.ts", Clip(frames=50, still=True, audio=("aac",))).read_bytes()
    packets = [data[at : at + 188] for at in range(0, len(data), 188)]
    of_sound = [n for n, packet in enumerate(packets) if packet[1] & 0x1F == 1 and packet[2] == 1]
    (tmp_path / "b.ts").write_bytes(b"".join(packet for n, packet in enumerate(packets) if n not in of_sound[10:12]))
    with av.open(str(tmp_path / "b.ts")) as container:
        assert not any(packet.is_corrupt for packet in container.demux())
    with open_video(tmp_path / "b.ts") as reader:
        assert len(list(reader.frames())) == 50
        assert reader.damage.sentence() == "pieces of a stream are missing in 1 places"


def test_a_transport_stream_that_is_cut_between_two_packets(tmp_path):
    """FFmpeg says so in its log alone: sound tells how long a piece of it is."""
    data = write_clip(tmp_path / "a.ts", Clip(frames=50, still=True, audio=("aac",))).read_bytes()
    packets = [data[at : at + 188] for at in range(0, len(data), 188)]
    begins = [n for n, packet in enumerate(packets) if packet[1] & 0x5F == 0x41 and packet[2] == 1]
    long = next(n for n in begins[len(begins) // 2 :] if packets[n + 1][1] & 0x5F == 0x01 and packets[n + 1][2] == 1)
    (tmp_path / "b.ts").write_bytes(b"".join(packets[: long + 1]))
    assert sentence(tmp_path / "b.ts") == "the file ends in the middle of a part"
    (tmp_path / "c.ts").write_bytes(b"".join(packets[:long]))  # all that began is whole
    assert sentence(tmp_path / "c.ts") == ""


def test_data_of_a_fragment_without_its_header(tmp_path):
    """FFmpeg plays the other fragments."""
    path = _encode(tmp_path / "a.mp4", "libx264", "yuv420p", {"movflags": "frag_keyframe+empty_moov"})
    data, places = path.read_bytes(), []
    while (at := data.find(b"moof", places[-1] + 8 if places else 0)) >= 0:
        places.append(at - 4)
    assert len(places) >= 3
    assert sentence(path) == ""
    size = int.from_bytes(data[places[1] : places[1] + 4], "big")
    path.write_bytes(data[: places[1]] + data[places[1] + size :])
    assert "missing or contradict" in sentence(path)


def test_a_live_recording_without_sizes_is_whole(tmp_path):
    path = _encode(tmp_path / "live.mkv", "libx264", "yuv420p", {"live": "1", "cluster_time_limit": "200"})
    assert sentence(path) == ""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + data[len(data) // 2 + 700 :])
    assert "belong to no part" in sentence(path)


@pytest.mark.parametrize("name", [b"mov\0", b"misc"])
def test_an_avi_whose_list_of_frames_lost_its_name(files, tmp_path, name):
    (tmp_path / "a.avi").write_bytes(files["a.avi"].read_bytes().replace(b"movi", name, 1))
    found = breaks.Breaks()
    with breaks.FileBytes(tmp_path / "a.avi") as file:
        walk_riff(file, found)
    assert "belong to no part" in found.sentence()


@pytest.mark.parametrize("name", ["a.mkv", "a.ts", "a.avi", "a.mp4", "a.flv"])
def test_zeros_at_the_end_are_no_loss(files, name, tmp_path):
    (tmp_path / name).write_bytes(files[name].read_bytes() + bytes(5000))
    assert sentence(tmp_path / name) == ""


def test_a_file_of_endless_empty_parts_is_left_after_a_while(files, tmp_path, monkeypatch):
    monkeypatch.setattr(breaks, "_MOST_READS", 10_000)
    data = files["a.mkv"].read_bytes()
    at = data.index(b"\x1f\x43\xb6\x75")
    (tmp_path / "a.mkv").write_bytes(data[:at] + b"\xec\x80" * 50_000 + data[at:])
    begin = time.monotonic()
    find_breaks(tmp_path / "a.mkv", "matroska,webm")
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("ident", [0xBF, 0xE7, 0xAF])
def test_a_block_whose_name_became_that_of_a_number(files, tmp_path, ident):
    """One byte makes a block a checksum, a timestamp or an encrypted block, which readers pass over."""
    data = bytearray(files["a.mkv"].read_bytes())
    with av.open(str(files["a.mkv"])) as container:
        packet = [packet for packet in container.demux(video=0) if packet.size][3]
    at = data.rindex(b"\xa3", 0, data.index(bytes(packet)))
    assert data.index(bytes(packet)) - at < 12
    data[at] = ident
    (tmp_path / "a.mkv").write_bytes(data)
    assert "belong to no" in sentence(tmp_path / "a.mkv") or "bytes" in sentence(tmp_path / "a.mkv")


def test_an_avi_that_was_cut_between_two_chunks(files, tmp_path):
    data = bytearray(files["a.avi"].read_bytes())
    at = data.rindex(b"00dc", 0, data.rindex(b"idx1"))
    (tmp_path / "a.avi").write_bytes(data[:at])
    assert "ends in the middle" in sentence(tmp_path / "a.avi")
    data[4:8] = bytes(4)  # a recorder that died never wrote its size
    (tmp_path / "a.avi").write_bytes(data[:at])
    assert sentence(tmp_path / "a.avi") == ""


def test_a_block_of_no_track(files, tmp_path):
    data = bytearray(files["a.mkv"].read_bytes())
    with av.open(str(files["a.mkv"])) as container:
        packet = [packet for packet in container.demux(video=0) if packet.size][3]
    at = data.index(bytes(packet)) - 4  # track, two bytes of time, flags
    assert data[at] == 0x81
    data[at] = 0x8E
    (tmp_path / "a.mkv").write_bytes(data)
    assert sentence(tmp_path / "a.mkv") == "1 packets of the file belong to no stream"


def test_samples_of_an_index_that_gave_no_packet(tmp_path):
    """One table of an mp4 file has fewer entries than the others."""
    data = bytearray(write_clip(tmp_path / "a.mp4", Clip(frames=12, options=(("bf", "0"),))).read_bytes())
    at = data.index(b"stsz") + 12
    assert int.from_bytes(data[at : at + 4], "big") == 12
    data[at : at + 4] = (5).to_bytes(4, "big")
    (tmp_path / "b.mp4").write_bytes(data)
    for name, damaged in (("a.mp4", False), ("b.mp4", True)):
        with open_video(tmp_path / name) as reader:
            frames = len(list(reader.frames()))
            assert (frames < 12) == damaged
            assert ("of the file's index" in reader.damage.broken) == damaged


def test_an_edit_list_is_no_loss(tmp_path):
    """Frames before the first shown one are in the file, but not in the video."""
    source = write_clip(tmp_path / "a.mp4", Clip(frames=30, options=(("g", "10"),)))
    with av.open(str(source)) as given, av.open(str(tmp_path / "b.mp4"), "w") as container:
        stream = container.add_stream_from_template(given.streams.video[0])
        for packet in given.demux(video=0):
            if packet.size:
                packet.pts, packet.dts = packet.pts - 12 * 512, packet.dts - 12 * 512
                packet.stream = stream
                container.mux(packet)
    with open_video(tmp_path / "b.mp4") as reader:
        assert len(list(reader.frames())) < 30
        assert not reader.damage, reader.damage


@pytest.mark.parametrize("time_base", [Fraction(1, 25), Fraction(1, 12800)])
def test_a_whole_avi_with_any_time_base_raises_no_alarm(tmp_path, time_base):
    with open_video(write_clip(tmp_path / "a.avi", Clip(frames=8, time_base=time_base))) as reader:
        assert len(list(reader.frames())) == 8
        assert not reader.damage, reader.damage


@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv422p10le"])
@pytest.mark.parametrize("as_file", [False, True])
def test_raw_frames_that_break_off(tmp_path, pixel_format, as_file):
    path = _encode(tmp_path / "a.y4m", "rawvideo", pixel_format, {"strict": "-1"}, width=66)
    data = path.read_bytes()
    size = 66 * 48 * 3 // 2 if pixel_format == "yuv420p" else 66 * 48 * 4
    for end, broken in ((len(data), False), (len(data) - 1, True), (len(data) - 1000, True), (len(data) - size, True)):
        path.write_bytes(data[:end])
        with open_video(path if as_file else io.BytesIO(data[:end])) as reader:
            assert len(list(reader.frames())) == 50 - broken
            assert ("ends in the middle of a frame" in reader.damage.broken) == broken
    path.write_bytes(data[: len(data) // 2] + data[len(data) // 2 + 700 :])
    with open_video(path) as reader:
        assert len(list(reader.frames())) < 50
        assert reader.damage


def test_blocks_are_counted_against_packets(files, tmp_path):
    for name in ("a.mkv", "a.webm", "subtitles.mkv", "variable.mkv"):
        with av.open(str(files[name])) as container:
            packets = [packet for packet in container.demux(video=0) if packet.size]
        assert find_breaks(files[name], "matroska,webm").video_packets == len(packets)
    # A wrong number in the header of the sound: FFmpeg gives up after some frames, and says nothing.
    clip = Clip(frames=8, width=64, height=32, audio=("flac",), subtitles="subrip", chapters=2, attachment=True)
    data = bytearray(write_clip(tmp_path / "a.mkv", clip).read_bytes())
    at = data.index(b"\xe1\x91\x9f") + 3
    data[at : at + 4] = b"\x80\0\0\0"
    (tmp_path / "a.mkv").write_bytes(data)
    with open_video(tmp_path / "a.mkv") as reader:
        frames = len(list(reader.frames()))
        assert frames < 8
        assert reader.damage.broken == f"{8 - frames} packets of the video could not be read"


def test_a_tag_of_flash_video_whose_second_size_is_wrong(files, tmp_path):
    data = bytearray(files["a.flv"].read_bytes())
    data[-3:] = b"\0\0\0"
    (tmp_path / "a.flv").write_bytes(data)
    assert sentence(tmp_path / "a.flv")
    (tmp_path / "a.flv").write_bytes(data[:-4])
    assert sentence(tmp_path / "a.flv") == "the file ends in the middle of a part"

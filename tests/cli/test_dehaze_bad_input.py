"""Whatever a user may give by mistake: one line that says what to do, no traceback, nothing destroyed."""

import os
import resource
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import av
import pytest

from clips import Clip, read_all, textured_frame, write_clip
from libranet.cli.main import main
from libranet.network import save_checkpoint


@pytest.fixture
def run(capsys, monkeypatch, tiny_model, tmp_path):
    save_checkpoint(tiny_model, tmp_path / "tiny.safetensors")

    def call(*arguments: object) -> tuple[int, str]:
        model = str(tmp_path / "tiny.safetensors")
        words = ["libranet", "dehaze", "--device", "cpu", "--model", model, *map(str, arguments)]
        monkeypatch.setattr("sys.argv", words)
        with pytest.raises(SystemExit) as stop:
            main()
        err = capsys.readouterr().err
        assert "Traceback" not in err
        return int(stop.value.code or 0), err

    return call


def one_line(err: str) -> str:
    lines = [line for line in err.splitlines() if line.strip()]
    assert len(lines) == 1, err
    return lines[0]


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_an_empty_file(run, tmp_path):
    (tmp_path / "in.mp4").touch()
    code, err = run(tmp_path / "in.mp4", "-o", tmp_path / "out.mp4")
    assert code == 2
    assert "empty (0 bytes)" in one_line(err)


def test_a_text_file_renamed(run, tmp_path):
    (tmp_path / "in.mp4").write_text("this is no video\n" * 100)
    code, err = run(tmp_path / "in.mp4", "-o", tmp_path / "out.mp4")
    assert code == 2
    assert "not a video that FFmpeg can read" in one_line(err)
    assert not (tmp_path / "out.mp4").exists()


def test_a_missing_file(run, tmp_path):
    code, err = run(tmp_path / "no.mp4", "-o", tmp_path / "out.mp4")
    assert code == 2
    assert "there is no file" in one_line(err)


def test_sound_without_video(run, tmp_path):
    with av.open(str(tmp_path / "in.mp4"), "w") as container:
        stream = container.add_stream("aac", rate=48000)
        stream.codec_context.layout = "mono"
        import numpy as np

        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.sample_rate, frame.pts = 48000, 0
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    code, err = run(tmp_path / "in.mp4", "-o", tmp_path / "out.mp4")
    assert code == 2
    assert "has no video stream (only audio streams)" in one_line(err)


def test_output_is_the_input(run, tmp_path):
    source = write_clip(tmp_path / "in.mp4", Clip())
    before = source.read_bytes()
    for options in ([], ["--overwrite"]):
        code, err = run(source, "-o", source, *options)
        assert code == 2
        assert "is the input itself" in one_line(err)
    assert source.read_bytes() == before


def test_an_existing_output_is_not_touched(run, tmp_path):
    source = write_clip(tmp_path / "in.mp4", Clip())
    (tmp_path / "out.mp4").write_text("precious")
    code, err = run(source, "-o", tmp_path / "out.mp4")
    assert code == 2
    assert "--overwrite" in one_line(err)
    assert (tmp_path / "out.mp4").read_text() == "precious"
    assert run(source, "-o", tmp_path / "out.mp4", "--overwrite")[0] == 0
    assert len(read_all(tmp_path / "out.mp4")[0]) == 5


def test_an_unwritable_target(run, tmp_path):
    source = write_clip(tmp_path / "in.mp4", Clip())
    (tmp_path / "file").touch()
    code, err = run(source, "-o", tmp_path / "file" / "out.mp4")
    assert code == 2
    assert "folder" in one_line(err)
    code, err = run(source, "-o", "/proc/out.mp4")
    assert code == 2
    assert "/proc" in one_line(err)


def test_a_truncated_file_gives_what_can_be_decoded(run, tmp_path):
    source = write_clip(tmp_path / "in.mkv", Clip(frames=60, codec="ffv1"))
    data = source.read_bytes()
    source.write_bytes(data[: len(data) // 2])
    code, err = run(source, "-o", tmp_path / "out.mkv")
    assert code == 3
    assert "partial" in err
    frames = len(read_all(tmp_path / "out.mkv")[0])
    assert 20 < frames < 40


def test_a_truncated_mp4(run, tmp_path):
    source = write_clip(tmp_path / "in.mp4", Clip(frames=60))
    data = source.read_bytes()
    source.write_bytes(data[: len(data) // 2])  # the index stands at the end
    code, err = run(source, "-o", tmp_path / "out.mp4")
    assert code == 2
    assert "index" in one_line(err)


def test_corrupt_packets_in_the_middle(run, tmp_path):
    source = write_clip(tmp_path / "in.mkv", Clip(frames=60, width=160, height=96, options=(("g", "10"),)))
    data = bytearray(source.read_bytes())
    with av.open(str(source)) as container:
        packets = [(packet.pos, packet.size) for packet in container.demux(video=0) if packet.size]
    for start, size in packets[20:30]:  # inside the packets, so that the container stays whole
        for place in range(start + size // 3, start + size // 2, 7):
            data[place] ^= 0xFF
    source.write_bytes(bytes(data))
    code, err = run(source, "-o", tmp_path / "out.mkv")
    assert code == 3
    assert "partial" in err
    assert len(read_all(tmp_path / "out.mkv")[0]) > 30


def test_a_part_of_the_container_that_is_lost(run, tmp_path):
    source = write_clip(tmp_path / "in.mkv", Clip(frames=60, width=160, height=96, options=(("g", "10"),)))
    cluster = b"\x1f\x43\xb6\x75"
    parts = source.read_bytes().split(cluster)
    assert len(parts) > 3
    source.write_bytes(cluster.join(parts[:2]) + b"\x00\x43\xb6\x75" + cluster.join(parts[2:]))
    code, err = run(source, "-o", tmp_path / "out.mkv")
    assert len(read_all(tmp_path / "out.mkv")[0]) < 60
    assert code == 3
    assert "damaged in one place" in err


def test_a_resolution_change(run, tmp_path):
    source = tmp_path / "in.ts"
    source.write_bytes(b"".join(_raw_h264(width, start) for width, start in ((64, 0), (96, 10))))
    source = source.rename(tmp_path / "in.h264")
    code, err = run(source, "-o", tmp_path / "out.mkv")
    assert code == 3
    assert "changes its frame size from 64x48 to 96x48" in err
    assert len(read_all(tmp_path / "out.mkv")[0]) == 10


def _raw_h264(width: int, start: int) -> bytes:
    context = av.CodecContext.create("libx264", "w")
    context.width, context.height, context.pix_fmt = width, 48, "yuv420p"
    context.framerate, context.time_base = Fraction(25), Fraction(1, 25)
    data = b""
    for index in range(10):
        frame = textured_frame("yuv420p", width, 48, index)
        frame.pts = start + index
        data += b"".join(bytes(packet) for packet in context.encode(frame))
    return data + b"".join(bytes(packet) for packet in context.encode(None))


def test_interlaced_video_is_refused_or_deinterlaced(run, tmp_path):
    source = write_clip(tmp_path / "in.mkv", Clip(options=(("x264-params", "interlaced=1:tff=1"),), frames=6))
    code, err = run(source, "-o", tmp_path / "out.mkv")
    assert code == 2
    assert "--deinterlace" in one_line(err)
    assert leftovers(tmp_path) == []
    assert run(source, "-o", tmp_path / "out.mkv", "--deinterlace")[0] == 0
    assert read_all(tmp_path / "out.mkv")[0] == read_all_times(source)


def test_interlaced_frames_after_progressive_ones_end_the_output_there(run, tmp_path):
    parts = [
        write_clip(tmp_path / name, Clip(options=options, frames=6)).read_bytes()
        for name, options in (("a.ts", ()), ("b.ts", (("x264-params", "interlaced=1:tff=1"),)))
    ]
    source = tmp_path / "in.ts"
    source.write_bytes(b"".join(parts))
    code, err = run(source, "-o", tmp_path / "out.mkv")
    assert code == 3
    assert "again with --deinterlace" in err
    assert len(read_all(tmp_path / "out.mkv")[0]) == 6
    assert run(source, "-o", tmp_path / "whole.mkv", "--deinterlace")[0] == 0
    assert len(read_all(tmp_path / "whole.mkv")[0]) == 12


def read_all_times(path: Path) -> list:
    with av.open(str(path)) as container:
        return [frame.pts * frame.time_base for frame in container.decode(video=0)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--strength", "1.6"], "strength from 0 to 1.5"),
        (["--start", "3", "--end", "2"], "end after the start"),
        (["--start", "99"], "no frame between"),
        (["--codec", "vp8"], "expected codec as h264, hevc"),
        (["--codec", "ffv1"], "cannot hold ffv1"),
        (["--crf", "99"], "crf from 0 to 63"),
        (["--compare", "diagonal"], "split or side"),
        (["--view", "x-ray"], "result, haze, removed or confidence"),
        (["--preset", "warp"], "refuses"),
        (["--device", "abacus"], "unknown device"),
        (["--device", "meta"], "unknown device"),
        (["--scale", "half"], "1280x720"),
        (["--two-pass"], "--bitrate"),
        (["--segment-time", "5"], "for recordings"),
        (["--reconnect", "5"], "for recordings"),
        (["--precision", "fp16"], "needs a GPU"),
        (["--preview", "0"], "at least 1 pair"),
        (["--encoder-option", "foo=1"], "no option foo"),
        (["--strength", "0:0.2,5:nan"], "at all key frames"),
        (["--mask", "nowhere.png"], "no file nowhere.png"),
        (["--codec", "dnxhd", "--pix-fmt", "yuv422p"], "cannot hold dnxhd"),
    ],
)
def test_impossible_options(run, tmp_path, options, message):
    source = write_clip(tmp_path / "in.mp4", Clip())
    code, err = run(source, "-o", tmp_path / "out.mp4", *options)
    assert code == 2
    assert message in one_line(err)
    assert not (tmp_path / "out.mp4").exists()
    assert leftovers(tmp_path) == []


def test_eight_bit_codec_for_ten_bit_video(run, tmp_path):
    source = write_clip(tmp_path / "in.mkv", Clip(codec="ffv1", pixel_format="yuv420p10le"))
    code, err = run(source, "-o", tmp_path / "out.webm", "--codec", "vp9")
    assert code == 2
    assert "--codec av1" in one_line(err)


FULL_DISK = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (30000, 30000))
from libranet.cli.main import main
main()
"""


def test_a_full_disk_stops_cleanly_and_resume_goes_on(tmp_path, tiny_model, run):
    """The limit on file sizes stands in for the full disk: the same refusal from the operating system."""
    assert resource.RLIMIT_FSIZE is not None
    save_checkpoint(tiny_model, tmp_path / "tiny.safetensors")
    source = write_clip(tmp_path / "in.mkv", Clip(codec="ffv1", frames=40, width=96, height=64))
    words = ["dehaze", source, "-o", tmp_path / "out.mkv", "--model", tmp_path / "tiny.safetensors"]
    words += ["--device", "cpu", "--segment-frames", "2", "-q"]
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 2, done.stderr
    assert "the disk is full" in one_line(done.stderr)
    assert "--resume" in done.stderr
    assert not (tmp_path / "out.mkv").exists()
    assert run(source, "-o", tmp_path / "out.mkv", "--segment-frames", "2", "--resume")[0] == 0
    assert len(read_all(tmp_path / "out.mkv")[0]) == 40


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounting a small disk needs root")
@pytest.mark.slow
def test_a_really_full_disk(tmp_path, run):
    source = write_clip(tmp_path / "in.mkv", Clip(codec="ffv1", frames=40, width=192, height=128))
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)], check=False)
    if mounted.returncode:
        pytest.skip("this machine does not let tests mount a disk")
    try:
        code, err = run(source, "-o", disk / "out.mkv")
        assert code == 2
        assert "the disk is full" in one_line(err)
        assert not (disk / "out.mkv").exists()
    finally:
        subprocess.run(["umount", str(disk)], check=True)

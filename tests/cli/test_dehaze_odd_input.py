"""Odd input that once gave a traceback or a wrong result, through the command line."""

import io
import json
import os
import re
import struct
import zlib
from fractions import Fraction

import av
import cv2
import numpy as np
import pytest
from rich.console import Console

from clips import Clip, read_all, write_clip
from libranet.cli import dehaze_run
from libranet.cli import main as cli
from libranet.cli.signals import Terminated
from libranet.engine import Progress
from libranet.images import Image, read_image, write_image
from libranet.network import LiBrANet, save_checkpoint

MS = Fraction(1, 1000)


@pytest.fixture
def run(tmp_path, tiny_model, monkeypatch, capsys):
    """`libranet dehaze ...` with a tiny network: exit code, output, errors."""
    model = tmp_path / "model" / "tiny.safetensors"
    model.parent.mkdir()
    save_checkpoint(tiny_model, model)

    def call(*words) -> tuple[int, str, str]:
        arguments = ["libranet", "dehaze", *map(str, words), "--model", str(model), "--device", "cpu"]
        monkeypatch.setattr("sys.argv", arguments)
        with pytest.raises(SystemExit) as stop:
            cli.main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return call


def png_header(path, width: int, height: int) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(999))) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)


def test_huge_images_are_refused_and_the_batch_goes_on(run, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    png_header(folder / "a.png", 65535, 65535)
    png_header(folder / "b.png", 20000, 20000)
    write_image(folder / "c.png", Image(np.full((48, 64, 3), 90, np.uint8)))
    code, _, err = run(folder, "-o", tmp_path / "out")
    assert code == 3
    assert err.count("million pixels") == 2
    assert (tmp_path / "out" / "c.png").exists()


def test_an_unexpected_error_is_a_sentence_and_the_batch_goes_on(run, tmp_path, monkeypatch):
    from libranet.engine import video

    real = video.make_plan

    def broken(reader, *args):
        if "bad" in reader.name:
            raise ZeroDivisionError("division by zero")
        return real(reader, *args)

    monkeypatch.setattr(video, "make_plan", broken)
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a.mkv", "bad.mkv", "z.mkv"):
        write_clip(folder / name, Clip(frames=2))
    code, out, err = run(folder, "-o", tmp_path / "out", "--json")
    assert code == 3
    assert "Traceback" not in err
    report = json.loads(out)
    assert ["error" in result for result in report["results"]] == [False, True, False]
    assert "unexpected ZeroDivisionError" in report["results"][1]["error"]
    assert "libranet -v" in report["results"][1]["error"]


@pytest.mark.parametrize(
    "error", [RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."), MemoryError()]
)
def test_too_little_memory_is_no_bug(run, tmp_path, monkeypatch, error):
    from libranet.engine import video

    def full(*_):
        raise error

    monkeypatch.setattr(video, "make_plan", full)
    code, _, err = run(write_clip(tmp_path / "in.mkv", Clip(frames=2)), "-o", tmp_path / "out.mkv")
    assert code == 2
    assert "not enough memory" in err
    assert "bug" not in err


def test_exif_in_an_image_sequence(run, tmp_path):
    exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x01\0\0\0\0\0\0\0"
    for number in range(3):
        _, data = cv2.imencode(".jpg", np.full((48, 64, 3), 50 * number, np.uint8))
        jpeg = data.tobytes()
        segment = b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif
        (tmp_path / f"e_{number}.jpg").write_bytes(jpeg[:2] + segment + jpeg[2:])
    code, _, err = run(tmp_path / "e_%d.jpg", "-o", tmp_path / "out.mkv")
    assert code == 0, err
    assert len(read_all(tmp_path / "out.mkv")[0]) == 3


@pytest.mark.parametrize("tag", ["soon", "1:2", "00:00:xx.5", "99:99:99:99"])
def test_an_odd_duration_tag(run, tmp_path, tag):
    source = tmp_path / "in.mkv"
    write_clip(source, Clip(frames=3, time_base=MS))
    data = source.read_bytes()
    at = data.index(b"00:00:00.")
    source.write_bytes(data[:at] + tag.ljust(18, "\0").encode() + data[at + 18 :])
    code, _, err = run(source, "-o", tmp_path / "out.mkv")
    assert code == 0, err


@pytest.mark.parametrize(
    "words", [("--start", "nan"), ("--end", "inf"), ("--start", "-1"), ("--strength", "nan"), ("--fps", "0")]
)
def test_numbers_that_are_none(run, tmp_path, words):
    source = write_clip(tmp_path / "in.mkv", Clip(frames=2))
    code, _, err = run(source, "-o", tmp_path / "out.mkv", *words)
    if words[0] != "--fps":
        assert code == 2
    assert "Traceback" not in err


def test_errors_are_json_where_asked(run, tmp_path):
    code, out, _ = run(tmp_path / "nowhere.mp4", "-o", tmp_path / "out.mp4", "--json")
    assert code == 2
    assert "no file" in json.loads(out)["error"]
    (tmp_path / "text.mp4").write_text("no video")
    code, out, _ = run(tmp_path / "text.mp4", "-o", tmp_path / "out.mp4", "--json")
    assert code == json.loads(out)["exit_code"] == 2
    assert "not a video" in json.loads(out)["results"][0]["error"]


@pytest.mark.parametrize(("error", "expected"), [(KeyboardInterrupt, 130), (Terminated, 143)])
def test_a_stopped_run_is_json_where_asked(run, tmp_path, monkeypatch, error, expected):
    folder = tmp_path / "in"
    folder.mkdir()
    write_image(folder / "a.png", Image(np.full((48, 64, 3), 90, np.uint8)))
    write_clip(folder / "b.mkv", Clip(frames=2))

    def stop(*_, **__):
        raise error

    monkeypatch.setattr("libranet.engine.jobs.dehaze_video", stop)
    code, out, err = run(folder, "-o", tmp_path / "out", "--json")
    report = json.loads(out)
    assert code == report["exit_code"] == expected
    assert [result.get("error") for result in report["results"]] == [None, "stopped"]
    assert "--resume" in err


def test_a_bug_before_the_first_job_is_json_where_asked(run, tmp_path, monkeypatch):
    source = write_clip(tmp_path / "in.mkv", Clip(frames=2))
    monkeypatch.setattr("libranet.engine.load_network", lambda *_, **__: 1 // 0)
    code, out, err = run(source, "-o", tmp_path / "out.mkv", "--json")
    assert (code, json.loads(out)["exit_code"]) == (1, 1)
    assert "ZeroDivisionError" in json.loads(out)["error"]
    assert "Traceback" not in err


def test_quiet_prints_no_notes(run, tmp_path):
    source = write_clip(tmp_path / "in.mkv", Clip(frames=3, audio=("flac",), time_base=MS))
    assert "note:" in run(source, "-o", tmp_path / "a.webm")[2]
    assert run(source, "-o", tmp_path / "b.webm", "-q") == (0, "", "")


def test_resume_and_skip_finished_on_a_batch(run, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a.mkv", "b.mkv"):
        write_clip(folder / name, Clip(frames=2))
    assert run(folder / "a.mkv", "-o", tmp_path / "out" / "a.mkv")[0] == 0
    before = (tmp_path / "out" / "a.mkv").stat().st_mtime_ns
    for option in ("--resume", "--skip-finished"):
        code, _, err = run(folder, "-o", tmp_path / "out", option)
        assert code == 0, err
        assert "finished before" in err
    assert (tmp_path / "out" / "a.mkv").stat().st_mtime_ns == before
    assert (tmp_path / "out" / "b.mkv").exists()


def test_the_input_as_an_address_is_still_the_input(run, tmp_path):
    source = write_clip(tmp_path / "in.mkv", Clip(frames=2))
    code, _, err = run(f"file://{source}", "-o", source, "--overwrite")
    assert code == 2
    assert "the input itself" in err


def test_start_counts_from_the_beginning_of_any_clock(run, tmp_path):
    source = write_clip(tmp_path / "in.ts", Clip(frames=20, first=64000, options=(("qp", "0"), ("bf", "0"))))
    with av.open(str(source)) as container:
        assert container.start_time > 0
    assert run(source, "-o", tmp_path / "out.mkv", "--start", "0:00.4", "--end", "0:00:00.6")[0] == 0
    times, frames = read_all(tmp_path / "out.mkv")
    assert len(frames) == 5
    assert times[0] == 0


def test_a_dry_run_writes_nothing(run, tmp_path):
    source = write_clip(tmp_path / "in.mkv", Clip(frames=3, audio=("flac",), time_base=MS))
    before = sorted(os.listdir(tmp_path))
    code, out, _ = run(source, "-o", tmp_path / "out.webm", "--dry-run")
    assert code == 0
    assert "audio stream 1 (flac) is left out" in out
    assert "vp9" in out
    code, out, _ = run(source, "-o", tmp_path / "out.webm", "--dry-run", "--json", "--audio", "opus")
    assert json.loads(out)["results"][0]["streams"][0]["action"] == "transcode"
    assert sorted(os.listdir(tmp_path)) == before
    assert run(source, "-o", tmp_path / "new" / "{stem}.mkv", "--dry-run")[0] == 0
    assert sorted(os.listdir(tmp_path)) == before


def test_templates_and_encoder_options(run, tmp_path):
    source = write_clip(tmp_path / "in.mkv", Clip(frames=3))
    words = ("--bitrate", "500k", "--encoder-option", "tune=film", "--pix-fmt", "yuv444p")
    assert run(source, "-o", tmp_path / "{stem}-clear.mp4", *words)[0] == 0
    with av.open(str(tmp_path / "in-clear.mp4")) as container:
        assert container.streams.video[0].codec_context.pix_fmt == "yuv444p"
    code, _, err = run(source, "-o", tmp_path / "x.mp4", "--encoder-option", "tune=nothing")
    assert code == 2
    assert "refuses" in err


@pytest.mark.parametrize("suffix", [".mpg", ".m2ts", ".gif", ".mxf"])
def test_more_outputs(run, tmp_path, suffix):
    source = write_clip(tmp_path / "in.mkv", Clip(frames=6, width=128, height=96))
    code, _, err = run(source, "-o", tmp_path / f"out{suffix}")
    assert code == 0, err
    assert len(read_all(tmp_path / f"out{suffix}")[0]) == 6


def test_a_preview_of_one_frame_and_of_more_moments_than_frames(run, tmp_path):
    source = write_clip(tmp_path / "in.mkv", Clip(frames=1, width=640, height=360))
    assert run(source, "-o", tmp_path / "sheet.png", "--preview", "4")[0] == 0
    assert read_image(tmp_path / "sheet.png").samples.shape[0] < 700  # one pair


def test_the_colour_profile_of_a_tiff_stays(run, tmp_path):
    from libranet.image_metadata import ImageMetadata

    profile = b"a colour profile of some bytes"
    write_image(tmp_path / "in.tif", Image(np.full((48, 64, 3), 90, np.uint8), ImageMetadata(profile=profile)))
    assert run(tmp_path / "in.tif", "-o", tmp_path / "out.tif")[0] == 0
    assert read_image(tmp_path / "out.tif").metadata.profile == profile
    assert read_image(tmp_path / "out.tif").samples.shape == (48, 64, 3)


def test_images_for_printing_and_linear_light_are_refused(run, tmp_path):
    _, data = cv2.imencode(".tif", np.full((48, 64, 3), 90, np.uint8))
    tag = struct.pack("<HHIH", 262, 3, 1, 2)
    assert data.tobytes().count(tag) == 1
    (tmp_path / "in.tif").write_bytes(data.tobytes().replace(tag, struct.pack("<HHIH", 262, 3, 1, 5)))
    code, _, err = run(tmp_path / "in.tif", "-o", tmp_path / "out.tif")
    assert code == 2
    assert "CMYK" in err
    encoder = av.CodecContext.create("exr", "w")
    encoder.width, encoder.height, encoder.pix_fmt, encoder.time_base = 64, 48, "gbrpf32le", MS
    frame = av.VideoFrame(64, 48, "gbrpf32le")
    frame.pts = 0
    (tmp_path / "in.exr").write_bytes(b"".join(bytes(p) for p in encoder.encode(frame) + encoder.encode(None)))
    code, _, err = run(tmp_path / "in.exr", "-o", tmp_path / "out.mkv")
    assert code == 2
    assert "linear light" in err


def test_a_subtitle_that_spans_the_cut_begins_with_it(run, tmp_path):
    source = write_clip(tmp_path / "in.mkv", Clip(frames=50, subtitles="subrip", time_base=MS))
    with av.open(str(source)) as container:
        given = [(p.pts, p.pts + p.duration) for p in container.demux(subtitles=0) if p.size]
    start, end = given[0]
    cut = (start + end) // 2
    assert run(source, "-o", tmp_path / "out.mkv", "--start", str(cut / 1000))[0] == 0
    with av.open(str(tmp_path / "out.mkv")) as container:
        kept = [(p.pts, p.pts + p.duration) for p in container.demux(subtitles=0) if p.size]
    assert len(kept) == len(given)
    assert kept[0][0] == 0
    assert abs(kept[0][1] - (end - cut)) <= 20  # the first frame after the cut becomes zero


def test_progress_without_a_terminal_is_lines(monkeypatch):
    console = Console(file=io.StringIO(), force_terminal=False)
    monkeypatch.setattr(dehaze_run, "LINE_SECONDS", 0.0)
    with dehaze_run.ProgressBar(console, shown=True) as bar:
        bar.begin("fog.mp4")
        bar.update(Progress(5, 20, 2.0, "network"))
        bar.update(Progress(20, 20, 0.0, "encode", "joining"))
    lines = "fog.mp4: 5/20 frames, 2.0 fps, about 8 s left\nfog.mp4: 20/20 frames, writing the file\n"
    assert console.file.getvalue() == lines


def test_a_long_run_is_announced_before_it_starts(run, tmp_path, monkeypatch):
    source = write_clip(tmp_path / "in.mkv", Clip(frames=4))
    assert "about" not in run(source, "-o", tmp_path / "a.mkv")[2]
    monkeypatch.setattr("libranet.engine.plan.LONG_RUN", 1)
    code, _, err = run(source, "-o", tmp_path / "b.mkv")
    assert code == 0
    assert re.match(r".*about 4 frames, 64x48 h264 yuv420p, on CPU, .*, about \d+ s$", err.split("\n")[0])
    _, out, _ = run(source, "-o", tmp_path / "c.mkv", "--dry-run", "--json")
    assert json.loads(out)["results"][0]["estimated_seconds"] >= 0


def test_a_preview_restores_only_what_it_shows(run, tmp_path, monkeypatch):
    restored = []
    forward = LiBrANet.forward
    monkeypatch.setattr(LiBrANet, "forward", lambda self, *a, **k: restored.append(1) or forward(self, *a, **k))
    source = write_clip(tmp_path / "in.mkv", Clip(frames=40))
    assert run(source, "-o", tmp_path / "sheet.png", "--preview", "3")[0] == 0
    assert len(restored) == 3

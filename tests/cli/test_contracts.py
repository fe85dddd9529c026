"""What scripts rely on: JSON whatever happens, readable help in every locale, and remedies that work."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from clips import Clip, write_clip
from libranet.cli.dehaze_jobs import plan_jobs
from libranet.cli.main import build_app
from libranet.engine import dehaze_video
from libranet.errors import InputError
from libranet.network import LiBrANet, save_checkpoint
from tiny_network import TINY


def libranet(*words, env=None, **more) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "libranet", *map(str, words)],
        capture_output=True,
        timeout=120,
        check=False,
        env={**os.environ, **(env or {})},
        **more,
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["dehaze", "in.mp4", "--json"], "no file"),
        (["dehaze", "--json"], "inputs"),
        (["dehaze", "in.mp4", "-o", "out.mp4", "--json", "--nonsense"], "--nonsense"),
        (["dehaze", "in.mp4", "-o", "out.mp4", "--json", "--crf", "abc"], "--crf"),
        (["dehaze", "in.mp4", "-o", "out.mp4", "--json", "--strength", "9"], "strength"),
        (["dehaze", "nowhere.mp4", "-o", "out.mp4", "--json"], "no file"),
        (["info", "nowhere.safetensors", "--json"], "nowhere"),
        (["export", "--json", "--nonsense"], "--nonsense"),
        (["weights", "nonsense", "--json"], ""),
    ],
    ids=" ".join,
)
def test_mistakes_are_json_where_asked(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(build_app(), words)
    report = json.loads(result.stdout)
    assert report["exit_code"] == 2
    assert said in report["error"]


@pytest.mark.more  # it loads PyTorch in a process of its own
def test_a_checkpoint_with_a_lying_configuration_is_code_2_at_once(tmp_path):
    source, path = write_clip(tmp_path / "in.mp4", Clip(frames=2)), tmp_path / "lie.safetensors"
    save_checkpoint(LiBrANet(TINY), path)
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    metadata["config"] = json.dumps({**TINY.stored(), "encoder_widths": [4096] * 4})
    save_file(load_file(path), path, metadata=metadata)
    done = libranet("dehaze", source, "-o", tmp_path / "out.mp4", "--model", path, "--json")
    assert (done.returncode, json.loads(done.stdout)["exit_code"]) == (2, 2)
    assert "lie.safetensors" in json.loads(done.stdout)["error"]
    assert b"Traceback" not in done.stderr
    assert not (tmp_path / "out.mp4").exists()


def test_frames_on_standard_output_leave_no_room_for_json(tmp_path):
    result = CliRunner().invoke(build_app(), ["dehaze", "nowhere.mp4", "-o", "-", "--json"])
    assert result.stdout == ""
    assert "no file" in json.loads(result.stderr)["error"]


@pytest.mark.more  # it loads PyTorch in processes of its own
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_while_loading_is_json_where_asked(tmp_path, number, code):
    """The network is loaded for ever: the signal comes before the first frame in any case."""
    program = (
        "import signal, sys, time; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import libranet.engine as engine\n"
        "def load(*a, **k):\n    print('loading', file=sys.stderr, flush=True); time.sleep(60)\n"
        "engine.load_network = load\n"
        "from libranet.cli.main import main; main()"
    )
    source = write_clip(tmp_path / "in.mp4", Clip(frames=2))
    words = ["dehaze", str(source), "-o", str(tmp_path / "out.mp4"), "--json"]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert process.stderr.readline().strip() == "loading"
    time.sleep(0.1)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert json.loads(out) == {"results": [], "error": "stopped", "exit_code": code}
    assert "Traceback" not in err


@pytest.mark.parametrize("strict", [{}, {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}], ids=["usual", "strict"])
@pytest.mark.parametrize("words", [["--help"], ["dehaze", "--help"], ["dehaze", "--nonsense"]], ids=" ".join)
def test_help_in_a_plain_locale_is_plain(words, strict):
    result = libranet(*words, env={"LC_ALL": "C", "LANG": "C", **strict})
    text = (result.stdout + result.stderr).decode("ascii")  # which fails on anything else
    assert "Usage:" in text
    assert "Traceback" not in text


def test_help_in_a_utf8_locale_has_boxes():
    assert "─" in libranet("--help", env={"LC_ALL": "C.UTF-8"}).stdout.decode()


@pytest.mark.parametrize("output", ["new", "new/"])
def test_a_pattern_with_one_hit_means_a_folder(tmp_path, monkeypatch, output):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clips").mkdir()
    write_clip(tmp_path / "clips" / "a.mp4", Clip(frames=2))
    (job,) = plan_jobs(["clips/*.mp4"], output, live=False)
    assert job.output == "new/a.mp4"
    (job,) = plan_jobs(["clips/*.mp4"], "one.mkv", live=False)
    assert job.output == "one.mkv"


STILLS = {
    "photo.avif": b"\0\0\0\x20ftypavif\0\0\0\0avifmif1",
    "photo.heic": b"\0\0\0\x20ftypheic\0\0\0\0mif1heic",
    "photo.heif": b"\0\0\0\x20ftypmif1\0\0\0\0mif1heic",
    "photo.jxl": b"\xff\x0a\xcb\x06",
    "boxed.jxl": b"\0\0\0\x0cJXL \r\n\x87\n",
    "photo.ppm": b"P6\n64 48\n255\n",
    "photo.pgm": b"P5 64 48 255\n",
    "photo.tga": b"\0\0\x0a" + bytes(15),
    "renamed.mp4": b"\0\0\0\x20ftypheic\0\0\0\0mif1heic",
}


@pytest.mark.parametrize("name", STILLS)
def test_still_images_that_are_not_read_are_told_what_they_are(tmp_path, name):
    source = tmp_path / name
    source.write_bytes(STILLS[name] + bytes(64))
    for output in ("out.png", "out.mkv"):
        with pytest.raises(InputError, match=r"is a still image \([A-Z, or]+\), .*convert it to PNG or TIFF"):
            dehaze_video(source, tmp_path / output, model=LiBrANet(TINY), device="cpu")


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="Debian's ffmpeg is not installed: apt-get install ffmpeg")
@pytest.mark.parametrize("suffix", ["ppm", "pgm", "tga", "avif", "jxl"])
def test_ffmpegs_own_still_images_are_told_what_they_are(tmp_path, suffix):
    made = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=64x48:duration=0.04", "-frames:v", "1"]
    done = subprocess.run([*made, str(tmp_path / f"a.{suffix}")], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"this ffmpeg writes no {suffix}")
    with pytest.raises(InputError, match="is a still image"):
        dehaze_video(tmp_path / f"a.{suffix}", tmp_path / "out.mkv", model=LiBrANet(TINY), device="cpu")


def test_a_folder_passes_over_no_image(tmp_path):
    for name, data in STILLS.items():
        (tmp_path / name).write_bytes(data)
    assert len(plan_jobs([str(tmp_path)], str(tmp_path / "out"), live=False)) == len(STILLS)


@pytest.mark.parametrize("suffix", [".pcx", ".sgi", ".jp2", ".dds", ".ico", ""])
@pytest.mark.parametrize("output", ["out.png", "out.mkv"])
def test_other_still_images_are_not_called_videos(tmp_path, suffix, output):
    source = tmp_path / f"photo{suffix}"
    pillow = pytest.importorskip("PIL.Image")
    pillow.new("RGB", (64, 48), "red").save(source, {"": "PNG", ".jp2": "JPEG2000"}.get(suffix))

    def dehaze() -> None:
        job = plan_jobs([str(source)], str(tmp_path / output), live=False)[0]
        dehaze_video(job.source.name, job.output, model=LiBrANet(TINY), device="cpu")

    with pytest.raises(InputError, match=r"is a still image \([A-Z0-9]+\): convert it to PNG"):
        dehaze()

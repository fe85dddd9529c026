"""What scripts rely on: JSON whatever happens, readable help in every locale, and remedies that work."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from clips import Clip, write_clip
from libranet.cli.main import build_app


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
        (["dehaze", "in.mp4", "--json"], "--output"),
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


def test_frames_on_standard_output_leave_no_room_for_json(tmp_path):
    result = CliRunner().invoke(build_app(), ["dehaze", "nowhere.mp4", "-o", "-", "--json"])
    assert result.stdout == ""
    assert "no file" in json.loads(result.stderr)["error"]


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

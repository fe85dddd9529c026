"""The examples run as they stand."""

import runpy
import sys
from pathlib import Path

import pytest

from clips import Clip, read_all, write_clip
from libranet.models import save_checkpoint

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run(monkeypatch, tiny_model, tmp_path, capsys):
    model = tmp_path / "tiny.safetensors"
    save_checkpoint(tiny_model, model)

    def call(name: str, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", [name, *(str(a).replace("MODEL", str(model)) for a in arguments)])
        code = None
        try:
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        except SystemExit as stop:
            code = stop.code
        assert not code
        return capsys.readouterr().out

    return call


def test_a_file(run, tmp_path):
    source = write_clip(tmp_path / "in.mp4", Clip(frames=6))
    assert "6 frames in" in run("dehaze_file.py", source, tmp_path / "out.mp4", "MODEL")
    assert len(read_all(tmp_path / "out.mp4")[0]) == 6


def test_frames(run):
    out = run("dehaze_frames.py", "MODEL")
    assert "recorded: 10 frames, (240, 320, 3) uint8" in out
    assert out.count("live:") == 3


def test_the_demo(run, tmp_path):
    out = run("demo.py", "--output", tmp_path / "demo", "--model", "MODEL", "--frames", 2, "--size", "96x64")
    for name in ("foggy.mp4", "clear.mp4", "split.mp4", "before_after.png"):
        assert (tmp_path / "demo" / name).stat().st_size > 0
        assert name in out

"""A folder that is watched: files that appear, grow, change, fail or were there before."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import cv2
import numpy as np
import pytest

from clips import Clip, write_clip
from libranet.cli import watch as module
from libranet.cli.watch import Inbox, watch
from libranet.errors import InputError


@pytest.fixture
def watched(tmp_path, tiny_checkpoint, monkeypatch):
    """Watch `in` while `steps` happen, one after each look. Returns the folder of the results."""
    (tmp_path / "in").mkdir()

    def run(*steps) -> Path:
        waiting = iter(steps)

        def sleep(_: float) -> None:
            step = next(waiting, None)
            if step is None:
                raise KeyboardInterrupt
            step()

        monkeypatch.setattr(module.time, "sleep", sleep)
        watch(tmp_path / "in", output=tmp_path / "v1.2", model=str(tiny_checkpoint), device="cpu", quiet=True)
        return tmp_path / "v1.2"

    return run


def nothing() -> None:
    pass


def photo(path: Path, value: int = 90) -> Path:
    path.parent.mkdir(exist_ok=True)
    cv2.imwrite(str(path), np.full((32, 48, 3), value, np.uint8))
    return path


def test_what_appears_is_dehazed_into_the_same_folders(watched, tmp_path):
    inbox = tmp_path / "in"
    out = watched(
        lambda: photo(inbox / "a.png"),
        lambda: write_clip(inbox / "b.mp4", Clip(frames=3)),
        lambda: photo(inbox / "day" / "c.png"),
        nothing,
        nothing,
    )
    assert sorted(str(path.relative_to(out)) for path in out.rglob("*.*")) == ["a.png", "b.mp4", "day/c.png"]


def test_a_file_that_grows_waits(tmp_path):
    source = tmp_path / "in" / "a.mp4"
    source.parent.mkdir()
    inbox = Inbox(source.parent, tmp_path / "out")
    for size in (0, 0, 1, 2, 3):
        source.write_bytes(b"x" * size)
        assert inbox.look() == []
    assert [(job.source.name, again) for job, again in inbox.look()] == [(str(source), False)]
    assert inbox.look() == []  # whatever came of it
    source.write_bytes(b"x" * 4)
    assert inbox.look() == []
    assert [again for _, again in inbox.look()] == [True]


def test_results_that_exist_stay(watched, tmp_path):
    photo(tmp_path / "in" / "a.png")
    kept = photo(tmp_path / "v1.2" / "a.png", 7)
    before = kept.read_bytes()
    watched(nothing, nothing)
    assert kept.read_bytes() == before


def test_a_changed_file_is_dehazed_again(watched, tmp_path):
    source = photo(tmp_path / "in" / "a.png", 90)
    results = []
    out = tmp_path / "v1.2" / "a.png"
    watched(nothing, lambda: results.append(out.read_bytes()), lambda: photo(source, 160), nothing, nothing)
    assert out.read_bytes() != results[0]


def test_a_file_that_cannot_be_dehazed_is_named_once(watched, tmp_path, capsys):
    (tmp_path / "in" / "bad.mp4").write_bytes(b"no video")
    photo(tmp_path / "in" / "good.png")
    out = watched(nothing, nothing, nothing, nothing)
    assert capsys.readouterr().err.count("bad.mp4") == 1
    assert [path.name for path in out.iterdir()] == ["good.png"]


def test_two_files_that_would_become_one_are_named_once(watched, tmp_path, capsys):
    for name in ("a.flv", "a.mkv"):
        (tmp_path / "in" / name).write_bytes(b"x")
    watched(nothing, nothing, nothing)
    assert capsys.readouterr().err.count("would both become") == 1


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match="there is no folder"):
        watch(tmp_path / "gone", output=tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_the_command_ends_in_order(tmp_path, tiny_checkpoint, stop):
    photo(tmp_path / "in" / "a.png")
    words = ["watch", "in", "-o", "out", "--model", str(tiny_checkpoint), "--device", "cpu", "--seconds", "0.2"]
    process = subprocess.Popen([sys.executable, "-m", "libranet", *words], cwd=tmp_path)
    end = time.monotonic() + 60
    while not (tmp_path / "out" / "a.png").exists() and time.monotonic() < end:
        time.sleep(0.1)
    process.send_signal(stop)
    assert process.wait(20) == 0
    assert (tmp_path / "out" / "a.png").exists()

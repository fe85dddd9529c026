"""A run that dies at any moment goes on as if nothing had happened, and broken sources stop nobody else."""

import errno
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from test_sources import put_image, put_video

from libranet.atomic import TEMPORARY_SUFFIX
from libranet.data import DatasetInfo
from libranet.synth import make_clip
from libranet.synth.sources import find_sources
from small_sets import RampSource, SlidingSource, make_set, tree


class Death(BaseException):
    """Stands for the moment at which a process ends."""


def die_after(writes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the pipeline write so many files, then end it in the middle of the next one, its temporary file left over."""
    left = iter(range(writes))
    real = {name: getattr(make_clip, name) for name in ("write_png", "write_map", "write_atomically", "write_json")}

    def dying(name: str):  # type: ignore[no-untyped-def]
        def write(path: Path, *content: object) -> None:
            if next(left, None) is None:
                (path.parent / f".{path.name}.x{TEMPORARY_SUFFIX}").write_bytes(b"half a file")
                raise Death
            real[name](path, *content)

        return write

    for name in real:
        monkeypatch.setattr(make_clip, name, dying(name))


@pytest.mark.parametrize("source", [RampSource("exact"), SlidingSource("estimated")], ids=["exact", "estimated"])
def test_death_at_any_file_then_resume_gives_the_same_set(
    source: RampSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_set([source], tmp_path / "whole")
    expected = tree(tmp_path / "whole")
    deaths = 0
    for writes in range(0, 30, 4):
        folder = tmp_path / f"killed-{writes}"
        with monkeypatch.context() as patch:
            die_after(writes, patch)
            try:
                make_set([source], folder)
            except Death:
                deaths += 1
                assert not (folder / "clips").exists()
        make_set([source], folder)
        assert tree(folder) == expected
    assert deaths >= 5


def test_finished_files_are_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        die_after(14, patch)
        with pytest.raises(Death):
            make_set([RampSource("a")], tmp_path)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / ".work" / "0000-a").rglob("clear/*.png")}
    assert len(kept) == 3
    make_set([RampSource("a")], tmp_path)
    final = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "clips" / "0000-a" / "clear").iterdir()}
    assert final == {path.name: stamp for path, stamp in kept.items()}


def test_broken_sources_are_named_and_the_others_finish(tmp_path: Path) -> None:
    put_video(tmp_path / "good.mp4", 30)
    put_video(tmp_path / "one.mp4", 1)
    (tmp_path / "unreadable.mp4").write_bytes(b"\0" * 4000)
    put_video(tmp_path / "cut.mp4", 30)
    (tmp_path / "cut.mp4").write_bytes((tmp_path / "cut.mp4").read_bytes()[:300])
    for i in range(3):
        put_image(tmp_path / "frames" / f"{i}.png")
        put_image(tmp_path / "sizes" / f"{i}.png", size=(160, 96 + 16 * i))
    whole = (tmp_path / "frames" / "1.png").read_bytes()
    (tmp_path / "frames" / "1.png").write_bytes(whole[: len(whole) // 2])
    names = ("good.mp4", "one.mp4", "unreadable.mp4", "cut.mp4", "frames")
    sources = find_sources([str(tmp_path / name) for name in names], scenes=1, seed=0)
    sources += find_sources([str(tmp_path / "sizes")], scenes=1, seed=0, folders="frames")  # else an album
    info = make_set([*sources, RampSource("last")], tmp_path / "set", workers=2)
    assert sum(len(part) for part in info.split.values()) == 2
    for clip, expected in {
        "0001-one": "got 1 in",
        "0002-unreadable": "unreadable.mp4 as a video",
        "0003-cut": "cut.mp4",
        "0004-frames": "1.png",
        "0005-sizes": "one resolution",
    }.items():
        assert expected in info.failures[clip]
    assert list((tmp_path / "set" / ".work").iterdir()) == [tmp_path / "set" / ".work" / "lock"]


def test_a_full_disk_is_named_and_small_clips_still_fit(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    command = [str(mount), "-t", "tmpfs", "-o", "size=700k", "tmpfs", str(disk)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small tmpfs needs root")
    try:

        class Noisy(RampSource):
            """Frames that do not compress."""

            def frames(self, request, start=0):  # type: ignore[no-untyped-def]
                rng = np.random.default_rng(1)
                for frame in super().frames(request, start):
                    frame.image[:] = rng.integers(0, 256, frame.image.shape)
                    yield type(frame)(
                        np.tile(frame.image, (2, 2, 1)), np.tile(frame.depth, (2, 2)), np.tile(frame.flow, (1, 2, 2))
                    )

        info = make_set([Noisy("large"), RampSource("small")], disk / "set")
        assert "No space left on device" in info.failures["0000-large"]
        assert str(disk / "set") in info.failures["0000-large"]
        assert info.names("all") == ("0001-small",)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_failing_write_is_reported_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, *content: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("libranet.synth.make_clip.write_map", full)
    info = make_set([RampSource("a")], tmp_path)
    assert "No space left on device" in info.failures["0000-a"]
    assert "flow/00000.exr" in info.failures["0000-a"]


@pytest.mark.slow
def test_ten_kills_at_random_moments(tmp_path: Path) -> None:
    put_video(tmp_path / "a.mp4", 100, size=(480, 272))
    put_image(tmp_path / "lake.png", size=(640, 360))
    put_image(tmp_path / "hill.png", size=(640, 360), seed=2)
    sources = [str(tmp_path / name) for name in ("a.mp4", "lake.png", "hill.png")] + ["procedural"]

    def start(folder: Path) -> subprocess.Popen[bytes]:
        options = ["--preset", "mini", "--size", "480x272", "--frames", "12", "--scenes", "1", "--workers", "2"]
        program = "from libranet.cli.main import main; main()"
        return subprocess.Popen(
            [sys.executable, "-c", program, "synth", *sources, "-o", str(folder), *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    assert start(tmp_path / "whole").wait(600) == 0
    rng = random.Random(5)
    kills, runs = 0, 0
    while kills < 10:
        folder = tmp_path / f"killed-{runs}"
        runs += 1
        process = start(folder)
        while not (folder / ".work" / "lock").exists():
            time.sleep(0.01)
        while kills < 10:
            time.sleep(rng.uniform(0.0, 1.5))
            if process.poll() is not None:
                break
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            process = start(folder)
            time.sleep(rng.uniform(3.0, 6.0))
        assert process.wait(600) == 0
        assert DatasetInfo.load(folder).complete
        assert tree(folder) == tree(tmp_path / "whole")

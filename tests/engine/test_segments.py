"""A run that is stopped, killed or crashes goes on with `--resume` and gives the same frames."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import av
import pytest

from clips import Clip, read_all, same_frames, write_clip
from libranet.engine import DehazeOptions, dehaze_video
from libranet.errors import InputError
from libranet.network import save_checkpoint

CLIP = Clip(frames=23, variable=True, cut_at=11, audio=("aac",))
OPTIONS = DehazeOptions(segment_frames=5, crf=20, steady=0.12)  # reaches a few frames back, fewer than are done


class PowerCutError(Exception):
    pass


def stop_after(frames: int):
    def progress(step) -> None:
        if step.frames >= frames and step.phase == "frames":
            raise PowerCutError

    return progress


@pytest.fixture
def source(tmp_path) -> Path:
    return write_clip(tmp_path / "in.mp4", CLIP)


@pytest.fixture
def whole(tmp_path, tiny_model, source):
    dehaze_video(source, tmp_path / "whole.mp4", model=tiny_model, options=OPTIONS, device="cpu")
    return read_all(tmp_path / "whole.mp4")


@pytest.mark.parametrize("moments", [[1], [5], [6], [12], [3, 9, 14, 22]])
def test_resumed_frames_equal_uninterrupted_ones(tmp_path, tiny_model, source, whole, moments):
    output = tmp_path / "out.mp4"
    for moment in moments:
        with pytest.raises(PowerCutError):
            dehaze_video(
                source,
                output,
                model=tiny_model,
                options=OPTIONS,
                device="cpu",
                resume=True,
                progress=stop_after(moment),
            )
        assert not output.exists()
    report = dehaze_video(source, output, model=tiny_model, options=OPTIONS, device="cpu", resume=True)
    assert moments[-1] // 5 * 5 <= report.resumed_frames <= moments[-1]  # the journal may keep more than segments
    times, frames = read_all(output)
    assert times == whole[0]
    assert same_frames(frames, whole[1])
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_a_crash_while_joining_loses_nothing(tmp_path, tiny_model, source, whole, monkeypatch):
    from libranet.engine import video

    def fail(*_args, **_kwargs):
        raise PowerCutError

    output = tmp_path / "out.mp4"
    with monkeypatch.context() as patch:
        patch.setattr(video, "join", fail)
        with pytest.raises(PowerCutError):
            dehaze_video(source, output, model=tiny_model, options=OPTIONS, device="cpu")
    report = dehaze_video(source, output, model=tiny_model, options=OPTIONS, device="cpu", resume=True)
    assert report.resumed_frames == CLIP.frames
    assert same_frames(read_all(output)[1], whole[1])


def test_other_settings_are_refused_and_without_resume_the_run_starts_over(tmp_path, tiny_model, source):
    output = tmp_path / "out.mp4"
    with pytest.raises(PowerCutError):
        dehaze_video(source, output, model=tiny_model, options=OPTIONS, device="cpu", progress=stop_after(12))
    other = replace(OPTIONS, strength=0.5)
    with pytest.raises(InputError, match=r"strength = 1\.0.*0\.5"):
        dehaze_video(source, output, model=tiny_model, options=other, device="cpu", resume=True)
    report = dehaze_video(source, output, model=tiny_model, options=other, device="cpu")
    assert report.resumed_frames == 0
    assert report.frames == CLIP.frames


def test_a_changed_source_is_refused(tmp_path, tiny_model, source):
    output = tmp_path / "out.mp4"
    with pytest.raises(PowerCutError):
        dehaze_video(source, output, model=tiny_model, options=OPTIONS, device="cpu", progress=stop_after(12))
    write_clip(source, Clip(frames=40))
    with pytest.raises(InputError, match="source"):
        dehaze_video(source, output, model=tiny_model, options=OPTIONS, device="cpu", resume=True)


def test_two_runs_at_one_output_are_kept_apart(tmp_path, tiny_model, source):
    output = tmp_path / "out.mp4"
    seen = []

    def start_another(_step) -> None:
        if not seen:
            seen.append(True)
            with pytest.raises(InputError, match="another run"):
                dehaze_video(source, output, model=tiny_model, options=OPTIONS, device="cpu")

    dehaze_video(source, output, model=tiny_model, options=OPTIONS, device="cpu", progress=start_another)
    assert seen
    assert output.exists()


@pytest.mark.slow
def test_ten_kills(tmp_path, tiny_model):
    """SIGKILL at ten random moments, --resume each time: the hashes of all frames equal the uninterrupted run's."""
    clip = Clip(frames=240, width=320, height=192, cut_at=70, audio=("aac",))
    source = write_clip(tmp_path / "in.mp4", clip)
    save_checkpoint(tiny_model, tmp_path / "tiny.safetensors")
    program = "from libranet.cli.main import main; main()"
    command = [
        sys.executable, "-c", program, "dehaze", str(source), "--model", str(tmp_path / "tiny.safetensors"),
        "--device", "cpu", "--segment-frames", "8", "--quiet", "--resume",
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, "-o", str(tmp_path / "whole.mp4")], check=True, env=environment)
    output, folder = tmp_path / "out.mp4", tmp_path / ".out.mp4.libranet"
    generator = random.Random(20261115)
    progress = []
    for _ in range(10):
        process = subprocess.Popen([*command, "-o", str(output)], env=environment)
        # A random moment in the work: a number of new segments, and then some time more.
        wanted = segments(folder) + generator.randrange(3)
        while process.poll() is None and segments(folder) < wanted:
            time.sleep(0.005)
        time.sleep(generator.uniform(0.0, 0.4))
        assert process.poll() is None, "the run was over before it was killed"
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert not output.exists()
        progress.append(segments(folder))
    subprocess.run([*command, "-o", str(output)], check=True, env=environment)
    print(f"segments finished at each of the ten kills: {progress} of 30")
    assert hashes(output) == hashes(tmp_path / "whole.mp4")
    assert not folder.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("codec", "suffix"),
    [("h264", "mp4"), ("hevc", "mp4"), ("vp9", "webm"), ("av1", "mkv"), ("prores", "mov"), ("ffv1", "mkv")],
)
def test_ten_kills_with_every_codec(tmp_path, tiny_model, codec, suffix, monkeypatch):
    """SIGKILL at ten random moments: the resumed streams have the same bytes as uninterrupted ones."""
    monkeypatch.setattr("libranet.engine.segments.KEEP_SECONDS", 0.0)  # as on a slow machine
    source = write_clip(tmp_path / "in.mkv", Clip(codec="ffv1", frames=60, width=128, height=96, cut_at=23))
    options = DehazeOptions(codec=codec, segment_frames=8)
    begin = time.monotonic()
    dehaze_video(source, tmp_path / f"whole.{suffix}", model=tiny_model, options=options, device="cpu")
    length = time.monotonic() - begin
    output = tmp_path / f"out.{suffix}"
    generator = random.Random(codec)
    kills = 0
    while kills < 10:
        child = os.fork()
        if child == 0:
            try:
                dehaze_video(source, output, model=tiny_model, options=options, device="cpu", resume=True)
            finally:
                os._exit(0)
        time.sleep(length * generator.uniform(0.02, 0.3))
        os.kill(child, signal.SIGKILL)
        kills += os.waitpid(child, 0)[1] == signal.SIGKILL
        if output.exists():  # a lucky run: once more from the beginning
            assert packets(output) == packets(tmp_path / f"whole.{suffix}")
            output.unlink()
    if not output.exists():
        dehaze_video(source, output, model=tiny_model, options=options, device="cpu", resume=True)
    print(f"{codec}: {kills} kills")
    assert packets(output) == packets(tmp_path / f"whole.{suffix}")


def packets(path: Path) -> list:
    """Everything but the random name that Matroska gives a file."""
    with av.open(str(path)) as container:
        return [(p.stream_index, p.pts, p.dts, p.is_keyframe, bytes(p)) for p in container.demux()]


def segments(folder: Path) -> int:
    return len(list(folder.glob("segment-*.packets")))


def hashes(path: Path) -> list[str]:
    times, frames = read_all(path)
    return [
        hashlib.sha256(str(when).encode() + b"".join(plane.tobytes() for plane in planes)).hexdigest()
        for when, planes in zip(times, frames, strict=True)
    ]

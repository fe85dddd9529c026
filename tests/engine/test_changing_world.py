"""Files that appear, change or vanish during a run: nothing is replaced, nothing is mixed, every end has a sentence."""

import os
import shutil
import subprocess
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from clips import Clip, write_clip
from libranet.engine import DehazeOptions, dehaze_video, image_files
from libranet.engine.segments import RunFolder
from libranet.engine.stream import dehaze_stream
from libranet.errors import InputError
from libranet.images import Image, read_image, write_image
from libranet.video.reader import VideoReader

CLIP = Clip(frames=12, audio=("aac",))


@pytest.fixture
def during(monkeypatch):
    """Do something when the fifth frame is decoded."""

    def prepare(act):
        original, acts = VideoReader.frames, [act]  # a shot may be read twice

        def frames(self, **limits):
            for number, frame in enumerate(original(self, **limits)):
                if number == 4 and acts:
                    acts.pop()()
                yield frame

        monkeypatch.setattr(VideoReader, "frames", frames)

    return prepare


def dehaze(source, output, network, *, overwrite=False, resume=False, codec=None, encoder_options=()):
    options = DehazeOptions(strength=0.0, segment_frames=4, codec=codec, encoder_options=encoder_options)
    return dehaze_video(
        source, output, model=network, options=options, device="cpu", overwrite=overwrite, resume=resume
    )


def test_a_file_that_appears_stays(tmp_path, tiny_model, during):
    source, output = write_clip(tmp_path / "in.mp4", CLIP), tmp_path / "out.mp4"
    during(lambda: output.write_bytes(b"someone else's"))
    with pytest.raises(InputError, match="appeared while"):
        dehaze(source, output, tiny_model)
    assert output.read_bytes() == b"someone else's"
    report = dehaze(source, output, tiny_model, overwrite=True, resume=True)  # the remedy: nothing is restored again
    assert (report.frames, report.resumed_frames) == (12, 12)


def test_a_file_that_is_to_be_replaced_stays_when_it_changes(tmp_path, tiny_model, during):
    source, output = write_clip(tmp_path / "in.mp4", CLIP), tmp_path / "out.mp4"
    output.write_bytes(b"old")
    during(lambda: output.write_bytes(b"newer than that"))
    with pytest.raises(InputError, match="was changed while"):
        dehaze(source, output, tiny_model, overwrite=True)
    assert output.read_bytes() == b"newer than that"


def test_an_old_file_is_replaced(tmp_path, tiny_model):
    source, output = write_clip(tmp_path / "in.mp4", CLIP), tmp_path / "out.mp4"
    output.write_bytes(b"old")
    assert dehaze(source, output, tiny_model, overwrite=True).frames == 12
    assert output.stat().st_size > 1000


def test_a_source_that_is_replaced(tmp_path, tiny_model, during):
    source, output = write_clip(tmp_path / "in.mp4", CLIP), tmp_path / "out.mp4"
    other = write_clip(tmp_path / "other.mp4", replace(CLIP, frames=20, cut_at=0))
    during(lambda: os.replace(other, source))
    with pytest.raises(InputError, match="changed during the run"):
        dehaze(source, output, tiny_model)
    assert not output.exists()


def test_a_source_that_still_grows(tmp_path, tiny_model, during):
    source, output = write_clip(tmp_path / "in.mp4", CLIP), tmp_path / "out.mp4"
    during(lambda: source.open("ab").write(b"\0\0\0\x08free"))
    with pytest.raises(InputError, match="changed during the run"):
        dehaze(source, output, tiny_model)
    assert not output.exists()


def test_a_source_that_is_deleted_and_put_back(tmp_path, tiny_model, during, monkeypatch):
    source, output = write_clip(tmp_path / "in.mp4", CLIP), tmp_path / "out.mp4"
    during(lambda: source.rename(tmp_path / "elsewhere.mp4"))
    with pytest.raises(InputError, match="put it back"):
        dehaze(source, output, tiny_model)
    assert not output.exists()
    monkeypatch.undo()
    (tmp_path / "elsewhere.mp4").rename(source)
    report = dehaze(source, output, tiny_model, resume=True)
    assert (report.frames, report.partial) == (12, "")


def test_an_image_of_a_sequence_that_is_deleted(tmp_path, tiny_model, during):
    for number in range(8):
        write_image(tmp_path / f"f{number:02d}.png", Image(np.full((32, 32, 3), 20 * number, np.uint8)))
    during((tmp_path / "f07.png").unlink)
    with pytest.raises(InputError, match=r"put it back|there is no file"):
        dehaze(tmp_path / "f%02d.png", tmp_path / "out.mkv", tiny_model)
    assert not (tmp_path / "out.mkv").exists()


def test_an_image_that_appears_stays(tmp_path, tiny_model, monkeypatch):
    source, output = tmp_path / "in.png", tmp_path / "out.png"
    write_image(source, Image(np.full((32, 32, 3), 90, np.uint8)))

    def read_and_wait(path):
        output.write_bytes(b"someone else's")
        return read_image(path)

    monkeypatch.setattr(image_files, "read_image", read_and_wait)
    with pytest.raises(InputError, match="appeared while"):
        image_files.dehaze_image(source, output, tiny_model)
    assert output.read_bytes() == b"someone else's"


def test_resuming_into_another_container_leaves_a_living_run_alone(tmp_path, tiny_model):
    """The settings are the same, so the folder could be taken over; but another process holds it."""
    alive = RunFolder(tmp_path / "out.mp4")
    alive.open({"a": 1}, resume=False)
    other = RunFolder(tmp_path / "out.mkv")
    other.open({"a": 1}, resume=True)
    assert alive.path.is_dir()
    assert other.path.is_dir()
    other.release()
    alive.release()


@pytest.fixture
def stopped_after_a_segment(monkeypatch):
    """Interrupt the run as soon as its first segment is written: how far the decoder is by then does not matter."""
    original = RunFolder.add

    def add(self, segment):
        original(self, segment)
        raise KeyboardInterrupt

    monkeypatch.setattr(RunFolder, "add", add)


@pytest.mark.skipif(shutil.which("ffprobe") is None, reason="Debian's ffmpeg is not installed: apt-get install ffmpeg")
@pytest.mark.parametrize(("one", "other"), [(".avi", ".mkv"), (".mkv", ".avi"), (".mp4", ".ts")])
@pytest.mark.usefixtures("stopped_after_a_segment")
def test_segments_of_a_dead_run_join_in_another_container(tmp_path, tiny_model, monkeypatch, one, other):
    """AVI begins at zero and Matroska does not: segments keep the source's clock, so both are right."""
    source = write_clip(tmp_path / "in.mkv", replace(CLIP, first=500, time_base=Fraction(1, 1000), frames=13))
    options = {"codec": "h264", "encoder_options": (("bf", "0"),)}
    with pytest.raises(KeyboardInterrupt):
        dehaze(source, tmp_path / f"out{one}", tiny_model, **options)
    monkeypatch.undo()
    report = dehaze(source, tmp_path / f"out{other}", tiny_model, resume=True, **options)
    assert (report.frames, report.partial) == (13, "")
    assert report.resumed_frames >= 4
    times = _times(tmp_path / f"out{other}")
    assert [b - a for a, b in pairwise(times)] == pytest.approx([0.04] * 12, abs=0.001)
    assert not list(tmp_path.glob(".*.libranet"))


def test_a_recording_beside_a_file_that_appears(tmp_path, tiny_model, during):
    """A stream is gone when it has been read: the recording gets another name, and says so."""
    source, output = write_clip(tmp_path / "in.mkv", CLIP), tmp_path / "out.mkv"
    during(lambda: output.write_bytes(b"someone else's"))
    report = dehaze_stream(source, output, tiny_model, options=DehazeOptions(strength=0.0))
    assert output.read_bytes() == b"someone else's"
    assert report.output == str(tmp_path / "out-0002.mkv")
    assert any("appeared" in note for note in report.warnings)
    assert not list(tmp_path.glob(".*.part*"))


@pytest.mark.parametrize("length", [249, 250, 251, 252, 253, 254, 255])
def test_long_names(tmp_path, tiny_model, length):
    source = write_clip(tmp_path / "in.mp4", Clip(frames=3))
    output = tmp_path / ("ö" * ((length - 4) // 2) + "x" * ((length - 4) % 2) + ".mp4")
    assert len(os.fsencode(output.name)) == length
    assert dehaze(source, output, tiny_model).frames == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["in.mp4", output.name])


def test_longer_names_are_refused_in_a_sentence(tmp_path, tiny_model):
    source = write_clip(tmp_path / "in.mp4", Clip(frames=3))
    with pytest.raises(InputError, match="256 bytes"):
        dehaze(source, tmp_path / ("x" * 252 + ".mp4"), tiny_model)


def _times(path):
    command = ["ffprobe", "-v", "error", "-select_streams", "V:0", "-show_entries", "frame=best_effort_timestamp_time"]
    out = subprocess.run([*command, "-of", "csv=p=0", str(path)], capture_output=True, text=True, check=True).stdout
    return [float(line.split(",")[0]) for line in out.splitlines() if line.strip()]

"""Segments that are encoded side by side."""

import hashlib
import os
import threading
from dataclasses import replace
from fractions import Fraction

import pytest
import torch

from clips import Clip, write_clip
from libranet.engine import DehazeOptions, dehaze_video, segment_encoders
from libranet.engine.options import what_lifts
from libranet.engine.segment_encoders import SegmentSink, encoder_count, encoder_threads
from libranet.engine.segments import OutputClock, RunFolder
from libranet.video.encoder import EncoderSettings
from libranet.video.encoder_options import encoder_options
from libranet.video.packets import PacketLog
from libranet.video.pixels import layout_of
from libranet.video.reader import open_video
from libranet.video.tags import VideoTags


def settings(width: int = 3840, height: int = 2160, **changes) -> EncoderSettings:
    layout = layout_of("yuv420p")
    options = encoder_options("h264", crf=None, preset=None, layout=layout, tags=VideoTags())
    base = (Fraction(1, 25), Fraction(25))
    return EncoderSettings("h264", "yuv420p", width, height, *base, VideoTags(), options, **changes)


@pytest.mark.parametrize(
    ("cores", "memory", "encoders", "threads"),
    [(2, 8, 1, 0), (8, 64, 1, 0), (16, 128, 2, 24), (64, 512, 8, 24), (64, 16, 3, 24), (16, 2, 1, 24)],
)
def test_threads_depend_on_cores_alone(monkeypatch, cores, memory, encoders, threads):
    """Memory decides how many encoders run at once, which changes no bit; threads would."""
    monkeypatch.setattr(segment_encoders, "machine_cores", lambda: cores)
    monkeypatch.setattr(segment_encoders, "_memory", lambda: memory << 30)
    assert (encoder_count(settings(), length=120), encoder_threads(settings())) == (encoders, threads)


def test_workers_that_share_a_machine_have_fewer_encoders_of_the_same_bits(monkeypatch):
    monkeypatch.setattr(segment_encoders, "machine_cores", lambda: 64)
    monkeypatch.setattr(segment_encoders, "_memory", lambda: 512 << 30)
    assert (encoder_count(settings(), length=120, most=2), encoder_threads(settings())) == (2, 24)


@pytest.mark.parametrize("codec", ["h264", "hevc", "av1"])
def test_the_bits_of_a_machine_can_be_asked_for_on_another(tmp_path, tiny_model, codec):
    """A cluster's workers write the bits of the machine that a run by itself would have had."""
    source = write_clip(tmp_path / "in.mp4", Clip(frames=6, width=256, height=192))
    options = DehazeOptions(codec=codec, preset="12" if codec == "av1" else "ultrafast")
    here = segment_encoders.machine_cores()
    for name, cores in (("own", None), ("asked", here)):
        dehaze_video(source, tmp_path / f"{name}.mp4", model=tiny_model, options=options, cores=cores)
    assert (tmp_path / "own.mp4").read_bytes() == (tmp_path / "asked.mp4").read_bytes()


def test_a_short_clip_has_all_cores(monkeypatch):
    """It is one segment with one encoder, which must not be left with a share of the machine."""
    monkeypatch.setattr(segment_encoders, "machine_cores", lambda: 16)
    for codec in ("h264", "hevc", "av1"):
        assert encoder_threads(replace(settings(), codec=codec)) >= 16
    assert encoder_threads(settings(640, 96)) == 3  # x264 wants 32 rows for each


def digest(folder: RunFolder) -> list[str]:
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.segment_paths]


def encode(tmp_path, source, name: str, *, encoders: int, frames: int | None = None) -> RunFolder:
    folder = RunFolder(tmp_path / name)
    folder.open({}, resume=False)
    with open_video(source) as reader:
        clock = OutputClock(reader.time_base, reader.time_base, 0, 1)
        options = settings(reader.width, reader.height, threads=2)
        sink = SegmentSink(folder, options, clock, length=5, encoders=encoders)
        for index, frame in enumerate(reader.frames()):
            if index == frames:
                sink.discard()
                return folder
            sink.write(frame)
        sink.finish()
    return folder


def test_the_number_of_encoders_changes_nothing(tmp_path):
    source = write_clip(tmp_path / "in.mkv", Clip(codec="ffv1", frames=23, width=96, height=64))
    one, three = (encode(tmp_path, source, f"{n}.mp4", encoders=n) for n in (1, 3))
    assert [segment.frames for segment in one.segments] == [5, 5, 5, 5, 3]
    assert one.segments == three.segments
    assert digest(one) == digest(three)


@pytest.mark.parametrize("encoders", [1, 3])
def test_stopping_keeps_the_segments_that_have_all_their_frames(tmp_path, encoders):
    source = write_clip(tmp_path / "in.mkv", Clip(codec="ffv1", frames=23, width=96, height=64))
    folder = encode(tmp_path, source, "out.mp4", encoders=encoders, frames=17)
    assert [segment.frames for segment in folder.segments] == [5, 5, 5]
    assert [name for name in os.listdir(folder.path) if name.endswith(".part")] == []


def test_a_slow_disk_does_not_hold_the_next_encoder(tmp_path, monkeypatch):
    """A finished segment may take seconds to reach the disk; its encoder is free at once."""
    source = write_clip(tmp_path / "in.mkv", Clip(codec="ffv1", frames=23, width=96, height=64))
    opened, on_disk = [], []
    finish, open_encoder = PacketLog.finish, segment_encoders.open_encoder
    third = threading.Event()

    def wait_for_the_third(log):
        if not on_disk:
            assert third.wait(30), "the third encoder waits for the first segment's file"
        finish(log)
        on_disk.append(log.path.name)

    def count(options):
        opened.append(len(on_disk))
        if len(opened) == 3:
            third.set()
        return open_encoder(options)

    monkeypatch.setattr(PacketLog, "finish", wait_for_the_third)
    monkeypatch.setattr(segment_encoders, "open_encoder", count)
    slow = encode(tmp_path, source, "slow.mp4", encoders=1)
    monkeypatch.undo()
    assert opened[:3] == [0, 0, 0]
    assert digest(slow) == digest(encode(tmp_path, source, "plain.mp4", encoders=1))


def test_a_file_that_does_not_reach_the_disk_ends_the_run(tmp_path, monkeypatch):
    source = write_clip(tmp_path / "in.mkv", Clip(codec="ffv1", frames=23, width=96, height=64))

    def fail(_log):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(PacketLog, "finish", fail)
    with pytest.raises(Exception, match="the disk is full"):
        encode(tmp_path, source, "out.mp4", encoders=2)


def test_an_encoder_that_fails_ends_the_run(tmp_path, monkeypatch):
    source = write_clip(tmp_path / "in.mkv", Clip(codec="ffv1", frames=23, width=96, height=64))

    def fail(_settings):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(segment_encoders, "open_encoder", fail)
    with pytest.raises(Exception, match="the disk is full"):
        encode(tmp_path, source, "out.mp4", encoders=2)


def test_a_run_with_several_encoders_resumes_to_the_same_file(tmp_path, tiny_model, monkeypatch):
    monkeypatch.setattr(segment_encoders, "machine_cores", lambda: 24)
    source = write_clip(tmp_path / "in.mkv", Clip(codec="ffv1", frames=23, width=96, height=64, cut_at=11))
    options = DehazeOptions(segment_frames=5, codec="h264", steady=0.0)
    dehaze_video(source, tmp_path / "whole.mp4", model=tiny_model, options=options, device="cpu")

    class PowerCutError(Exception):
        pass

    def stop(step) -> None:
        if step.frames >= 13:
            raise PowerCutError

    with pytest.raises(PowerCutError):
        dehaze_video(source, tmp_path / "out.mp4", model=tiny_model, options=options, device="cpu", progress=stop)
    report = dehaze_video(source, tmp_path / "out.mp4", model=tiny_model, options=options, device="cpu", resume=True)
    assert report.resumed_frames == 10
    assert (tmp_path / "out.mp4").read_bytes() == (tmp_path / "whole.mp4").read_bytes()


def test_the_progress_says_what_would_help():
    assert what_lifts("network", codec="h264", device="cpu") == "a GPU (--device cuda)"
    assert what_lifts("encode", codec="h264", device="cpu") == "a faster --preset"
    assert what_lifts("encode", codec="ffv1", device="cpu") == ""
    assert what_lifts("decode", codec="h264", device="cuda") == ""


def test_a_hardware_encoder_that_is_not_there_is_replaced_with_a_sentence(tmp_path, tiny_model):
    source = write_clip(tmp_path / "in.mkv", Clip(codec="ffv1", frames=3, width=160, height=128))
    if torch.cuda.is_available():
        pytest.skip("this machine may have one")
    report = dehaze_video(
        source,
        tmp_path / "out.mp4",
        model=tiny_model,
        options=DehazeOptions(codec="h264_nvenc", preset="p5"),
        device="cpu",
    )
    assert report.codec == "h264"
    assert any("h264_nvenc does not work on this machine" in note for note in report.warnings)


def test_the_preset_depends_on_what_bounds_the_run():
    arguments = {"crf": None, "layout": layout_of("yuv420p"), "tags": VideoTags()}
    assert encoder_options("h264", preset=None, **arguments)["preset"] == "medium"
    assert encoder_options("h264", preset=None, fast=True, **arguments)["preset"] == "veryfast"
    assert encoder_options("h264", preset="slow", fast=True, **arguments)["preset"] == "slow"
    assert encoder_options("av1", preset=None, fast=True, **arguments)["preset"] == "8"

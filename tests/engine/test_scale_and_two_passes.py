"""Scaled outputs and outputs encoded in two passes, whole and resumed."""

from dataclasses import replace

import av
import cv2
import numpy as np
import pytest

from clips import Clip, read_all, write_clip
from libranet.engine import DehazeOptions, dehaze_video
from libranet.engine.image_files import dehaze_image
from libranet.errors import InputError
from libranet.video.encoder import configure

CLIP = Clip(frames=40, width=128, height=96, variable=True, audio=("aac",), cut_at=17)


class PowerCutError(Exception):
    pass


def size_of(path) -> tuple[int, int, object]:
    with av.open(str(path)) as container:
        video = container.streams.video[0]
        return video.width, video.height, video.sample_aspect_ratio


@pytest.mark.parametrize(
    ("scale", "expected"), [("1/2", (64, 48)), ("72p", (96, 72)), ("2/1", (256, 192)), ("128x64", (128, 64))]
)
def test_a_scaled_video(tmp_path, tiny_model, scale, expected):
    source = write_clip(tmp_path / "in.mkv", CLIP)
    report = dehaze_video(
        source, tmp_path / "out.mkv", model=tiny_model, options=DehazeOptions(scale=scale), device="cpu"
    )
    assert (report.width, report.height) == expected
    assert report.partial == ""
    assert report.copied_streams == 1
    assert size_of(tmp_path / "out.mkv")[:2] == expected
    assert read_all(tmp_path / "out.mkv")[0] == read_all(source)[0]


def test_the_shape_on_the_screen_stays(tmp_path, tiny_model):
    source = write_clip(tmp_path / "in.mp4", Clip(width=128, height=96))
    options = DehazeOptions(scale="128x64")
    dehaze_video(source, tmp_path / "out.mp4", model=tiny_model, options=options, device="cpu")
    width, height, shape = size_of(tmp_path / "out.mp4")
    assert width / height * shape == pytest.approx(128 / 96)


@pytest.mark.parametrize("compare", [None, "side"])
def test_a_scaled_run_is_resumed_with_the_same_bits(tmp_path, tiny_model, compare):
    source = write_clip(tmp_path / "in.mp4", CLIP)
    options = DehazeOptions(scale="1/2", segment_frames=12, compare=compare, steady=0.1)
    dehaze_video(source, tmp_path / "whole.mp4", model=tiny_model, options=options, device="cpu")
    _interrupted(source, tmp_path / "out.mp4", tiny_model, options, "frames", 17)
    assert _packets(tmp_path / "out.mp4") == _packets(tmp_path / "whole.mp4")


def test_a_scaled_image(tmp_path, tiny_model):
    image = np.random.default_rng(0).integers(0, 255, (40, 56, 4), np.uint8)
    cv2.imwrite(str(tmp_path / "in.png"), image)
    dehaze_image(tmp_path / "in.png", tmp_path / "out.png", tiny_model, options=DehazeOptions(scale="1/2"))
    assert cv2.imread(str(tmp_path / "out.png"), cv2.IMREAD_UNCHANGED).shape == (20, 28, 4)


@pytest.mark.parametrize(("codec", "suffix"), [("h264", "mp4"), ("hevc", "mkv")])
def test_two_passes_meet_the_bit_rate(tmp_path, tiny_model, codec, suffix):
    source = write_clip(tmp_path / "in.mp4", CLIP)
    options = DehazeOptions(codec=codec, bitrate=200_000, two_pass=True, segment_frames=12, scale="1/1")
    phases = set()
    output = tmp_path / f"out.{suffix}"
    report = dehaze_video(
        source,
        output,
        model=tiny_model,
        options=options,
        device="cpu",
        progress=lambda step: phases.add(step.phase),
    )
    assert phases == {"reading ahead", "frames", "first pass", "second pass", "joining"}
    assert (report.frames, report.codec, report.partial, report.copied_streams) == (40, codec, "", 1)
    times, expected = read_all(output)[0], read_all(source)[0]  # Matroska moves all streams behind the sound's start
    assert [time - times[0] for time in times] == pytest.approx([time - expected[0] for time in expected], abs=0.0011)
    with av.open(str(output)) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
    bits = 8 * sum(packet.size for packet in packets)
    seconds = float(max(packet.pts for packet in packets) * packets[0].time_base)
    assert bits / seconds == pytest.approx(200_000, rel=0.35)  # a short clip
    assert sum(packet.is_keyframe for packet in packets) < 4  # one stream, not one per segment
    assert not list(tmp_path.glob(".*"))


def test_the_header_of_two_passes_is_that_of_the_stream(tmp_path, tiny_model):
    """x264 chooses other headers for a second pass than for a single one; a decoder would show garbage."""
    source = write_clip(tmp_path / "in.mp4", Clip(frames=12))
    options = DehazeOptions(
        strength=0.0, bitrate=400_000, two_pass=True, encoder_options=(("x264-params", "aq-mode=2"),)
    )
    report = dehaze_video(source, tmp_path / "out.mp4", model=tiny_model, options=options, device="cpu")
    assert report.partial == ""
    for before, after in zip(read_all(source)[1], read_all(tmp_path / "out.mp4")[1], strict=True):
        assert np.abs(before[0].astype(int) - after[0]).mean() < 12


def test_a_header_that_is_not_that_of_the_stream_is_found(tmp_path, tiny_model, monkeypatch):
    monkeypatch.setattr("libranet.video.mux.configure", _with_other_headers)
    source = write_clip(tmp_path / "in.mp4", Clip(frames=12))
    report = dehaze_video(source, tmp_path / "out.mp4", model=tiny_model, device="cpu")
    assert "cannot be decoded" in report.partial


def _with_other_headers(context, settings) -> None:
    configure(context, replace(settings, options={**settings.options, "coder": "cavlc", "profile": "baseline"}))


@pytest.mark.parametrize(("phase", "frames"), [("frames", 17), ("first pass", 9), ("second pass", 22)])
def test_two_passes_are_resumed_with_the_same_bits(tmp_path, tiny_model, phase, frames):
    source = write_clip(tmp_path / "in.mp4", CLIP)
    options = DehazeOptions(bitrate=300_000, two_pass=True, segment_frames=12, steady=0.1)
    dehaze_video(source, tmp_path / "whole.mp4", model=tiny_model, options=options, device="cpu")
    _interrupted(source, tmp_path / "out.mp4", tiny_model, options, phase, frames)
    assert _packets(tmp_path / "out.mp4") == _packets(tmp_path / "whole.mp4")


def test_refusals(tmp_path, tiny_model):
    source = write_clip(tmp_path / "in.mp4", Clip())
    with pytest.raises(InputError, match="add bitrate"):
        DehazeOptions(two_pass=True)
    options = DehazeOptions(two_pass=True, bitrate=100_000, codec="vp9")
    with pytest.raises(InputError, match="vp9 cannot be encoded in two passes: use codec h264 or hevc"):
        dehaze_video(source, tmp_path / "out.webm", model=tiny_model, options=options, device="cpu")
    with pytest.raises(InputError, match="expected sides from"):
        dehaze_video(source, tmp_path / "o.mkv", model=tiny_model, options=DehazeOptions(scale="1/9"), device="cpu")
    assert [path.name for path in tmp_path.iterdir()] == ["in.mp4"]


def _interrupted(source, output, network, options, phase, frames) -> None:
    """Stop a run in one of its phases, and resume it."""

    def stop(step) -> None:
        if step.phase == phase and step.frames >= frames:
            raise PowerCutError

    with pytest.raises(PowerCutError):
        dehaze_video(source, output, model=network, options=options, device="cpu", progress=stop)
    assert not output.exists()
    dehaze_video(source, output, model=network, options=options, device="cpu", resume=True)


def _packets(path) -> list:
    with av.open(str(path)) as container:
        return [(p.stream_index, p.pts, p.dts, p.is_keyframe, bytes(p)) for p in container.demux()]

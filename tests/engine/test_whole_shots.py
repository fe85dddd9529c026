"""Video files are restored by grids settled over whole shots: steady, and the same bytes however a run is divided."""

from dataclasses import replace

import av
import numpy as np
import pytest

from clips import Clip, write_clip
from libranet.engine import DehazeOptions, dehaze_video, segments
from libranet.engine.adjust import Adjustments
from libranet.engine.parts import dehaze_part, join_parts, plan_parts
from libranet.engine.video import VideoRun
from libranet.network import settle
from libranet.runtime import load_network
from libranet.video.pixels import plane_views
from libranet.video.reader import open_video
from libranet.video.source import parse_source

OPTIONS = DehazeOptions(segment_frames=8)


@pytest.fixture
def short_window(monkeypatch):
    """Knots of two frames, three of which count on each side: less than a shot."""
    monkeypatch.setattr(settle, "KNOT", 0.08)
    monkeypatch.setattr(settle, "WINDOW", 0.24)


def packets(path) -> list:
    with av.open(str(path)) as container:
        return [(p.stream.index, p.pts, p.dts, p.duration, bytes(p)) for p in container.demux() if p.size]


class Stopped(Exception):  # noqa: N818
    pass


@pytest.mark.parametrize("moment", [18, 31])
@pytest.mark.parametrize(
    "adjust",
    [
        pytest.param(Adjustments(), id="plain"),
        pytest.param(Adjustments(exposure="keep"), id="exposure", marks=pytest.mark.slow),
    ],
)
def test_a_resumed_run_has_the_same_bytes(tmp_path, tiny_model, short_window, monkeypatch, moment, adjust):
    """Also in the middle of a segment, whose frames the journal keeps."""
    monkeypatch.setattr(segments, "KEEP_SECONDS", 0.0)
    source = write_clip(tmp_path / "in.mp4", Clip(frames=44, cut_at=21))
    options = replace(OPTIONS, adjust=adjust)
    dehaze_video(source, tmp_path / "whole.mp4", model=tiny_model, options=options)

    def stop(step) -> None:
        if step.frames >= moment and step.phase == "frames":
            raise Stopped

    output = tmp_path / "out.mp4"
    with pytest.raises(Stopped):
        dehaze_video(source, output, model=tiny_model, options=options, progress=stop)
    report = dehaze_video(source, output, model=tiny_model, options=options, resume=True)
    assert report.resumed_frames >= moment // 8 * 8
    assert packets(output) == packets(tmp_path / "whole.mp4")


def test_reading_ahead_is_reported_and_bounded(tmp_path, tiny_model, short_window):
    """The first frame is restored once its window is known, not the whole file."""
    source = write_clip(tmp_path / "in.mp4", Clip(frames=60))
    phases = []
    dehaze_video(
        source, tmp_path / "out.mp4", model=tiny_model, options=OPTIONS, progress=lambda step: phases.append(step.phase)
    )
    ahead = phases.index("frames")
    assert set(phases[:ahead]) == {"reading ahead"}
    assert 8 <= ahead < 30
    assert phases.count("frames") == 60
    assert "reading ahead" not in phases[ahead:]


@pytest.mark.parametrize("cut", [pytest.param(40, marks=pytest.mark.more), pytest.param(None, marks=pytest.mark.slow)])
def test_parts_have_the_bits_of_one_run(tmp_path, tiny_model, short_window, monkeypatch, cut):
    monkeypatch.setattr("libranet.engine.parts.SHARE_OF_LEAD", 2.0)
    source = write_clip(tmp_path / "in.mp4", Clip(frames=90, cut_at=cut, options=(("g", "24"),)))
    dehaze_video(source, tmp_path / "one.mp4", model=tiny_model, options=OPTIONS)
    run = VideoRun(parse_source(source), tmp_path / "parts.mp4", tiny_model, OPTIONS)
    parts = plan_parts(run, wanted=3)
    assert len(parts) == 3
    assert parts[1].ahead > 0
    assert len(parts[1].times) < 90
    for part in reversed(parts):
        dehaze_part(run, part)
    join_parts(run, parts)
    assert packets(tmp_path / "parts.mp4") == packets(tmp_path / "one.mp4")


def test_short_videos_are_not_worth_dividing(tmp_path, tiny_model):
    """The seconds around a part that are read for their grids would be most of the work."""
    source = write_clip(tmp_path / "in.mp4", Clip(frames=90))
    run = VideoRun(parse_source(source), tmp_path / "out.mp4", tiny_model, OPTIONS)
    assert plan_parts(run, wanted=3) == ()
    assert plan_parts(replace(run, options=replace(OPTIONS, steady=0.08)), wanted=3) != ()


def write_frames(path, frames: list[np.ndarray]) -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = "yuv444p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode(None))


def restored(source, output, model, **options) -> np.ndarray:  # [n, planes, h, w]
    dehaze_video(source, output, model=model, options=DehazeOptions(codec="ffv1", **options), overwrite=True)
    return samples(output)


def samples(path) -> np.ndarray:  # [n, planes, h, w]
    with open_video(path) as reader:
        return np.array([[view.copy() for view in plane_views(frame.image)] for frame in reader.frames()], int)


def noisy_scene(count: int, *, gain=lambda _: 1.0) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    y, x = np.mgrid[0:48, 0:64]
    scene = (110 + 70 * np.sin(x / 9 + y / 15))[..., None] * np.array([1.0, 0.9, 0.8])
    noise = (generator.normal(0, 1.5, scene.shape) for _ in range(count))
    return [np.clip(gain(i) * scene + n, 0, 255).astype(np.uint8) for i, n in zip(range(count), noise, strict=True)]


def test_a_still_shot_does_not_pump(tmp_path, tiny_model):
    write_frames(tmp_path / "in.mkv", noisy_scene(16))
    hazy = samples(tmp_path / "in.mkv")

    def unrest(**options) -> float:
        change = restored(tmp_path / "in.mkv", tmp_path / "out.mkv", tiny_model, **options) - hazy
        assert np.abs(change).mean() > 2, "it is restored at all"
        return float(np.abs(np.diff(change, axis=0)).mean())

    assert unrest() < 0.25 * min(unrest(steady=0.0), unrest(steady=1.0))


@pytest.mark.parametrize("steady", [None, 0.0], ids=["whole shots", "frame by frame"])
@pytest.mark.parametrize(
    "color", [(0, 0, 0), (16, 16, 16), (200, 200, 200), (90, 40, 10)], ids=["black", "dark", "light", "orange"]
)
def test_constant_frames_come_back(tmp_path, color, steady):
    """With the trained weights: their GroupNorms make a pattern of the border's padding."""
    frame = np.zeros((96, 128, 3), np.uint8) + np.array(color, np.uint8)
    write_frames(tmp_path / "in.mkv", [frame] * 2)
    wanted = samples(tmp_path / "in.mkv")
    network = load_network("base", device="cpu")
    found = restored(tmp_path / "in.mkv", tmp_path / "out.mkv", network, steady=steady)
    assert np.abs(found - wanted).max() <= 2


def test_a_fade_to_black_stays_black(tmp_path):
    write_frames(tmp_path / "in.mkv", noisy_scene(5, gain=lambda index: max(0.0, 1.0 - index / 3)))
    found = restored(tmp_path / "in.mkv", tmp_path / "out.mkv", load_network("base", device="cpu"))
    hazy = samples(tmp_path / "in.mkv")
    assert np.abs(found[0] - hazy[0]).mean() > 2, "what can be seen is restored"
    assert np.abs(found[3:] - hazy[3:]).max() <= 2
    assert found[3:].max() <= hazy[3:].max() + 2


def test_strength_zero_returns_every_sample(tmp_path, tiny_model):
    write_frames(tmp_path / "in.mkv", noisy_scene(5))
    found = restored(tmp_path / "in.mkv", tmp_path / "out.mkv", tiny_model, strength=0.0)
    assert np.array_equal(found, samples(tmp_path / "in.mkv"))

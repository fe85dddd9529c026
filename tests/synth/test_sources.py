"""Sources: what a place on disk means, sampling by time, sizes, and every kind of broken source."""

from pathlib import Path

import av
import cv2
import numpy as np
import pytest

from libranet.errors import InputError
from libranet.synth.depth_estimators import LayoutPrior
from libranet.synth.sources import (
    FolderSource,
    FrameRequest,
    PhotoSource,
    SceneSource,
    VideoSource,
    find_sources,
    fit,
    fit_size,
)
from small_sets import texture


def request(frames: int = 4, size: tuple[int, int] = (160, 96), fps: float = 5.0) -> FrameRequest:
    return FrameRequest(frames=frames, fps=fps, size=size, proxy=96, seed=0, depth=LayoutPrior(0))


def put_video(path: Path, frames: int, *, rate: int = 25, size: tuple[int, int] = (160, 96)) -> None:
    """Frame i has the brightness 2 * i."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=rate, options={"crf": "4", "preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        for i in range(frames):
            pixels = np.full((size[1], size[0], 3), 2 * i, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode(None))


def put_image(path: Path, size: tuple[int, int] = (160, 96), seed: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), texture(size[1], size[0], seed)[..., ::-1])


def test_a_video_is_sampled_at_five_per_second(tmp_path: Path) -> None:
    put_video(tmp_path / "v.mp4", 60)
    frames = list(VideoSource(tmp_path / "v.mp4").frames(request(frames=25)))
    assert len(frames) == 12
    found = [float(frame.image.mean()) / 2 for frame in frames]
    np.testing.assert_allclose(found, range(0, 60, 5), atol=1.0)
    late = list(VideoSource(tmp_path / "v.mp4").frames(request(frames=6), start=4))
    assert [float(frame.image.mean()) / 2 for frame in late] == pytest.approx([20, 25], abs=1.0)


def test_a_slow_video_gives_every_frame_once(tmp_path: Path) -> None:
    put_video(tmp_path / "v.mp4", 6, rate=2)
    assert len(list(VideoSource(tmp_path / "v.mp4").frames(request(frames=25)))) == 6


def test_folders_are_frames_or_albums(tmp_path: Path) -> None:
    for i in range(3):
        put_image(tmp_path / "clip" / f"frame_{i:03d}.png", seed=i)
        put_image(tmp_path / "album" / ("lake.jpg", "tower-12.jpg", "road.jpg")[i])
    put_video(tmp_path / "v.mp4", 4)
    found = find_sources([str(tmp_path)], scenes=1, seed=0)
    assert [type(source).__name__ for source in found] == [
        "VideoSource", "PhotoSource", "PhotoSource", "PhotoSource", "FolderSource",
    ]  # fmt: skip
    assert len(find_sources([str(tmp_path / "clip")], scenes=1, seed=0, folders="photos")) == 3
    assert len(find_sources([str(tmp_path / "album")], scenes=1, seed=0, folders="frames")) == 1
    assert [source.name for source in find_sources(["procedural"], scenes=2, seed=3)] == ["scene-30000", "scene-30001"]


def test_consecutive_frames_are_one_clip_in_their_order(tmp_path: Path) -> None:
    """Frames 5 to 12 without leading zeros were photos, read as 10, 11, 12, 5 .., and spread over train and test."""
    wide = texture(96, 200)
    for index in range(8):
        path = tmp_path / "clip" / f"{5 + index}.png"
        path.parent.mkdir(exist_ok=True)
        cv2.imwrite(str(path), wide[:, 2 * index : 2 * index + 160, ::-1])
    (source,) = find_sources([str(tmp_path / "clip")], scenes=1, seed=0)
    assert isinstance(source, FolderSource)
    frames = [frame.image for frame in source.frames(request(frames=8))]
    assert all(np.array_equal(frame, wide[:, 2 * i : 2 * i + 160]) for i, frame in enumerate(frames))
    for index in range(4):
        put_image(tmp_path / "album" / f"IMG_{index}.png", seed=20 + index, size=(160, 96 + 2 * index))
    assert [type(s) for s in find_sources([str(tmp_path / "album")], scenes=1, seed=0)] == [PhotoSource] * 4


def test_gaps_and_sixteen_bits_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    wide = texture(96, 200).astype(np.uint16) * 257
    (tmp_path / "clip").mkdir()
    for index in (0, 1, 2, 5):
        cv2.imwrite(str(tmp_path / "clip" / f"{index}.png"), wide[:, 2 * index : 2 * index + 160, ::-1])
    (source,) = find_sources([str(tmp_path / "clip")], scenes=1, seed=0)
    assert "2 of the numbers 0 to 5 are missing: 3 to 4" in caplog.text
    (first, *_) = source.frames(request(frames=4))
    assert np.array_equal(first.image, texture(96, 200)[:, :160])
    assert caplog.text.count("are rounded to 8 bits") == 1


def test_sizes_shrink_and_never_grow() -> None:
    assert fit_size((3840, 2160), (960, 540)) == (960, 540)
    assert fit_size((1280, 720), (3840, 2160)) == (1280, 720)
    assert fit_size((1000, 1000), (960, 540)) == (960, 540)
    assert fit_size((720, 1280), (3840, 2160)) == (720, 404)
    assert fit(texture(300, 300), (160, 96)).shape == (96, 160, 3)


def test_a_photo_brings_depth_and_flow(tmp_path: Path) -> None:
    put_image(tmp_path / "lake.jpg", size=(320, 192))
    frames = list(PhotoSource(tmp_path / "lake.jpg").frames(request(frames=3)))
    assert len(frames) == 3
    for frame in frames:
        assert frame.image.shape == (96, 160, 3)
        assert frame.depth is not None
        assert 0.0 <= frame.depth.min() <= frame.depth.max() <= 1.0
        assert frame.flow is not None
        assert frame.flow.shape == (2, 96, 160)


def test_a_scene_brings_metres_and_flow() -> None:
    source = SceneSource(0)
    (frame,) = source.frames(request(frames=1, size=(64, 64)))
    assert frame.image.dtype == np.uint8
    assert frame.depth is not None
    assert frame.depth.shape == (64, 64)
    assert frame.flow is not None
    assert source.depth_kind == "metres"
    assert np.isfinite(frame.depth).any()
    assert frame.depth[np.isfinite(frame.depth)].max() < 9_990


def test_broken_sources_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="got 'nowhere'"):
        find_sources(["nowhere"], scenes=1, seed=0)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"found none|in .*empty"):
        find_sources([str(tmp_path / "empty")], scenes=1, seed=0)
    put_video(tmp_path / "one.mp4", 1)
    with pytest.raises(InputError, match=r"at least 2 frames at 5 fps, got 1 in .*one\.mp4"):
        list(VideoSource(tmp_path / "one.mp4").frames(request()))
    (tmp_path / "broken.mp4").write_bytes(b"x" * 5000)
    with pytest.raises(InputError, match=r"could not read .*broken\.mp4 as a video"):
        list(VideoSource(tmp_path / "broken.mp4").frames(request()))
    put_image(tmp_path / "mixed" / "f1.png")
    put_image(tmp_path / "mixed" / "f2.png", size=(128, 96))
    with pytest.raises(InputError, match=r"one resolution in .*mixed, got 160x96 and then 128x96 in f2\.png"):
        list(FolderSource(tmp_path / "mixed").frames(request()))


def test_a_video_that_changes_its_resolution_is_refused(tmp_path: Path) -> None:
    for name, size in (("a.ts", (160, 96)), ("b.ts", (128, 80))):
        put_video(tmp_path / name, 30, size=size)
    joined = tmp_path / "joined.ts"
    joined.write_bytes((tmp_path / "a.ts").read_bytes() + (tmp_path / "b.ts").read_bytes())
    with pytest.raises(InputError, match=r"one resolution in .*joined\.ts, got 160x96 and then 128x80"):
        list(VideoSource(joined).frames(request(frames=25)))

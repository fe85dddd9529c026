"""What counts as a dataset, and one clear line for what does not."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from clips import Clip, write_clip
from libranet.data.dataset import CheckResult, ClipInfo, DatasetInfo
from libranet.errors import InputError
from libranet.evaluation.clips import open_dataset
from libranet.video.pixels import plane_views
from libranet.video.reader import open_video
from tiny_set import make_frames, make_hazy, write_frames, write_pairs


def _write_video(path: Path, frames: list[np.ndarray]) -> None:
    av = pytest.importorskip("av")
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode(None))


def test_two_folders_of_clips(tmp_path: Path) -> None:
    clips = open_dataset(write_pairs(tmp_path))
    assert [clip.name for clip in clips] == ["one", "two"]
    pairs = list(clips[0].frames())
    assert len(pairs) == 5
    hazy, clear = pairs[3]
    assert clear is not None
    np.testing.assert_array_equal(clear, make_frames(5)[3])
    np.testing.assert_array_equal(hazy, make_hazy(make_frames(5), 0.3)[3])
    assert len(list(clips[0].frames(2))) == 2


def test_two_folders_of_frames_and_stills(tmp_path: Path) -> None:
    folder = tmp_path / "park"
    write_frames(folder / "clear", make_frames(3))
    write_frames(folder / "hazy", make_hazy(make_frames(3)))
    assert [(clip.name, len(clip)) for clip in open_dataset(folder)] == [("park", 3)]
    stills = open_dataset(folder, stills=True)
    assert [(clip.name, len(clip)) for clip in stills] == [("park-00000", 1), ("park-00001", 1), ("park-00002", 1)]
    assert all(clip.clear is not None for clip in stills)


def test_two_folders_of_videos(tmp_path: Path) -> None:
    frames = make_frames(4)
    _write_video(tmp_path / "clear" / "a.mp4", frames)
    _write_video(tmp_path / "hazy" / "a.mp4", make_hazy(frames))
    (clip,) = open_dataset(tmp_path)
    pairs = list(clip.frames())
    assert len(pairs) == len(clip) == 4
    assert pairs[0][1] is not None
    assert pairs[0][0].mean() > pairs[0][1].mean()


def test_hazy_alone(tmp_path: Path) -> None:
    write_frames(tmp_path / "set" / "a", make_frames(2))
    _write_video(tmp_path / "set" / "b.mp4", make_frames(3))
    clips = open_dataset(tmp_path / "set")
    assert [(clip.name, len(clip), clip.clear) for clip in clips] == [("a", 2, None), ("b", 3, None)]
    assert [clip.name for clip in open_dataset(tmp_path / "set" / "b.mp4")] == ["b"]
    assert len(list(clips[1].frames())) == 3


def test_an_interlaced_video_is_deinterlaced_as_dehaze_does(tmp_path: Path) -> None:
    options = (("x264-params", "interlaced=1:tff=1"),)
    write_clip(tmp_path / "a.mkv", Clip(frames=6, options=options))
    (clip,) = open_dataset(tmp_path / "a.mkv")
    with pytest.raises(InputError, match="add deinterlace=True"):
        list(clip.frames())
    (clip,) = open_dataset(tmp_path / "a.mkv", deinterlace=True)
    with open_video(tmp_path / "a.mkv", deinterlace=True) as reader:
        expected = [plane_views(frame.image)[0].copy() for frame in reader.frames()]
    source = clip.open()
    found = [source.samples(given).planes[0][0].numpy().copy() for given in source.frames()]
    assert len(found) == 6
    np.testing.assert_array_equal(found, expected)


def test_a_photo_is_measured_as_a_viewer_shows_it(tmp_path: Path) -> None:
    """EXIF of a camera held upright: the stored rows are the columns that are shown."""
    image = make_frames(1)[0]
    ok, data = cv2.imencode(".jpg", image)
    assert ok
    exif = b"Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00" + bytes(4)
    marked = data.tobytes()[:2] + b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif + data.tobytes()[2:]
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "a.jpg").write_bytes(marked)
    (clip,) = open_dataset(tmp_path / "set")
    ((shown, _),) = clip.frames()
    assert shown.shape == (64, 48, 3)
    np.testing.assert_array_equal(shown, clip.hazy.read(0))


def test_a_set_of_ours_keeps_its_regimes_and_split(tmp_path: Path) -> None:
    for name, regime in (("a", "thin-grey"), ("b", "dense-warm")):
        folder = tmp_path / "clips" / name
        write_frames(folder / "clear", make_frames(2))
        write_frames(folder / "hazy", make_hazy(make_frames(2)))
        check = CheckResult("size", 0.0, 1.0, True, "nothing")
        nothing = {"source": {}, "depth": {}, "flow": {}, "files": {}}
        ClipInfo(
            name=name,
            width=64,
            height=48,
            frames=2,
            fps=5.0,
            regime=regime,
            beta=(1.0,),
            airlight=(0.9, 0.9, 0.9),
            noise=0.0,
            flow_frames=1,
            hazy_psnr=15.0,
            checks=(check,),
            **nothing,  # type: ignore[arg-type]
        ).save(folder)
    DatasetInfo(generator={}, regimes=(), split={"train": ("a",), "test": ("b",)}, complete=True).save(tmp_path)
    assert [(clip.name, clip.regime) for clip in open_dataset(tmp_path)] == [("b", "dense-warm")]
    assert [clip.name for clip in open_dataset(tmp_path, split="all")] == ["a", "b"]


def test_missing_ground_truth(tmp_path: Path) -> None:
    write_pairs(tmp_path)
    for file in (tmp_path / "clear" / "two").iterdir():
        file.unlink()
    (tmp_path / "clear" / "two").rmdir()
    with pytest.raises(InputError, match=r"ground truth of .*two.* missing"):
        open_dataset(tmp_path)


def test_different_sizes(tmp_path: Path) -> None:
    write_pairs(tmp_path, ("one",))
    write_frames(tmp_path / "clear" / "one", make_frames(5, height=50))
    with pytest.raises(InputError, match=r"one size in clip one, got 64x48 and 64x50 for the clear frame 0"):
        open_dataset(tmp_path)


def test_a_size_that_changes_inside_a_clip(tmp_path: Path) -> None:
    write_pairs(tmp_path, ("one",))
    cv2.imwrite(str(tmp_path / "hazy" / "one" / "00003.png"), np.zeros((20, 20, 3), np.uint8))
    with pytest.raises(InputError, match="64x48 and 20x20 for the hazy frame 3"):
        open_dataset(tmp_path)
    (clip,) = open_dataset(tmp_path / "hazy")
    with pytest.raises(InputError, match="to be 64x48, got 20x20 for the hazy frame 3"):
        list(clip.frames())


def test_different_frame_counts(tmp_path: Path) -> None:
    write_pairs(tmp_path, ("one",))
    (tmp_path / "clear" / "one" / "00004.png").unlink()
    with pytest.raises(InputError, match="5 and 4"):
        open_dataset(tmp_path)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one clip"):
        open_dataset(tmp_path)
    with pytest.raises(InputError, match="no dataset at"):
        open_dataset(tmp_path / "no")
    (tmp_path / "file.txt").write_text("text")
    with pytest.raises(InputError, match="expected a video or a folder"):
        open_dataset(tmp_path / "file.txt")
    write_frames(tmp_path / "clear", make_frames(1))
    with pytest.raises(InputError, match="no hazy/ beside it"):
        open_dataset(tmp_path)


def test_a_broken_set_of_ours(tmp_path: Path) -> None:
    (tmp_path / "dataset.json").write_text(json.dumps({"format": "other"}))
    with pytest.raises(InputError, match=r"dataset.json"):
        open_dataset(tmp_path)


def test_a_set_whose_synthesis_was_stopped_says_so(tmp_path):
    DatasetInfo(generator={}, regimes=(), split={}).save(tmp_path)
    with pytest.raises(InputError, match="split 'test', got none: run `libranet synth` again"):
        open_dataset(tmp_path)

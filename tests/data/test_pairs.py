"""The public sets in their own layouts, on trees of a few tiny frames."""

import shutil
from pathlib import Path

import av
import cv2
import numpy as np
import pytest

from libranet.data import folder_pairs, open_pairs
from libranet.data.frames import Box
from libranet.errors import InputError


def put(path: Path, value: int, size: tuple[int, int] = (24, 16)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.full((size[1], size[0], 3), value, np.uint8))


def put_video(path: Path, frames: int = 12) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"crf": "0", "preset": "ultrafast", "g": "4"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv444p"
        for value in range(frames):
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 20 * value, np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def test_revide_in_its_official_split(tmp_path: Path) -> None:
    for part, clips in (("Train", ("C001", "J002")), ("Test", ("L003",))):
        for clip in clips:
            for i in range(3):
                put(tmp_path / part / "hazy" / clip / f"{i:05d}.JPG", 200)
                put(tmp_path / part / "gt" / clip / f"{i:05d}.JPG", 100)
    train, test = open_pairs(tmp_path, "train"), open_pairs(tmp_path, "test")
    assert [pair.name for pair in train] == ["C001", "J002"]
    assert [(pair.name, len(pair)) for pair in test] == [("L003", 3)]
    assert train[0].hazy.read(0)[0, 0, 0] == 200
    assert train[0].clear.read(2)[0, 0, 0] == 100


def test_hazeworld_maps_many_hazy_clips_to_one_truth(tmp_path: Path) -> None:
    for subset in ("DAVIS", "DDAD", "UA-DETRAC", "REDS"):
        put(tmp_path / "train" / "gt" / subset / "video1" / "00000.jpg", 10)
        put(tmp_path / "train" / "gt" / subset / "video10" / "00000.jpg", 60)
        put(tmp_path / "train" / "hazy" / subset / "video1_0.05_0.9" / "00000.jpg", 110)
        put(tmp_path / "train" / "hazy" / subset / "video1_0.10_0.8" / "00000.jpg", 120)
        put(tmp_path / "train" / "hazy" / subset / "video10" / "beta2" / "00000.jpg", 130)
    pairs = open_pairs(tmp_path, "train")
    assert len(pairs) == 9
    assert {pair.name.split("/")[0] for pair in pairs} == {"DAVIS", "DDAD", "UA-DETRAC"}
    truths = {pair.name: int(pair.clear.read(0)[0, 0, 0]) for pair in pairs if pair.name.startswith("DDAD")}
    assert truths == {"DDAD/video1_0.05_0.9": 10, "DDAD/video1_0.10_0.8": 10, "DDAD/video10/beta2": 60}
    put(tmp_path / "train" / "hazy" / "DAVIS" / "stranger" / "00000.jpg", 1)
    with pytest.raises(InputError, match=r"ground truth of .*stranger"):
        open_pairs(tmp_path, "train")


def test_two_folders_of_frames_of_folders_and_of_videos(tmp_path: Path) -> None:
    for side in ("hazy", "clear"):
        put(tmp_path / "flat" / side / "0.png", 1)
        put(tmp_path / "deep" / side / "clip" / "0.png", 1)
        put_video(tmp_path / "video" / side / "clip.mp4")
    for layout, expected in (("flat", "hazy"), ("deep", "clip"), ("video", "clip")):
        (pair,) = folder_pairs(tmp_path / layout / "hazy", tmp_path / layout / "clear")
        assert pair.name == expected


def test_video_frames_are_found_by_number(tmp_path: Path) -> None:
    put_video(tmp_path / "hazy" / "a.mp4")
    put_video(tmp_path / "clear" / "a.mp4")
    (pair,) = folder_pairs(tmp_path / "hazy", tmp_path / "clear")
    assert (len(pair), pair.hazy.size) == (12, (64, 48))
    for index in (0, 7, 3, 11):
        values = pair.hazy.read(index, Box(4, 5, 6, 7))
        assert values.shape == (6, 7, 3)
        np.testing.assert_allclose(values, 20 * index, atol=2)


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    put(tmp_path / "hazy" / "a" / "0.png", 1)
    put(tmp_path / "clear" / "a" / "1.png", 1)
    with pytest.raises(InputError, match=r"clear frame named 0 in"):
        folder_pairs(tmp_path / "hazy", tmp_path / "clear")
    put(tmp_path / "clear" / "a" / "0.png", 1)
    with pytest.raises(InputError, match="as many hazy as clear frames in a, got 1 and 2"):
        folder_pairs(tmp_path / "hazy", tmp_path / "clear")
    (tmp_path / "clear" / "a" / "1.png").unlink()
    put(tmp_path / "hazy" / "b" / "0.png", 1)
    with pytest.raises(InputError, match=r"ground truth of .*b in .* missing"):
        folder_pairs(tmp_path / "hazy", tmp_path / "clear")
    for side in ("hazy", "gt"):
        put(tmp_path / "set" / "Train" / side / "a" / "0.png", 1)
    with pytest.raises(InputError, match=r"expected a part 'test' in .*, found Train"):
        open_pairs(tmp_path / "set", "test")
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "broken.mp4").write_bytes(b"no video at all" * 100)
    with pytest.raises(InputError, match=r"could not read .*broken\.mp4 as a video"):
        folder_pairs(tmp_path / "v", shutil.copytree(tmp_path / "v", tmp_path / "w"))


def test_sides_are_found_under_every_usual_name(tmp_path: Path) -> None:
    for hazy, clear in (("input", "target"), ("Hazy", "GT"), ("haze", "clean"), ("hazy", "clear")):
        for side in (hazy, clear):
            put(tmp_path / hazy / side / "clip" / "0.png", 1)
        (pair,) = open_pairs(tmp_path / hazy)
        assert pair.name == "clip"
    put(tmp_path / "nothing" / "0.png", 1)
    assert open_pairs(tmp_path / "nothing") is None


def test_a_set_with_parts_is_opened_from_its_root(tmp_path: Path) -> None:
    for part in ("Train", "Test"):
        for side in ("hazy", "gt"):
            put(tmp_path / part / side / part.lower() / "0.jpg", 1)
    assert [pair.name for pair in open_pairs(tmp_path, "test")] == ["test"]
    assert [pair.name for pair in open_pairs(tmp_path / "Train", "test")] == ["train"]
    assert [pair.name for pair in open_pairs(tmp_path, "all")] == ["test", "train"]
    for side in ("hazy", "gt"):
        put(tmp_path / "Test" / side / "train" / "0.jpg", 1)
    assert [pair.name for pair in open_pairs(tmp_path, "all")] == ["Test/test", "Test/train", "Train/train"]
    (tmp_path / "Test" / "gt").rename(tmp_path / "Test" / "other")
    with pytest.raises(InputError, match=r"expected a part 'test' in .*, found Train"):
        open_pairs(tmp_path, "test")


def test_hazeworld_is_opened_from_its_root_with_the_papers_subsets(tmp_path: Path) -> None:
    for subset in ("DAVIS", "REDS"):
        put(tmp_path / "test" / "gt" / subset / "v" / "0.jpg", 10)
        put(tmp_path / "test" / "hazy" / subset / "v_0.05_0.9" / "0.jpg", 90)
        put(tmp_path / "test" / "hazy" / subset / "v_0.10_0.8" / "0.jpg", 90)
    assert [pair.name for pair in open_pairs(tmp_path, "test")] == ["DAVIS/v_0.05_0.9", "DAVIS/v_0.10_0.8"]


def texture(path: Path, *, seed: int, shift: int = 0, size: tuple[int, int] = (64, 48)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    coarse = np.random.default_rng(seed).random((6, 10, 3))
    wide = cv2.resize(coarse, (size[0] + 20, size[1]), interpolation=cv2.INTER_CUBIC)
    cv2.imwrite(str(path), np.clip(wide[:, shift : shift + size[0]] * 255, 0, 255).astype(np.uint8))


def test_reside_and_unrelated_photos_are_stills_and_frames_one_clip(tmp_path: Path) -> None:
    for side in ("hazy", "gt"):
        for i in range(4):
            texture(tmp_path / "photos" / side / f"{i:02d}_outdoor_{side}.png", seed=i)
            texture(tmp_path / "frames" / side / f"{i:02d}.png", seed=0, shift=2 * i)
            texture(tmp_path / "sizes" / side / f"{i:02d}.png", seed=0, size=(64 + 2 * i, 48))
    for name in ("0001_0.8_0.2", "0001_0.9_0.1", "0002_0.8_0.2"):
        texture(tmp_path / "reside" / "hazy" / f"{name}.jpg", seed=0)
    for name in ("0001", "0002"):
        texture(tmp_path / "reside" / "clear" / f"{name}.jpg", seed=0)
    assert [len(pair) for pair in open_pairs(tmp_path / "photos")] == [1, 1, 1, 1]
    assert [len(pair) for pair in open_pairs(tmp_path / "sizes")] == [1, 1, 1, 1]
    assert [len(pair) for pair in open_pairs(tmp_path / "frames")] == [4]
    reside = open_pairs(tmp_path / "reside")
    assert [pair.name for pair in reside] == ["0001_0.8_0.2", "0001_0.9_0.1", "0002_0.8_0.2"]
    assert [pair.clear.paths[0].stem for pair in reside] == ["0001", "0001", "0002"]

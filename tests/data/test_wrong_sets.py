"""Toy sets of every layout, each wrong in one way: refused or named, and never read as if they were right."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import av
import cv2
import numpy as np
import pytest

from libranet.data import PairedClip, folder_pairs, open_pairs
from libranet.data.agreement import compare_sides, refuse_alike_folders
from libranet.data.frames import VideoFrames
from libranet.errors import InputError
from libranet.evaluation.clips import open_dataset
from tiny_set import make_hazy
from toy_pairs import SIZE, half_size, put, put_video, rewrite, scene, shift_in_time, swap


def right_set(root: Path) -> Path:
    """hazy/CLIP beside clear/CLIP."""
    for index, name in enumerate(("one", "two")):
        clear = scene(8, seed=index)
        put(root / "clear" / name, clear)
        put(root / "hazy" / name, make_hazy(clear))
    return root


def flat_set(root: Path) -> Path:
    """Frames of one clip, without a folder for it."""
    clear = scene(8, seed=0)
    put(root / "clear", clear)
    put(root / "hazy", make_hazy(clear))
    return root


def photo_set(root: Path) -> Path:
    """Photos, and several hazy versions of each."""
    for index in range(4):
        (clear,) = scene(1, seed=index)
        put(root / "gt", [clear], first=index)
        for version in ("0.8", "0.9"):
            put(root / "hazy", make_hazy([clear], 0.3), first=index, form="{:05d}_" + version + ".png")
    return root


def video_set(root: Path) -> Path:
    for index, name in enumerate(("one", "two")):
        clear = scene(8, seed=index)
        put_video(root / "gt" / f"{name}.mp4", clear)
        put_video(root / "hazy" / f"{name}.mp4", make_hazy(clear))
    return root


def parts_set(root: Path) -> Path:
    """Train/hazy beside Train/gt, and the same under Test, as REVIDE has it."""
    for number, part in enumerate(("Train", "Test")):
        clear = scene(6, seed=number)
        put(root / part / "gt" / "clip", clear)
        put(root / part / "hazy" / "clip", make_hazy(clear))
    return root


Mutation = Callable[[Path], object]
REFUSED: dict[str, tuple[Callable[[Path], Path], Mutation, str]] = {
    "a clear frame is missing": (right_set, lambda r: (r / "clear/one/00003.png").unlink(), "as many hazy as.*one"),
    "a hazy frame is missing": (right_set, lambda r: (r / "hazy/two/00000.png").unlink(), "as many hazy as.*two"),
    "a clear frame of a flat clip is missing": (flat_set, lambda r: (r / "clear/00003.png").unlink(), r"named 00003"),
    "a hazy frame of a flat clip is missing": (flat_set, lambda r: (r / "hazy/00003.png").unlink(), r"got 7 and 8"),
    "a clip without truth": (right_set, lambda r: shutil.rmtree(r / "clear/two"), r"ground truth of .*two"),
    "numbers off by one": (
        right_set,
        lambda r: (shutil.rmtree(r / "clear/one"), put(r / "clear/one", scene(8, seed=0), first=1)),
        r"clear frame named 00000 in .*one",
    ),
    "half the size on one side": (right_set, lambda r: rewrite(r / "hazy", half_size), "in clip one, got 48x32"),
    "half the size of photos' truth": (photo_set, lambda r: rewrite(r / "gt", half_size), "one size in clip 0"),
    "another size in the last frame": (
        right_set,
        lambda r: put(r / "clear/one", [scene(1, seed=0)[0][:40]], first=7),
        r"got 96x64 and 96x40 for the clear frame 7",
    ),
    "one frame in two formats": (
        right_set,
        lambda r: put(r / "hazy/one", [scene(1, seed=0)[0]], first=4, form="{:05d}.jpg"),
        r"one frame twice, as 00004\.(jpg|png)",
    ),
    "one number in two spellings": (
        flat_set,
        lambda r: put(r / "hazy", [scene(1, seed=0)[0]], first=4, form="{}.png"),
        r"one frame twice, as ",
    ),
    "frames beside folders of frames": (
        right_set, lambda r: put(r / "hazy", scene(1, seed=0)), r"holds images and one beside them",
    ),
    "frames beside videos": (
        video_set, lambda r: put(r / "gt", scene(2, seed=0)), r"holds images and (one|two)\.mp4 beside them",
    ),
    "two names of one side": (
        right_set, lambda r: shutil.copytree(r / "hazy", r / "input"), r"hazy/ and input/ .* names of one side",
    ),
    "an empty side": (right_set, lambda r: (shutil.rmtree(r / "hazy"), (r / "hazy").mkdir()), r"expected frames.*hazy"),
    "a video without truth": (video_set, lambda r: (r / "gt/two.mp4").unlink(), r"clear video named two"),
    "a shorter video": (video_set, lambda r: put_video(r / "gt/one.mp4", scene(6, seed=0)), r"got 8 and 6"),
    "another frame rate": (
        video_set, lambda r: put_video(r / "gt/one.mp4", scene(8, seed=0), rate=30), r"one frame rate .*25 and 30",
    ),
    "a truth in two containers": (
        video_set, lambda r: shutil.copy(r / "gt/one.mp4", r / "gt/one.mkv"), r"one\.mkv and one\.mp4 in .* one name",
    ),
    "a truth under two names": (
        photo_set,
        lambda r: (r / "gt/00001_gt.png").write_bytes((r / "gt/00001.png").read_bytes()),
        r"00001\.png and 00001_gt\.png in .* one name",
    ),
    "a broken video": (video_set, lambda r: (r / "hazy/one.mp4").write_bytes(b"x" * 999), r"could not read .*one\.mp4"),
    "a photo without truth": (photo_set, lambda r: (r / "gt/00002.png").unlink(), r"clear frame named 00002_0\.8"),
    "a part without its truth": (
        parts_set, lambda r: shutil.rmtree(r / "Train/gt"), r"expected a part 'train' in .*, found Test",
    ),
    "a frame of a part is missing": (
        parts_set, lambda r: (r / "Train/gt/clip/00002.png").unlink(), r"as many hazy as clear frames in clip",
    ),
}  # fmt: skip
"""What opening the set refuses."""


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_when_the_set_is_opened(name, tmp_path):
    make, mutate, sentence = REFUSED[name]
    assert open_pairs(make(tmp_path / "right"), "train"), "right before it was changed"
    root = make(tmp_path / "set")
    mutate(root)
    with pytest.raises(InputError, match=sentence):
        open_pairs(root, "train")
    with pytest.raises(InputError, match=sentence):
        open_dataset(root, split="train")


NAMED: dict[str, tuple[Mutation, str]] = {
    "clips that are mixed up": (lambda r: swap(r / "clear/one", r / "clear/two"), "clip one: .* not show the same"),
    "a mirrored side": (lambda r: rewrite(r / "clear", lambda i: i[:, ::-1]), r"clip one: .* do not show the same"),
    "a side upside down": (lambda r: rewrite(r / "clear/two", lambda i: i[::-1]), "clip two: .* not show the same"),
    "sides that are swapped": (lambda r: swap(r / "clear", r / "hazy"), r"the sides may be swapped"),
    "the same images on both sides": (
        lambda r: (shutil.rmtree(r / "clear"), shutil.copytree(r / "hazy", r / "clear")), r"are the same image",
    ),
    "a clear side two frames late": (lambda r: shift_in_time(r / "clear/one", 2), "2 earlier: the sides are out"),
    "a hazy side one frame late": (lambda r: shift_in_time(r / "hazy/one", 1), r"1 later: the sides are out of step"),
}  # fmt: skip
"""What a comparison of the sides names, although every name, number and size is right."""


@pytest.mark.parametrize("name", NAMED)
def test_wrong_pairs_of_equal_size_are_named(name, tmp_path):
    mutate, sentence = NAMED[name]
    root = right_set(tmp_path)
    assert compare_sides(open_pairs(root)).problems == (), "right before it was changed"
    mutate(root)
    problems = " ".join(compare_sides(open_pairs(root)).problems)
    assert re.search(sentence, problems), problems


def test_a_right_set_of_every_layout_agrees(tmp_path):
    for make in (right_set, flat_set, photo_set, video_set, parts_set):
        agreement = compare_sides(open_pairs(make(tmp_path / make.__name__), "all"))
        assert agreement.problems == (), make
        assert agreement.lowest > 0.8


def test_gaps_and_unused_truths_are_named(tmp_path, caplog):
    root = right_set(tmp_path)
    for side in ("hazy", "clear"):
        (root / side / "one" / "00004.png").unlink()
    put(root / "clear" / "three", scene(8, seed=5))
    one, two = open_pairs(root)
    assert (one.gaps, two.gaps) == ("1 of the numbers 0 to 7 is missing: 4", "")
    assert "clear/three has no hazy counterpart" in caplog.text


def test_a_broken_frame_is_named_where_it_is_read(tmp_path):
    root = right_set(tmp_path)
    (root / "hazy/one/00004.png").write_bytes((root / "hazy/one/00004.png").read_bytes()[:200])
    (one, _) = open_pairs(root)
    with pytest.raises(InputError, match=r"damaged|truncated"):
        compare_sides([one])


@pytest.mark.parametrize("deep", [False, True], ids=["frames", "clips"])
def test_sides_under_other_names_are_asked_about(tmp_path, deep):
    """Never read as two hazy clips of a set without ground truth."""
    clear = scene(4, seed=0)
    for name, frames in (("fog_0.8", make_hazy(clear)), ("sunny", clear)):
        put(tmp_path / name / "clip" if deep else tmp_path / name, frames)
    assert open_pairs(tmp_path) is None
    for ask in (open_dataset, refuse_alike_folders):
        with pytest.raises(InputError, match=r"fog_0\.8/ and sunny/ .* hazy .*fog_0\.8 clear .*sunny"):
            ask(tmp_path)
    (pair,) = folder_pairs(tmp_path / "fog_0.8", tmp_path / "sunny")
    (clip,) = open_dataset(tmp_path / "fog_0.8", clear=tmp_path / "sunny")
    assert len(pair) == len(clip) == 4
    if not deep:
        assert [clip.name for clip in open_dataset(tmp_path, all_hazy=True)] == ["fog_0.8", "sunny"]


def test_both_sides_in_one_folder_are_told_apart_by_nobody(tmp_path):
    """As NH-HAZE has them: measured as hazy frames alone, half of them would be ground truth."""
    for name in ("01_hazy.png", "01_GT.png", "02_hazy.png", "02_GT.png"):
        cv2.imwrite(str(tmp_path / name), np.full((32, 32, 3), 90, np.uint8))
    for ask in (open_dataset, refuse_alike_folders):
        with pytest.raises(InputError, match=r"01_hazy.png and 01_GT.png .* put each side into a folder"):
            ask(tmp_path)
    for name in ("01_GT.png", "02_GT.png"):
        (tmp_path / name).unlink()
    assert len(open_dataset(tmp_path)) >= 1


def test_clips_of_different_scenes_are_a_set_without_truth(tmp_path):
    for index, name in enumerate(("one", "two")):
        put(tmp_path / name, make_hazy(scene(3, seed=index)))
    assert [clip.name for clip in open_dataset(tmp_path)] == ["one", "two"]


def test_frames_without_leading_zeros_are_read_in_their_order(tmp_path):
    clear = scene(8, seed=0)
    put(tmp_path / "hazy", make_hazy(clear), first=5, form="{}.png")
    put(tmp_path / "clear", clear, first=5, form="{}.png")
    (pair,) = open_pairs(tmp_path)
    assert [path.stem for path in pair.clear.paths] == [str(n) for n in range(5, 13)]
    assert all(np.array_equal(pair.clear.read(i), frame) for i, frame in enumerate(clear))
    (clip,) = open_dataset(tmp_path)
    assert [path.stem for path in clip.hazy.paths] == [str(n) for n in range(5, 13)]


def test_the_same_folder_is_no_pair(tmp_path):
    put(tmp_path / "hazy", scene(2, seed=0))
    with pytest.raises(InputError, match=r"two different folders, got .*hazy as the hazy and as the clear side"):
        folder_pairs(tmp_path / "hazy", tmp_path / "hazy")


def test_sixteen_bits_stay_sixteen_bits(tmp_path):
    """Values between two of 8 bits reach the trainer, packed sets too."""
    from libranet.data import ClipWindows, WindowConfig, pack_pairs, packed_pairs

    clear = np.random.default_rng(0).integers(0, 65535, (32, 48, 3), np.uint16)
    for side, image in (("hazy", clear // 2 + 20000), ("clear", clear)):
        for suffix in ("png", "tif"):
            folder = tmp_path / suffix / side
            folder.mkdir(parents=True)
            cv2.imwrite(str(folder / f"0.{suffix}"), image[..., ::-1])
    for suffix in ("png", "tif"):
        clips: list[PairedClip] = open_pairs(tmp_path / suffix)
        pack_pairs(clips, tmp_path / f"packed-{suffix}")
        for opened in (clips, packed_pairs(tmp_path / f"packed-{suffix}")):
            assert np.array_equal(opened[0].clear.read(0), clear)
            sample = ClipWindows(opened, WindowConfig(window=1, crop=None, random=False))[0]
            assert np.array_equal((sample["clear"].permute(1, 2, 0).numpy() * 65535).round(), clear)


def test_deep_video_is_read_in_sixteen_bits(tmp_path):
    with av.open(str(tmp_path / "v.mkv"), "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv444p10le"
        ramp = np.linspace(0, 65535, SIZE[0]).astype(np.uint16)
        image = np.ascontiguousarray(np.broadcast_to(ramp[None, :, None], (SIZE[1], SIZE[0], 3)))
        container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb48le")))
        container.mux(stream.encode(None))
    frame = VideoFrames(tmp_path / "v.mkv").read(0)
    assert frame.dtype == np.uint16
    assert len(np.unique(frame[0, :, 0] % 257)) > 10, "no multiples of 8-bit values"


def test_versions_of_a_scene_below_hazy_are_hazy(tmp_path):
    for strength in (0.2, 0.5):
        put(tmp_path / "hazy" / f"v_{strength}", make_hazy(scene(3, seed=0), strength))
    assert [clip.name for clip in open_dataset(tmp_path)] == ["v_0.2", "v_0.5"]


def test_hidden_folders_are_no_clips_and_what_is_left_out_is_named(tmp_path, caplog):
    root = right_set(tmp_path / "set")
    put(root / "hazy" / ".thumbnails", scene(2, seed=3))
    assert [clip.name for clip in open_pairs(root)] == ["one", "two"]
    shutil.copytree(root / "hazy" / "one", root / "hazy" / "DAVIS" / "one")
    shutil.copytree(root / "clear" / "one", root / "clear" / "DAVIS" / "one")
    assert [clip.name for clip in open_pairs(root)] == ["DAVIS/one"]
    assert "one, two is left out" in caplog.text
    parts = parts_set(tmp_path / "parts")
    shutil.rmtree(parts / "Test" / "gt")
    with pytest.raises(InputError, match=r"two sides in every part, found none in .*Test"):
        open_pairs(parts, "all")

"""Files and folders as people have them: read right, refused before the first frame, or named."""

import re
import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from libranet.data import open_pairs
from libranet.data.agreement import compare_sides, require_pairs
from libranet.errors import InputError
from libranet.evaluation.clips import open_dataset
from libranet.sequences import folders_in, is_clip, list_images
from libranet.synth.sources import find_sources
from tiny_set import make_hazy
from toy_pairs import put, put_video, rewrite, scene


def toy_set(root: Path, count: int = 8) -> Path:
    for seed, name in enumerate(("one", "two")):
        put(root / "clear" / name, scene(count, seed=seed))
        put(root / "hazy" / name, make_hazy(scene(count, seed=seed)))
    return root


def save_as(suffix: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for path in list(folder.rglob("*.png")):
            cv2.imwrite(str(path.with_suffix(suffix)), cv2.imread(str(path)))
            path.unlink()

    return change


def shorter(path: Path) -> None:
    cv2.imwrite(str(path), cv2.imread(str(path))[:40])


def cmyk(path: Path) -> None:
    """A JPEG file's header with four colours; only that is read."""
    path.with_suffix(".jpg").write_bytes(
        b"\xff\xd8\xff\xc0\x00\x14\x08\x00\x40\x00\x60\x04"
        + b"\x01\x11\x00\x02\x11\x00\x03\x11\x00\x04\x11\x00\xff\xd9"
    )
    path.unlink()


def pages(path: Path) -> None:
    cv2.imwritemulti(str(path.with_suffix(".tif")), scene(2, seed=0))
    path.unlink()


def freeze(folder: Path) -> None:
    for number in (5, 6, 7):
        shutil.copy(folder / "00004.png", folder / f"{number:05d}.png")


def late_shift(root: Path) -> None:
    shutil.rmtree(root)
    toy_set(root, 40)
    frames = scene(40, seed=0)
    put(root / "clear" / "one", frames[:25] + frames[26:] + frames[-1:])


def swap_clip(root: Path) -> None:
    (root / "hazy/one").rename(root / "aside")
    (root / "clear/one").rename(root / "hazy/one")
    (root / "aside").rename(root / "clear/one")


def folder_of_server(root: Path) -> None:
    for place in ("hazy/@eaDir/one", "hazy/one/@eaDir", "__MACOSX/hazy", "hazy/.cache"):
        put(root / place, scene(1, seed=3))
    for name in (".DS_Store", "Thumbs.db", "desktop.ini"):
        (root / "hazy/one" / name).write_bytes(b"x")


def accents(root: Path) -> None:
    for side, form in (("hazy", "NFC"), ("clear", "NFD")):
        (root / side / "one").rename(root / side / unicodedata.normalize(form, "K\u00f6ln 1\u00b23"))


def circles(root: Path) -> None:
    (root / "hazy/one/up").symlink_to(root / "hazy")
    (root / "hazy/again").symlink_to(root)


def linked(root: Path) -> None:
    """Folders of clips elsewhere, as HazeWorld's own step links them."""
    for side in ("hazy", "clear"):
        (root / "store" / side).mkdir(parents=True)
        for name in ("one", "two"):
            (root / side / name).rename(root / "store" / side / name)
        (root / side / "DAVIS").symlink_to(root / "store" / side)


RIGHT: dict[str, Callable[[Path], object]] = {
    "another format on one side": lambda r: save_as(".bmp")(r / "hazy"),
    "two formats in one clip": lambda r: (save_as(".bmp")(r / "hazy"), cv2.imwrite(
        str(r / "hazy/one/00003.png"), cv2.imread(str(r / "hazy/one/00003.bmp"))), (r / "hazy/one/00003.bmp").unlink()),
    "capital suffixes": lambda r: [p.rename(p.with_suffix(".PNG")) for p in (r / "hazy").rglob("*.png")],
    "16 bits beside 8": lambda r: rewrite(r / "hazy", lambda i: i.astype(np.uint16) * 257),
    "folders of file servers and systems": folder_of_server,
    "accents and superscripts, from two systems": accents,
    "links in circles": circles,
    "linked folders": linked,
}  # fmt: skip


@pytest.mark.parametrize("way", RIGHT)
def test_it_is_right(way, tmp_path):
    root = toy_set(tmp_path / "set")
    RIGHT[way](root)
    clips = open_pairs(root)
    assert [len(clip) for clip in clips] == [8, 8]
    assert compare_sides(clips).problems == ()
    assert len(open_dataset(root)) == 2


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a hazy frame of another size": (lambda r: shorter(r / "hazy/one/00002.png"), "96x40 for the hazy frame 2"),
    "a clear frame of another size": (lambda r: shorter(r / "clear/two/00005.png"), "96x40 for the clear frame 5"),
    "one frame of another size on both sides": (
        lambda r: [shorter(r / side / "one/00002.png") for side in ("hazy", "clear")], "96x40 for the hazy frame 2",
    ),
    "sides that are turned": (
        lambda r: rewrite(r / "clear", lambda i: np.ascontiguousarray(i.transpose(1, 0, 2))), "96x64 and 64x96",
    ),
    "an empty file": (lambda r: (r / "hazy/one/00003.png").write_bytes(b""), r"00003\.png is empty"),
    "a page instead of a frame": (lambda r: (r / "hazy/one/00003.png").write_text("<html>404"), "damaged or unknown"),
    "CMYK": (lambda r: cmyk(r / "clear/one/00003.png"), "is a CMYK image"),
    "a format that is not read": (
        lambda r: [p.rename(p.with_suffix(".exr")) for p in (r / "clear/one").iterdir()], r"none with a name of \.png",
    ),
    "several pages in a file": (lambda r: pages(r / "hazy/two/00001.png"), "holds 2 images"),
    "a broken link": (
        lambda r: ((p := r / "hazy/one/00003.png").unlink(), p.symlink_to("/nowhere")), "as many hazy as clear",
    ),
    "different gaps": (
        lambda r: [(r / p).unlink() for p in ("hazy/one/00002.png", "clear/one/00004.png")], "frame named 00003",
    ),
    "a side that is a file": (lambda r: (shutil.rmtree(r / "hazy"), (r / "hazy").touch()), "found clear/"),
}  # fmt: skip


@pytest.mark.parametrize("way", REFUSED)
def test_it_is_refused_before_the_first_frame(way, tmp_path):
    spoil, sentence = REFUSED[way]
    root = toy_set(tmp_path / "set")
    spoil(root)
    with pytest.raises(InputError, match=sentence):
        require_pairs(root)


NAMED: dict[str, tuple[Callable[[Path], object], str]] = {
    "red and blue swapped": (lambda r: rewrite(r / "clear/one", lambda i: i[..., ::-1]), "clip one: red and blue"),
    "a grey clear side": (
        lambda r: rewrite(r / "clear", lambda i: i.mean(-1).astype(np.uint8)), "clip two: clear frame . is grey",
    ),
    "a grey hazy side": (
        lambda r: rewrite(r / "hazy", lambda i: i.mean(-1).astype(np.uint8)), "clip two: hazy frame . is grey",
    ),
    "10 bits in 16": (lambda r: rewrite(r, lambda i: i.astype(np.uint16) * 4), "clip one: 16-bit values end at"),
    "one clip's sides swapped": (swap_clip, "more contrast than the clear one in one"),
    "a black clear side": (lambda r: rewrite(r / "clear/two", lambda i: i * 0), "in two: .* or clear frames empty"),
    "frames that stand still": (lambda r: freeze(r / "hazy/one"), "clip one: hazy frame .* [12] earlier"),
    "a frame lost in the middle": (late_shift, "clip one: hazy frame .* 1 earlier"),
    "another zoom": (
        lambda r: rewrite(r / "clear/one", lambda i: cv2.resize(i[3:-3, 5:-5], (96, 64))), "clip one: .* do not show",
    ),
    "black bars": (
        lambda r: rewrite(r / "clear/one", lambda i: cv2.copyMakeBorder(cv2.resize(i, (96, 48)), 8, 8, 0, 0, 0)),
        "clip one: .* do not show",
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", NAMED)
def test_it_is_named(way, tmp_path):
    spoil, sentence = NAMED[way]
    root = toy_set(tmp_path / "set")
    assert compare_sides(open_pairs(root)).problems == ()
    spoil(root)
    found = "; ".join(compare_sides(open_pairs(root)).problems)
    assert re.search(sentence, found), found or "read as if it were right"


def test_a_video_is_also_compared_near_its_end(tmp_path):
    frames = scene(300, seed=0)  # a key frame every 250
    put_video(tmp_path / "hazy/a.mp4", make_hazy(frames))
    put_video(tmp_path / "clear/a.mp4", frames[:150] + frames[151:] + frames[-1:])
    (problem,) = compare_sides(open_pairs(tmp_path)).problems
    assert re.search(r"clip a: hazy frame 25\d shows what clear frame .* 1 earlier", problem)


def test_synthesis_and_unpaired_sets_find_the_same_clips_at_any_depth(tmp_path):
    for place in ("a", "b/a", "b/c/d", ".thumbs", "b/@eaDir"):
        put(tmp_path / place, scene(4, seed=0), form="{}.png")
    put_video(tmp_path / "b/v.mp4", scene(4, seed=1))
    (tmp_path / "b/loop").symlink_to(tmp_path)
    sources = find_sources([str(tmp_path)], scenes=0, seed=0)
    assert [source.path.relative_to(tmp_path).as_posix() for source in sources] == ["a", "b/v.mp4", "b/a", "b/c/d"]
    assert [clip.name for clip in open_dataset(tmp_path)] == ["a", "b-a", "b-c-d", "b-v"]


def test_links_to_each_other_end(tmp_path):
    for here, there in (("a", "b"), ("b", "a")):
        put(tmp_path / here, scene(1, seed=0))
        (tmp_path / here / "other").symlink_to(tmp_path / there)
    found = [place.relative_to(tmp_path).as_posix() for place in folders_in(tmp_path)]
    assert found == [".", "a", "a/other", "b", "b/other"]


def test_one_frame_of_another_size_makes_no_photos_of_a_clip(tmp_path):
    """Photos of one clip would be split over train and test."""
    put(tmp_path, scene(8, seed=0))
    shorter(tmp_path / "00004.png")
    assert is_clip(list_images(tmp_path))

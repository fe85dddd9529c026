"""Every layout with frames, spoiled in every way: refused, or named, by what opens and compares a set."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from libranet.data import PairedClip, folder_pairs, open_pairs
from libranet.data.agreement import compare_sides
from libranet.errors import InputError
from tiny_set import make_hazy
from toy_pairs import half_size, put, rewrite, scene, shift_in_time, swap

Opener = Callable[[Path], list[PairedClip] | None]
LAYOUTS: dict[str, tuple[str, str, Opener]] = {
    "hazy beside clear": ("hazy/a", "clear/a", open_pairs),
    "sides given by name": ("fog/a", "sun/a", lambda root: folder_pairs(root / "fog", root / "sun")),
    "flat": ("hazy", "clear", open_pairs),
    "REVIDE": ("Train/hazy/a", "Train/gt/a", open_pairs),
    "HazeWorld": ("train/hazy/DAVIS/a_0.1_0.9", "train/gt/DAVIS/a", open_pairs),
}
"""Where the frames of a clip's two sides are, and what opens the set."""


def make(root: Path, layout: str) -> tuple[Path, Path]:
    """Write one clip; HazeWorld has to have all of its subsets."""
    hazy, clear = (root / place for place in LAYOUTS[layout][:2])
    frames = scene(8, seed=0)
    put(clear, frames)
    put(hazy, make_hazy(frames))
    for subset in ("DDAD", "UA-DETRAC") if layout == "HazeWorld" else ():
        put(root / "train/gt" / subset / "b", scene(3, seed=1))
        put(root / "train/hazy" / subset / "b", make_hazy(scene(3, seed=1)))
    return hazy, clear


def renamed(folder: Path, form: str) -> None:
    for path in sorted(folder.iterdir(), reverse=True):
        path.rename(path.with_name(form.format(int(path.stem))))


def renumbered(folder: Path, by: int) -> None:
    for path in sorted(folder.iterdir(), reverse=True):
        path.rename(path.with_name(f"{int(path.stem) + by:05d}.png"))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:300])


def emptied(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


WAYS: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "a clear frame is missing": (lambda h, c: (c / "00003.png").unlink(), "as many hazy|named 00003"),
    "a hazy frame is missing": (lambda h, c: (h / "00003.png").unlink(), "as many hazy as clear"),
    "the last hazy frame is missing": (lambda h, c: (h / "00007.png").unlink(), "as many hazy as clear"),
    "numbers off by one": (lambda h, c: renumbered(c, 1), "clear frame named 0000[07]"),
    "other names": (lambda h, c: renamed(c, "frame{}.png"), "clear frame named 00000"),
    "hazy of half the size": (lambda h, c: rewrite(h, half_size), "one size"),
    "clear of half the size": (lambda h, c: rewrite(c, half_size), "one size"),
    "clear frames cut at the top": (lambda h, c: rewrite(c, lambda i: i[8:]), "one size"),
    "another size in the last frame": (lambda h, c: put(c, [scene(1, seed=0)[0][:40]], first=7), "one size"),
    "a frame in two formats": (lambda h, c: put(h, scene(1, seed=0), form="{:05d}.jpg"), "one frame twice"),
    "a number in two spellings": (lambda h, c: put(c, scene(1, seed=0), form="{}.png"), "one frame twice"),
    "no hazy frames": (lambda h, c: emptied(h), "expected frames|found none|found neither|no hazy counterpart"),
    "no clear frames": (lambda h, c: emptied(c), "missing|named 00000|found none with a name of"),
    "no clear folder": (lambda h, c: shutil.rmtree(c), "missing|found neither|found none|expected a folder"),
    "a mirrored side": (lambda h, c: rewrite(c, lambda i: i[:, ::-1]), "do not show the same"),
    "a side upside down": (lambda h, c: rewrite(h, lambda i: i[::-1]), "do not show the same"),
    "another scene": (lambda h, c: put(c, scene(8, seed=5)), "do not show the same"),
    "the same images twice": (lambda h, c: put(c, make_hazy(scene(8, seed=0))), "are the same image"),
    "sides that are swapped": (swap, "may be swapped"),
    "a clear side two frames late": (lambda h, c: shift_in_time(c, 2), "out of step"),
    "a hazy side one frame late": (lambda h, c: shift_in_time(h, 1), "out of step"),
    "a gap in both sides": (lambda h, c: [(s / "00002.png").unlink() for s in (h, c)], "1 of the numbers 0 to 7"),
    "a broken frame": (lambda h, c: cut(c / "00004.png"), "damaged|truncated|could not be read"),
    "shuffled frames": (
        lambda h, c: put(c, [scene(8, seed=0)[n] for n in (5, 0, 7, 1, 2, 3, 6, 4)]),
        "do not show the same",
    ),
}


def judgement(layout: str, root: Path) -> str:
    """All that opening and comparing the set says."""
    try:
        clips = LAYOUTS[layout][2](root)
        if clips is None:
            return "found neither"
        clips = [clip for clip in clips if not clip.name.endswith("/b")]
        if not clips:
            return "only the other subsets are left"
        return "; ".join([*compare_sides(clips).problems, *(clip.gaps for clip in clips)])
    except InputError as error:
        return str(error)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_right_set_is_right(layout, tmp_path):
    make(tmp_path, layout)
    assert judgement(layout, tmp_path) == ""


@pytest.mark.parametrize("layout", LAYOUTS)
def test_frames_without_leading_zeros_are_in_order(layout, tmp_path):
    sides = make(tmp_path, layout)
    for side in sides:
        renumbered(side, 5)
        renamed(side, "{}.png")
    assert judgement(layout, tmp_path) == ""
    clip = next(clip for clip in LAYOUTS[layout][2](tmp_path) if len(clip) == 8)
    assert all(np.array_equal(clip.clear.read(i), frame) for i, frame in enumerate(scene(8, seed=0)))


SHORT = ("hazy beside clear", "flat")
"""Layouts of the short suite."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "layout", [name if name in SHORT else pytest.param(name, marks=pytest.mark.more) for name in LAYOUTS]
)
def test_it_is_refused_or_named(layout, way, tmp_path, caplog):
    spoil, sentence = WAYS[way]
    hazy, clear = make(tmp_path, layout)
    spoil(hazy, clear)
    found = judgement(layout, tmp_path) + caplog.text
    assert re.search(sentence, found), found or "read as if it were right"


def test_the_toy_set_is_worth_looking_at():
    """Frames that hardly differ would hide a shift in time."""
    first, second = (cv2.resize(frame, (8, 8), interpolation=cv2.INTER_AREA) for frame in scene(2, seed=0))
    assert np.abs(first.astype(int) - second.astype(int)).mean() > 1

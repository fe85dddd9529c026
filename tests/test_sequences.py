"""Frames in natural order, their numbers and gaps, and what is a clip."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from libranet.errors import InputError
from libranet.sequences import (
    describe_gaps,
    is_clip,
    list_frames,
    list_images,
    natural_order,
    running_numbers,
)
from tiny_set import make_frames


def paths(*names: str) -> list[Path]:
    return [Path(name) for name in names]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(numbers=st.sets(st.integers(0, 10**6), min_size=1, max_size=8), prefix=st.sampled_from(["", "f_", "a1-"]))
def test_numbers_sort_as_numbers_with_and_without_leading_zeros(numbers, prefix):
    for form in ("{}{}.png", "{}{:07d}.png"):
        names = [Path(form.format(prefix, n)) for n in sorted(numbers)]
        assert natural_order(reversed(names)) == names
        assert running_numbers(names) == sorted(numbers) or len(names) == 1


def test_clips_sort_naturally_too():
    assert natural_order(paths("clip10/2.png", "clip2/10.png", "clip2/9.png")) == paths(
        "clip2/9.png", "clip2/10.png", "clip10/2.png"
    )


GAPS = {
    "none": ("5 6 7 8", ""),
    "one": ("5 6 8", "1 of the numbers 5 to 8 is missing: 7"),
    "several": ("1 2 5 6 9", "4 of the numbers 1 to 9 are missing: 3 to 4, 7 to 8"),
    "many places": ("1 3 4 6 7 9 11 12", "4 of the numbers 1 to 12 are missing: 2, 5, 8 and 1 more places"),
    "every tenth frame of a video": ("10 20 30 40", ""),
}


@pytest.mark.parametrize("name", GAPS)
def test_gaps_are_named(name):
    numbers, sentence = GAPS[name]
    assert describe_gaps([Path(f"f_{n}.png") for n in numbers.split()]) == sentence


def test_names_with_several_numbers_have_no_running_one():
    assert running_numbers(paths("a1_b1.png", "a2_b2.png")) is None
    assert running_numbers(paths("shot2_001_hazy.png", "shot2_002_hazy.png")) == [1, 2]
    assert running_numbers(paths("lake.png", "road.png")) is None


def test_hidden_files_are_no_frames_and_doubles_are_refused(tmp_path):
    for name in ("1.png", "2.png", "._1.png", ".hidden.jpg"):
        (tmp_path / name).write_bytes(b"x")
    assert [path.name for path in list_images(tmp_path)] == ["1.png", "2.png"]
    for double in ("02.png", "2.jpg"):
        (tmp_path / double).write_bytes(b"x")
        with pytest.raises(InputError, match=r"one frame twice, as "):
            list_frames(tmp_path)
        (tmp_path / double).unlink()


def test_a_clip_is_numbered_of_one_size_and_each_frame_resembles_the_last(tmp_path):
    def put(name: str, image: np.ndarray) -> Path:
        cv2.imwrite(str(tmp_path / name), image)
        return tmp_path / name

    frames = make_frames(12)
    assert is_clip([put(f"{n}.png", frame) for n, frame in enumerate(frames)])
    assert not is_clip([put(f"IMG_{n}.png", make_frames(1, seed=n)[0]) for n in range(8)]), "an album"
    assert not is_clip([put(name, frame) for name, frame in zip(("a.png", "b.png"), frames, strict=False)])
    assert not is_clip([put("s1.png", frames[0]), put("s2.png", frames[1][:40])])
    broken = [put(f"b{n}.png", frame) for n, frame in enumerate(frames)]
    broken[3].write_bytes(b"no image")
    assert is_clip(broken), "who reads the clip names the broken file"

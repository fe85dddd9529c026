"""`--scale`: sizes, shapes, and the samples of scaled frames."""

from contextlib import suppress
from fractions import Fraction

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clips import textured_frame
from libranet.errors import InputError
from libranet.video.pixels import layout_of, plane_views
from libranet.video.scale import FrameScaler, check_scale, scaled_size, scaled_tags
from libranet.video.tags import VideoTags

YUV420, RGB = layout_of("yuv420p"), layout_of("gbrp")


@pytest.mark.parametrize(
    ("text", "size", "turns", "expected"),
    [
        ("1/2", (3840, 2160), 0, (1920, 1080)),
        ("2/1", (320, 180), 0, (640, 360)),
        ("720p", (3840, 2160), 0, (1280, 720)),
        ("720p", (2160, 3840), 0, (720, 1280)),
        ("720p", (3840, 1600), 0, (1728, 720)),
        ("1280x720", (640, 480), 0, (1280, 720)),
        ("720x1280", (3840, 2160), 1, (1280, 720)),  # a player turns it: upright it is 720 wide
        ("1/3", (1921, 1081), 0, (640, 360)),
    ],
)
def test_sizes(text, size, turns, expected):
    assert scaled_size(text, *size, layout=YUV420, turns=turns) == expected


@pytest.mark.parametrize("text", ["", "half", "0/2", "1/0", "720", "1280x", "-1/2", "1280x720x3", "p", "1/2 ", "9e9p"])
def test_what_is_no_size(text):
    with pytest.raises(InputError, match=r"1280x720.*720p.*1/2"):
        check_scale(text)


@pytest.mark.parametrize("text", ["1/1000", "8x8", "99999p", "1000/1"])
def test_impossible_sizes(text):
    with pytest.raises(InputError, match="expected sides from 16 to 16384"):
        scaled_size(text, 640, 480, layout=YUV420)


@given(st.integers(16, 8000), st.integers(16, 8000), st.integers(1, 9), st.integers(1, 9))
def test_fractions_keep_the_shape(width, height, above, below):
    try:
        found = scaled_size(f"{above}/{below}", width, height, layout=YUV420)
    except InputError:
        return
    for side, before in zip(found, (width, height), strict=True):
        assert side % 2 == 0
        assert abs(side - before * above / below) <= 1


@pytest.mark.parametrize("name", ["yuv420p", "yuv422p10le", "yuva444p10le", "gbrp", "gbrp12le", "gray", "yuv444p16le"])
@pytest.mark.parametrize("tagged", [(1, 1), (2, 1), (1, 9), (0, 2)])
def test_flat_frames_stay_exactly_as_they_are(name, tagged):
    frame = av.VideoFrame(64, 48, name)
    frame.color_range, frame.colorspace = tagged
    values = [3 + 41 * index for index in range(4)]
    for view, value in zip(plane_views(frame), values, strict=False):
        view[...] = value
    for size in ((32, 24), (100, 70)):
        scaled = FrameScaler(*size).scale(frame)
        assert (scaled.width, scaled.height, scaled.format.name) == (*size, name)
        assert (scaled.color_range, scaled.colorspace) == tagged
        for view, value in zip(plane_views(scaled), values, strict=False):
            assert abs(view.astype(int) - value).max() == 0


def test_content_stays_in_place():
    frame = textured_frame("yuv420p", 128, 96, 3)
    scaler = FrameScaler(64, 48)
    for _ in range(3):
        scaled = scaler.scale(frame)
    for before, after in zip(plane_views(frame), plane_views(scaled), strict=True):
        height, width = after.shape
        mean = before.reshape(height, 2, width, 2).mean((1, 3))
        assert np.abs(mean - after).mean() < 5
    assert FrameScaler(128, 96).scale(frame) is frame


def test_another_shape_is_told_to_players():
    same = scaled_tags(VideoTags(), (1920, 1080), (1280, 720))
    assert same.sample_aspect_ratio is None
    wide = scaled_tags(VideoTags(), (1440, 1080), (1920, 1080))
    assert wide.sample_aspect_ratio == Fraction(3, 4)


@given(st.one_of(st.text(max_size=12), st.from_regex(r"[0-9x/p]{1,10}", fullmatch=True)))
def test_any_text_is_a_size_or_one_sentence(text):
    with suppress(InputError):
        size = scaled_size(text, 640, 480, layout=YUV420)
        assert all(16 <= side <= 16384 and side % 2 == 0 for side in size)

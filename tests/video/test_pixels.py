import av
import numpy as np
import pytest
import torch

from clips import textured_frame
from libranet.errors import InputError
from libranet.video.pixels import layout_of, planar_name, plane_views, read_planes, to_planar, write_planes


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("yuv420p", ("yuv", 8, 2, 2, False)),
        ("yuv422p10le", ("yuv", 10, 2, 1, False)),
        ("yuv411p", ("yuv", 8, 4, 1, False)),
        ("yuva444p12le", ("yuv", 12, 1, 1, True)),
        ("gbrp16le", ("rgb", 16, 1, 1, False)),
        ("gray", ("gray", 8, 1, 1, False)),
    ],
)
def test_layouts(name, expected):
    layout = layout_of(name)
    assert (layout.model, layout.bits, layout.sub_x, layout.sub_y, layout.alpha) == expected


@pytest.mark.parametrize(
    ("packed", "planar"),
    [("nv12", "yuv420p"), ("p010le", "yuv420p10le"), ("yuyv422", "yuv422p"), ("rgb24", "gbrp"), ("yuvj420p", "yuv420p"),
     ("rgb48be", "gbrp16le"), ("yuv420p10be", "yuv420p10le"), ("rgba", "gbrap"), ("bgr24", "gbrp")],
)  # fmt: skip
def test_packed_formats_keep_their_samples(packed, planar):
    """There and back again through FFmpeg's converter gives the packed samples bit for bit."""
    assert planar_name(packed) == planar
    original = textured_frame(planar, 32, 16, 0, full=True)
    original.color_range = 2
    there = original.reformat(format=packed, src_color_range=2, dst_color_range=2)
    there.color_range = 2
    back = to_planar(there)
    assert back.format.name == planar
    for a, b in zip(plane_views(original), plane_views(back), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("name", ["yuv420p", "yuv422p10le", "gbrp", "gray16le"])
def test_planes_come_and_go_unchanged(name):
    source, target = textured_frame(name, 35, 17, 3), av.VideoFrame(35, 17, name)
    planes = read_planes(source)
    write_planes(target, planes)
    for a, b in zip(planes, read_planes(target), strict=True):
        assert torch.equal(a, b)


def test_alpha_is_left_alone():
    frame = textured_frame("yuva420p", 16, 16, 0)
    alpha = plane_views(frame)[3].copy()
    write_planes(frame, [torch.zeros_like(plane) for plane in read_planes(frame)[:3]])
    assert np.array_equal(plane_views(frame)[3], alpha)
    assert plane_views(frame)[0].max() == 0


def test_an_unknown_format_is_refused():
    with pytest.raises(InputError, match="not supported"):
        planar_name("xyz12le")

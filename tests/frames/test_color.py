"""YUV <-> RGB against the numbers of the standards and against FFmpeg's own converter."""

import av
import numpy as np
import pytest
import torch

from clips import textured_frame
from libranet.errors import InputError
from libranet.frames import ColorConverter, ColorSpec
from libranet.frames.color import LUMA_WEIGHTS
from libranet.video.pixels import layout_of, read_planes
from libranet.video.tags import matrix_of_tag

# Colour bars of 100 %, 8 bit limited range, as BT.601 and BT.709 colour bar tables give them.
BARS = {
    "bt709": {
        (1, 1, 1): (235, 128, 128),
        (1, 1, 0): (219, 16, 138),
        (0, 1, 1): (188, 154, 16),
        (0, 1, 0): (173, 42, 26),
        (1, 0, 1): (78, 214, 230),
        (1, 0, 0): (63, 102, 240),
        (0, 0, 1): (32, 240, 118),
        (0, 0, 0): (16, 128, 128),
    },
    "bt601": {
        (1, 1, 0): (210, 16, 146),
        (0, 1, 1): (170, 166, 16),
        (0, 1, 0): (145, 54, 34),
        (1, 0, 1): (106, 202, 222),
        (1, 0, 0): (81, 90, 240),
        (0, 0, 1): (41, 240, 110),
    },
}


def converter(name: str, **spec) -> ColorConverter:
    return ColorConverter(layout_of(name), ColorSpec(**{"matrix": "bt709", "full_range": False, **spec}))


@pytest.mark.parametrize("matrix", BARS)
def test_colour_bars_have_the_standards_codes(matrix):
    for rgb, codes in BARS[matrix].items():
        planes = [torch.full((16, 16), code, dtype=torch.uint8) for code in codes]
        got = converter("yuv444p", matrix=matrix).to_rgb(planes)[0, :, 0, 0]
        assert torch.allclose(got, torch.tensor(rgb, dtype=torch.float32), atol=0.006), (rgb, got)


@pytest.mark.parametrize("matrix", LUMA_WEIGHTS)
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("bits", ["", "10le", "12le", "16le"])
def test_against_double_precision(matrix, full, bits):
    """The whole path against the standard's equations written out in numpy, away from the borders of the RGB cube."""
    name = f"yuv444p{bits}"
    layout = layout_of(name)
    generator = np.random.default_rng(0)
    rgb = generator.uniform(0.1, 0.9, (3, 8, 8))
    k_r, k_b = LUMA_WEIGHTS[matrix]
    y = k_r * rgb[0] + (1 - k_r - k_b) * rgb[1] + k_b * rgb[2]
    cb, cr = (rgb[2] - y) / (2 * (1 - k_b)), (rgb[0] - y) / (2 * (1 - k_r))
    top = 2.0**layout.bits
    if full:
        codes = [y * (top - 1), cb * (top - 1) + top / 2, cr * (top - 1) + top / 2]
    else:
        codes = [(219 * y + 16) * top / 256, (224 * cb + 128) * top / 256, (224 * cr + 128) * top / 256]
    planes = [torch.from_numpy(np.rint(code)).int() for code in codes]
    got = converter(name, matrix=matrix, full_range=full).to_rgb(planes)[0]
    assert np.abs(got.numpy() - rgb).max() < 1.6 / (219 * top / 256)


@pytest.mark.parametrize(("tag", "matrix"), [(1, "bt709"), (6, "bt601"), (9, "bt2020")])
@pytest.mark.parametrize("full", [False, True])
def test_against_ffmpeg(tag, matrix, full):
    """swscale to 16 bit RGB, without subsampling in between: equal within its own rounding."""
    frame = textured_frame("yuv444p", 48, 32, 0, full=full)
    color_range = 2 if full else 1
    frame.color_range, frame.colorspace = color_range, tag
    swscale = {1: 1, 6: 5, 9: 9}[tag]
    reference = frame.reformat(
        format="rgb48le", src_colorspace=swscale, src_color_range=color_range, dst_color_range=2
    ).to_ndarray()
    got = converter("yuv444p", matrix=matrix, full_range=full).to_rgb(read_planes(frame))
    difference = np.abs(got[0].permute(1, 2, 0).numpy() - reference / 65535)
    assert difference.max() < 0.008
    assert difference.mean() < 0.003


@pytest.mark.parametrize(
    "name", ["yuv420p", "yuv422p10le", "yuv444p12le", "yuv440p", "yuv410p", "gbrp16le", "gray10le"]
)
@pytest.mark.parametrize("siting", ["left", "center", "topleft", "bottom"])
def test_no_change_is_no_change(name, siting):
    """Any codes at all, legal or not, in odd sizes."""
    generator = np.random.default_rng(1)
    frame = av.VideoFrame(33, 21, name)
    convert = converter(name, siting=siting)
    planes = [
        torch.from_numpy(generator.integers(0, convert.layout.peak + 1, plane.shape)).int()
        for plane in read_planes(frame)
    ]
    rgb = convert.to_rgb(planes)
    assert rgb.shape == (1, 3, 21, 33)
    assert 0.0 <= rgb.min() <= rgb.max() <= 1.0
    for before, after in zip(planes, convert.add_change(planes, torch.zeros_like(rgb)), strict=True):
        assert torch.equal(before, after)


@pytest.mark.parametrize("name", ["yuv420p", "yuv444p10le", "gbrp", "gray"])
def test_rgb_goes_into_an_array_that_was_used_before(name):
    convert = converter(name)
    first, second = (read_planes(textured_frame(name, 33, 21, index)) for index in (0, 5))
    rgb = convert.to_rgb(first)
    assert convert.to_rgb(second, out=rgb) is rgb
    assert torch.equal(rgb, convert.to_rgb(second))
    assert not torch.equal(rgb, convert.to_rgb(first))


@pytest.mark.parametrize("name", ["yuv420p", "yuv422p", "yuv444p", "yuv420p10le", "gbrp", "gray"])
@pytest.mark.parametrize("siting", ["left", "center", "topleft"])
def test_a_smooth_change_arrives(name, siting):
    """Changing codes by what an RGB change asks for, then reading RGB again, gives that change."""
    convert = converter(name, siting=siting)
    frame = av.VideoFrame(64, 48, name)
    planes = [
        torch.full(plane.shape, round(0.5 * convert.layout.peak), dtype=torch.int32) for plane in read_planes(frame)
    ]
    y, x = torch.meshgrid(torch.linspace(0, 1, 48), torch.linspace(0, 1, 64), indexing="ij")
    change = 0.1 * torch.stack([torch.sin(3 * x), torch.cos(2 * y), x * y])[None]
    if name == "gray":
        change = change.mean(1, keepdim=True).expand(-1, 3, -1, -1)
    before = convert.to_rgb(planes)
    after = convert.to_rgb(convert.add_change(planes, change))
    error = (after - before - change).abs()
    assert error[..., 2:-2, 2:-2].max() < 1.7 / 219  # rounding of Y and of one chroma sample
    assert error.max() < 2.2 / 219  # beyond the outermost chroma sample there is nothing to interpolate with


@pytest.mark.parametrize(("siting", "shift"), [("left", 0.0), ("center", 0.5), ("topleft", 0.0)])
def test_chroma_lies_where_the_siting_says(siting, shift):
    """A chroma ramp reads back as the same ramp in luma coordinates."""
    convert = converter("yuv420p10le", siting=siting)
    width = 32
    ramp = torch.arange(width // 2).float() * 2 + shift  # luma position of each chroma sample
    chroma = (512 + 4 * ramp).round().int().expand(8, -1).contiguous()
    planes = [torch.full((16, width), 502, dtype=torch.int32), torch.full((8, width // 2), 512).int(), chroma]
    red = convert.to_rgb(planes)[0, 0, 4]
    slope = (red[3:-3] - red[2:-4]).numpy()
    assert np.ptp(slope) < 1e-4
    expected = 4 * 2 * (1 - 0.2126) / (224 * 4)
    assert abs(slope.mean() - expected) < 1e-4
    at_ten = (502 - 64) / 876 + expected * 10
    assert abs(float(red[10]) - at_ten) < 2e-3


def test_unknown_matrices_are_refused():
    assert matrix_of_tag(2, 720) == "bt709"
    assert matrix_of_tag(2, 576) == "bt601"
    with pytest.raises(InputError, match="not supported"):
        matrix_of_tag(8, 720)

"""One pass in and one pass out equal the reference for every kind of frame, and a change of zero is bit-exact."""

import pytest
import torch
import torch.nn.functional as F

from libranet.frames import ColorConverter, ColorSpec, FrameFormat, PixelLayout
from libranet.frames.format import PLANAR_RGB_FLOAT, RGB8, RGB16, RGB_FLOAT
from libranet.kernels.conv3x3.panels import make_map
from libranet.kernels.native.library import LEVELS
from libranet.kernels.resample.reference import downsample, pad_to_multiple, upsample
from libranet.kernels.samples.panels import SampleFormat, cell_means

SIDE = 16


def yuv(bits: int, sub_x: int, sub_y: int) -> PixelLayout:
    return PixelLayout(f"yuv{bits}", "yuv", bits, sub_x, sub_y, alpha=False)


FORMATS = [
    (RGB8, ColorSpec(), 45, 39),
    (yuv(8, 2, 2), ColorSpec(full_range=False), 45, 67),
    (RGB16, ColorSpec(), 48, 40),
    (RGB_FLOAT, ColorSpec(), 45, 39),
    (PLANAR_RGB_FLOAT, ColorSpec(), 45, 131),
    (PixelLayout("gray", "gray", 8, 1, 1, alpha=False), ColorSpec(full_range=False), 45, 39),
    (yuv(10, 2, 2), ColorSpec("bt2020", full_range=False, siting="topleft"), 47, 133),
    (yuv(8, 1, 1), ColorSpec(), 48, 40),
    (yuv(8, 2, 1), ColorSpec("bt601", full_range=False, siting="center"), 45, 39),
    (yuv(8, 4, 4), ColorSpec("bt601", full_range=False, siting="bottomleft"), 47, 131),
    (yuv(8, 4, 1), ColorSpec("bt601", full_range=True, siting="left"), 46, 40),
]


def make_planes(format_: FrameFormat, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    layout = format_.layout
    shapes = [shape[1:] for shape in format_.plane_shapes(1)]
    if layout.floating:
        return tuple(torch.rand(shape, generator=generator) for shape in shapes)
    codes = [torch.randint(0, layout.peak + 1, shape, generator=generator, dtype=torch.int32) for shape in shapes]
    return tuple(plane.to(layout.dtype) for plane in codes)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("layout", "color", "width", "height"), FORMATS, ids=lambda value: getattr(value, "name", None)
)
def test_both_passes_equal_the_reference(layout, color, width, height, level, use_level):
    use_level(level)
    generator = torch.Generator().manual_seed(0)
    format_ = FrameFormat(width, height, layout, color)
    planes = make_planes(format_, generator)
    passes, converter = SampleFormat(format_, SIDE), ColorConverter(layout, color)
    h, w = passes.cells
    cells = make_map(h, w, 48)
    low, small = passes.read(planes, cells)
    again = make_map(h, w, 48)
    assert torch.equal(passes.read(planes, again, encode=False)[0], low)
    assert (again == cells).all()
    rgb = pad_to_multiple(converter.to_rgb(planes), 4)
    assert (low - downsample(rgb, (h, w))).abs().max() <= 1e-6
    assert (small - (downsample(rgb, (SIDE, SIDE)) * 2 - 1)).abs().max() <= 2e-6
    found = torch.from_numpy(cells[1 : h + 1, 1 : w + 1]).permute(2, 0, 1).unflatten(0, (4, 3, 4)).transpose(0, 1)
    assert (found.flatten(0, 2) - F.pixel_unshuffle(rgb, 4)[0]).abs().max() <= 1e-6

    delta = torch.randn(1, 3, h, w, generator=generator) * 0.1
    residual = torch.randn(1, 48, h, w, generator=generator) * 0.05
    ordered = make_map(h, w, 48)
    ordered[1 : h + 1, 1 : w + 1] = residual[0].unflatten(0, (3, 4, 4)).transpose(0, 1).flatten(0, 2).permute(1, 2, 0)
    change = upsample(delta, (4 * h, 4 * w)) + 0.7 * F.pixel_shuffle(residual, 4)
    image = rgb[..., :height, :width]
    change = (image + change[..., :height, :width]).clamp(0, 1) - image
    expected = converter.add_change(planes, change)
    out = tuple(torch.empty_like(plane) for plane in planes)
    passes.finish(planes, delta, ordered, 0.7, out)
    for mine, theirs, given in zip(out, expected, planes, strict=True):
        difference = (mine.float() - theirs.float()).abs()
        assert difference.max() <= (1e-6 if layout.floating else 1.0)
        assert difference.gt(1e-6).float().mean() <= 2e-3  # a tie may be rounded to the other side
        assert (theirs.float() - given.float()).abs().mean() > 0.01 * layout.peak
    means = residual.unflatten(1, (3, 16)).mean(dim=2)
    assert (cell_means(ordered, (h, w)) - means).abs().max() <= 1e-6

    passes.finish(planes, torch.zeros_like(delta), ordered, 0.0, out)
    assert all(torch.equal(mine, given) for mine, given in zip(out, planes, strict=True))


def test_sizes_that_would_be_enlarged_are_left_to_torch():
    assert SampleFormat(FrameFormat(32, 48, RGB8), 32).reduces
    assert not SampleFormat(FrameFormat(32, 28, RGB8), 32).reduces

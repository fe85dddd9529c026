import numpy as np
import pytest
import torch
from torch.nn.functional import avg_pool2d

from libranet.frames import ColorConverter, FrameFormat
from libranet.frames.format import RGB8
from libranet.video.pixels import layout_of
from libranet.video.visualize import (
    contact_sheet,
    estimate_airlight,
    haze_heat_map,
    removed_haze_transmission,
    split_view,
)

LAYOUTS = [RGB8, layout_of("yuv420p"), layout_of("yuv422p10le"), layout_of("gray16le")]


def rgb_of(planes, format_: FrameFormat) -> torch.Tensor:
    return ColorConverter(format_.layout, format_.color).to_rgb(planes)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@pytest.mark.parametrize("size", [(16, 16), (48, 64), (192, 320), (1080, 1920), (721, 401)])
def test_split_has_both_halves_and_a_line(size, layout):
    format_ = FrameFormat(size[1], size[0], layout)
    converter = ColorConverter(layout, format_.color)
    black, gray = (tuple(converter.encode(torch.full((1, 3, *size), value))) for value in (0.0, 0.5))
    halves = split_view(black, gray, format_)
    row = rgb_of(halves, format_)[0, 0, -1]
    middle = size[1] // 2
    assert row[: middle - 4].max() == 0
    assert row[middle] > 0.99
    assert (row[middle + 4 :] - 0.5).abs().max() < 0.01
    assert all(torch.equal(a, b) for a, b in zip(gray, converter.encode(torch.full((1, 3, *size), 0.5)), strict=True))


def test_labels_are_white_on_a_darker_strip():
    format_ = FrameFormat(640, 360, layout_of("yuv420p"))
    gray = tuple(ColorConverter(format_.layout, format_.color).encode(torch.full((1, 3, 360, 640), 0.5)))
    strip = rgb_of(split_view(gray, gray, format_), format_)[0, :, 10:40]
    assert strip.max() > 0.9
    assert 0.2 < strip.min() < 0.25
    assert (strip[0] - strip[2]).abs().max() < 0.02  # no colour


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@pytest.mark.parametrize("size", [(16, 16), (192, 320), (161, 243), (1080, 1920)])
def test_dense_haze_is_brighter_than_clear_air(size, layout):
    transmission = torch.ones(1, 1, size[0] // 4, size[1] // 4)
    transmission[..., : size[1] // 8] = 0.1
    format_ = FrameFormat(size[1], size[0], layout)
    image = rgb_of(haze_heat_map(transmission, format_), format_)
    assert image.shape == (1, 3, *size)
    assert image[..., : size[0] // 2, : size[1] // 4].mean() > image[..., : size[0] // 2, -size[1] // 4 :].mean() + 0.2


def test_a_heat_map_has_the_same_colours_in_every_format():
    transmission = torch.linspace(0, 1, 60)[None, None, None].repeat(1, 1, 40, 1)
    rgb, yuv = (FrameFormat(240, 160, layout) for layout in (RGB8, layout_of("yuv420p")))
    difference = rgb_of(haze_heat_map(transmission, rgb), rgb) - rgb_of(haze_heat_map(transmission, yuv), yuv)
    assert difference[..., :80, :].abs().mean() < 0.01


@pytest.mark.parametrize("size", [(96, 160), (1280, 720), (720, 1280)])
def test_a_contact_sheet_has_a_row_per_pair(size):
    dark, light = np.zeros((*size, 3), np.uint8), np.full((*size, 3), 200, np.uint8)
    one = contact_sheet([(dark, light, "0 s")], title="a.mp4")
    two = contact_sheet([(dark, light, "0 s")] * 2, title="a.mp4")
    assert one.dtype == np.uint8
    assert two.shape[0] > 1.5 * one.shape[0] - 100
    assert two.shape[1] == one.shape[1]
    middle = one.shape[1] // 2
    assert one[-60, middle - 100].tolist() == [0, 0, 0]
    assert one[-60, middle + 100].tolist() == [200, 200, 200]


def scene(height: int = 64, width: int = 96) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(1, 3, height // 16, width // 16, generator=generator) * 0.6
    return torch.nn.functional.interpolate(coarse, size=(height, width), mode="nearest")


@pytest.mark.parametrize("t", [0.2, 0.5, 0.9, 1.0])
def test_known_haze_is_found_again(t):
    clear, light = scene(), torch.tensor([0.85, 0.88, 0.9])[None, :, None, None]
    hazy = clear * t + light * (1 - t)
    hazy[..., :24, :] = light  # a strip of sky, from which the light is known
    known = clear.clone()
    known[..., :24, :] = light
    found = removed_haze_transmission(*(avg_pool2d(image, 4) for image in (hazy, known)))
    assert found.shape == (1, 1, 16, 24)
    assert (found[..., 6:, :] - t).abs().max() < 0.03
    assert torch.allclose(estimate_airlight(hazy)[0], light[0, :, 0, 0], atol=1e-3)


def test_no_change_is_clear_air():
    image = scene()
    image[..., :24, :] = 0.9
    image = avg_pool2d(image, 4)
    assert removed_haze_transmission(image, image)[..., 6:, :].min() > 0.95


@pytest.mark.parametrize("size", [(16, 16), (17, 33), (45, 79)])
def test_any_size(size):
    image = torch.rand(1, 3, *size)
    found = removed_haze_transmission(image, image * 0.5)
    assert found.isfinite().all()
    assert 0 <= found.min() <= found.max() <= 1

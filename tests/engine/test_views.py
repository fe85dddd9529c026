"""What a frame shows: comparisons, heat maps, their labels, and the haze that was removed."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from libranet.engine import views
from libranet.engine.views import FrameView
from libranet.frames import ColorConverter, FrameFormat
from libranet.frames.format import RGB8
from libranet.kernels.drawing.reference import removed_haze_out
from libranet.network.haze_map import estimate_airlight
from libranet.runtime import Restored
from libranet.video.pixels import layout_of

LAYOUTS = [RGB8, layout_of("yuv420p"), layout_of("yuv422p10le"), layout_of("gray16le")]


def rgb_of(planes, format_: FrameFormat) -> Tensor:
    return ColorConverter(format_.layout, format_.color).to_rgb(planes)


def split_view(before, after, format_: FrameFormat, turns: int = 0):
    return FrameView(format_, format_, compare="split", turns=turns).draw(Restored(before, after, format_))


@pytest.fixture
def draw_map(monkeypatch: pytest.MonkeyPatch):
    """Draws a given transmission instead of an estimated one."""

    def draw(transmission: Tensor, format_: FrameFormat, view: str = "haze"):
        monkeypatch.setattr(views, "haze_map", lambda _: lambda *_: transmission)
        black = flat(format_, 0.0)
        return FrameView(format_, format_, view=view).draw(Restored(black, black, format_))

    return draw


def removed_haze_transmission(hazy: Tensor, clear: Tensor) -> Tensor:
    found = torch.empty(hazy.shape[-2:])
    removed_haze_out(hazy[0], clear[0], estimate_airlight(hazy)[0], found)
    return found[None, None]


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
def test_dense_haze_is_brighter_than_clear_air(size, layout, draw_map):
    transmission = torch.ones(1, 1, size[0] // 4, size[1] // 4)
    transmission[..., : size[1] // 8] = 0.1
    format_ = FrameFormat(size[1], size[0], layout)
    image = rgb_of(draw_map(transmission, format_), format_)
    assert image.shape == (1, 3, *size)
    assert image[..., : size[0] // 2, : size[1] // 4].mean() > image[..., : size[0] // 2, -size[1] // 4 :].mean() + 0.2


def test_a_heat_map_has_the_same_colours_in_every_format(draw_map):
    transmission = torch.linspace(0, 1, 60)[None, None, None].repeat(1, 1, 40, 1)
    rgb, yuv = (FrameFormat(240, 160, layout) for layout in (RGB8, layout_of("yuv420p")))
    difference = rgb_of(draw_map(transmission, rgb), rgb) - rgb_of(draw_map(transmission, yuv), yuv)
    assert difference[..., :80, :].abs().mean() < 0.01


def test_confidence_is_bright_where_the_haze_lets_light_through(draw_map):
    format_ = FrameFormat(320, 200, RGB8)
    transmission = torch.ones(1, 1, 40, 64)
    transmission[..., :32] = 0.02
    (shown,) = draw_map(transmission, format_, "confidence")
    left, right = shown[:160, :150].float().mean(), shown[:160, 170:].float().mean()
    assert left < 20
    assert right > 180


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


def flat(format_: FrameFormat, value: float):
    image = torch.full((1, 3, format_.height, format_.width), value)
    return tuple(ColorConverter(format_.layout, format_.color).encode(image))


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
@pytest.mark.parametrize("compare", ["split", "side"])
def test_the_original_is_on_the_left_of_what_a_player_shows(compare, turns):
    format_ = FrameFormat(320, 200, layout_of("yuv420p"))
    view = FrameView(format_, format_, compare=compare, turns=turns)
    shown = view.draw(Restored(flat(format_, 0.0), flat(format_, 0.5), format_))
    upright = torch.rot90(rgb_of(shown, view.output), turns, (2, 3))[0]
    middle = upright.shape[2] // 2
    assert upright[:, -8:, : middle - 4].max() == 0
    assert (upright[:, -8:, middle + 4 :] - 0.5).abs().max() < 0.01


@pytest.mark.parametrize("compare", [None, "split", "side"])
def test_the_scale_of_a_heat_map_is_whole_and_lies_on_the_heat_map(compare):
    format_ = FrameFormat(640, 360, RGB8)
    restored = Restored(flat(format_, 0.3), flat(format_, 0.3), format_)
    (shown,) = FrameView(format_, format_, compare=compare, view="haze").draw(restored)
    (alone,) = FrameView(format_, format_, view="haze").draw(restored)
    left = 640 if compare == "side" else 0
    white = (alone[317] == 255).all(-1)  # the border above the strip of colours
    begin = int(white.unfold(0, 62, 1).all(-1).nonzero()[0]) + 1
    scale = alone[320:328, begin : begin + 60].float()
    assert scale.std() > 40  # it is there
    assert torch.equal(shown[320:328, left + begin : left + begin + 60].float(), scale)


def test_a_gray_frame_is_shown_in_colour_where_the_output_has_it():
    gray, rgb = FrameFormat(64, 48, layout_of("gray")), FrameFormat(64, 48, RGB8)
    restored = Restored(flat(gray, 0.2), flat(gray, 0.6), gray)
    (shown,) = FrameView(gray, rgb, compare="side").draw(restored)
    assert shown.shape == (48, 128, 3)
    assert (shown[:, :64].float() / 255 - 0.2).abs().max() < 0.01
    assert (shown[:, 64:].float() / 255 - 0.6).abs().max() < 0.01

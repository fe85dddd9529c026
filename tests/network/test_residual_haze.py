"""Dense fog: plans change hazy frames alone, leave skies where they are, and are composed exactly."""

from dataclasses import replace

import pytest
import torch
from tests.tiny_network import TINY, make_config

from libranet.kernels.color_field.reference import apply_affine, fuse_grids, transforms
from libranet.network import LiBrANet, start_stream, stream_step
from libranet.network.libranet import Grids
from libranet.network.residual_haze import PLAN_MAPS, Clearing, fold, plan, view_frame

SIDE, BINS = 16, 8


def make_grids(scale: float = 0.0) -> Grids:
    generator = torch.Generator().manual_seed(0)
    chromatic = scale * torch.randn(1, 2, 12, BINS, SIDE, SIDE, generator=generator)
    return Grids(chromatic, scale * torch.randn(1, 12, 1, SIDE, SIDE, generator=generator))


def foggy_view() -> torch.Tensor:  # [1, 3, 64, 64]
    """Grey fog over faint stripes below an even sky."""
    rows, columns = torch.meshgrid(torch.arange(64.0), torch.arange(64.0), indexing="ij")
    scene = 0.55 + 0.04 * torch.sin(columns * 1.3)
    return torch.where(rows < 24, torch.full_like(scene, 0.75), scene).expand(1, 3, 64, 64).contiguous()


def restore(view: torch.Tensor, grids: Grids) -> torch.Tensor:
    matrix, offset, _ = transforms(fuse_grids(view, grids.chromatic, grids.plane))
    return apply_affine(matrix, offset, view)


def test_fog_gains_contrast_and_its_sky_keeps_its_light() -> None:
    view, grids = foggy_view(), make_grids()
    planned = plan(grids, view)
    assert planned.shape == (1, PLAN_MAPS, SIDE, SIDE)
    result = restore(view, fold(grids, planned))
    assert result[..., 40:, :].std() > 1.5 * view[..., 40:, :].std()
    assert (result[..., :8, :] - view[..., :8, :]).abs().max() < 10 / 255  # the lift of a dim frame moves it a little
    assert (result.amax(dim=1) - result.amin(dim=1)).max() < 1e-4, "grey stays grey"


def test_plans_of_many_frames_are_those_of_each_alone() -> None:
    views = [foggy_view(), foggy_view() * 0.8, foggy_view().flip(3) ** 1.5]
    grids = [make_grids(scale) for scale in (0.0, 0.02, 0.05)]
    joined = Grids(*(torch.cat(fields) for fields in zip(*((g.chromatic, g.temporal) for g in grids), strict=True)))
    assert torch.equal(plan(joined, torch.cat(views)), torch.cat(list(map(plan, grids, views))))


def test_a_clear_frame_keeps_its_grids_to_the_last_bit() -> None:
    view = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    grids = make_grids(0.05)
    planned = plan(grids, view)
    assert (planned[:, [0, 1, 6, 7, 8]] == 1).all()
    assert (planned[:, 2:6] == 0).all()
    assert torch.equal(fold(grids, planned).chromatic, grids.chromatic)


def test_colour_that_the_haze_cannot_have_carried_goes() -> None:
    view, grids = foggy_view(), make_grids()
    plane = grids.plane.clone()
    plane[:, 9] += 0.04  # the network paints grey fog red
    tinted = Grids(grids.chromatic, plane[:, :, None])
    before = restore(view, tinted)[..., 40:, :]
    after = restore(view, fold(tinted, plan(tinted, view)))[..., 40:, :]
    assert (before[:, 0] - before[:, 1]).mean() > 0.03
    assert (after[:, 0] - after[:, 1]).abs().mean() < 0.01


def test_dust_becomes_grey_and_other_colours_stay() -> None:
    """One warm hue over all of a hazy frame is dust; a red wall, a green wood and a frame of two hues are not."""
    grids, fog = make_grids(), foggy_view()
    colours = {"dust": (1.1, 0.97, 0.8), "red": (1.1, 0.9, 0.9), "green": (0.9, 1.05, 0.8), "blue": (0.85, 0.97, 1.1)}
    tints = {name: torch.tensor(colour).view(1, 3, 1, 1) for name, colour in colours.items()}
    white = {name: plan(grids, (fog * tint).clamp(0, 1))[:, 6:] for name, tint in tints.items()}
    assert all((white[name] == 1).all() for name in ("red", "green", "blue"))
    halves = torch.cat([fog[..., :32] * tints["dust"], fog[..., 32:] * tints["blue"]], dim=3)
    assert (plan(grids, halves)[:, 6:] == 1).all()

    dusty = fog * tints["dust"]
    result = restore(dusty, fold(grids, plan(grids, dusty)))
    before, after = (float((x[:, 0] - x[:, 2]).mean()) for x in (dusty, result))
    assert before > 0.15
    assert 0 <= after < 0.35 * before


def test_the_tint_goes_that_the_network_left_and_not_the_input_s() -> None:
    """A network that makes yellow haze yellower gets more taken away in what it restored."""
    dusty = foggy_view() * torch.tensor((1.1, 0.97, 0.8)).view(1, 3, 1, 1)
    plane = make_grids().plane.clone()
    plane[:, 11] -= 0.1  # less blue
    grids = Grids(make_grids().chromatic, plane[:, :, None])
    restored = restore(dusty, grids)
    white = plan(grids, dusty, Clearing(grey=1.0))[:, 6:, :1, :1]
    light = restored[..., :8, :].mean(dim=(2, 3), keepdim=True)
    assert ((white * light).amax() - (white * light).amin()) < 0.2 * (light.amax() - light.amin())


def test_no_patch_of_fog_gets_a_colour_of_its_own() -> None:
    """Grids that differ from cell to cell, as a network's do in dense fog: their colours are not enlarged with it."""
    view, grids = foggy_view(), make_grids(0.05)
    cells = [
        torch.nn.functional.avg_pool2d(x, 4)[..., 8:, :]
        for x in (restore(view, grids), restore(view, fold(grids, plan(grids, view))))
    ]
    spread = [float((x - x.mean(dim=1, keepdim=True)).square().mean().sqrt()) for x in cells]
    assert spread[1] < 0.6 * spread[0]


def test_a_plan_is_composed_as_the_transform_that_it_states() -> None:
    """Without lift, and below the shoulder: E A x + E b + offset, at greys of the bins' own levels."""
    grids = make_grids(0.05)
    planned = torch.zeros(1, PLAN_MAPS, SIDE, SIDE)
    planned[:, 0], planned[:, 1], planned[:, 2:5] = 1.6, 1.2, torch.tensor((-0.3, -0.32, -0.28)).view(3, 1, 1)
    planned[:, 6:] = white = torch.tensor((0.9, 1.0, 1.2)).view(3, 1, 1)
    level = 4.5 / BINS
    view = torch.full((1, 3, SIDE, SIDE), level)
    weights = torch.tensor((0.299, 0.587, 0.114)).view(1, 3, 1, 1)
    plain = white * restore(view, grids)
    luma = (plain * weights).sum(1, keepdim=True)
    expected = 1.2 * plain + 0.4 * luma + planned[:, 2:5]
    # Cayley's map is not linear, so between two guides and two bins it is exact only at vertices.
    found = restore(view, fold(grids, planned, Clearing(shoulder=1e-6)))
    assert (found - expected).abs().max() < 5e-3


@pytest.mark.parametrize("lookahead", [0, 2])
def test_streams_and_windows_clear_alike(lookahead: int) -> None:
    model = LiBrANet(replace(make_config(TINY), dense_fog=True)).eval()
    side = model.config.encoder.size
    frame = torch.linspace(0.4, 0.8, side).expand(1, 3, side, side).contiguous()  # a slope, so that all is seen
    state, found = start_stream(model, lookahead=lookahead), []
    for given in (frame, frame, frame, None, None):
        image, state = stream_step(model, given, state)
        found += [] if image is None else [image]
    whole = model(frame[:, None], still=True)
    assert torch.allclose(found[0], whole, atol=1e-6)
    model.config = replace(model.config, dense_fog=False)
    assert not torch.allclose(model(frame[:, None], still=True), whole, atol=1e-3)


def test_views_are_means_of_the_encoders_input() -> None:
    small = torch.rand(2, 3, 256, 256) * 2 - 1
    view = view_frame(small, SIDE)
    assert view.shape == (2, 3, 64, 64)
    assert torch.allclose(view[:, :, 0, 0], small[:, :, :4, :4].mean((2, 3)) * 0.5 + 0.5, atol=1e-6)


def test_an_empty_sky_gets_no_clouds() -> None:
    """Above dense fog with things in it, the faint hollow of a sky hardly grows: no gain makes a dark cloud of it."""
    rows, columns = torch.meshgrid(torch.arange(64.0), torch.arange(64.0), indexing="ij")
    hollow = 0.06 * torch.exp(-((rows - 8).square() + (columns - 32).square()) / 160)
    scene = 0.55 + 0.04 * torch.sin(columns * 1.3)
    view = torch.where(rows < 40, 0.75 - hollow, scene).expand(1, 3, 64, 64).contiguous()
    grids = make_grids()
    result = restore(view, fold(grids, plan(grids, view)))
    assert result[..., 52:, :].std() > 1.5 * view[..., 52:, :].std()
    depth = [float(x[..., 8, 0].mean() - x[..., 8, 32].mean()) for x in (view, result)]
    assert depth[1] < 1.5 * depth[0]

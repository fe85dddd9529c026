import dataclasses
import math

import numpy as np
import pytest
import torch

from clear_pictures import coloured_blocks, small_bank, small_source
from libranet.errors import InputError
from libranet.synth.scattering import REGIMES
from libranet.training import haze_draw
from libranet.training.batches import HazeOnTheFly, Share
from libranet.training.haze_config import HazeConfig
from libranet.training.haze_draw import draw_haze, draw_sky_colours, grade_colours
from libranet.training.photo_bank import load_bank, render_scenes

NO_HAZE = HazeConfig(clear=1.0, noise=0.0, dull=0.0, leftover=0.0)


def test_shapes_and_ranges():
    source = small_source()
    for step, size in ((0, (32, 32)), (1, (32, 48))):
        batch = source.batch(step, Share())
        assert batch.hazy.shape == (4, 5, 3, *size)
        assert batch.clear.shape == (4, 3, *size)
        for tensor in (batch.hazy, batch.clear):
            assert tensor.min() >= 0
            assert tensor.max() <= 1


def test_a_step_always_gives_the_same_batch_and_steps_differ():
    first, again, other = (
        small_source().batch(3, Share()),
        small_source().batch(3, Share()),
        small_source().batch(5, Share()),
    )
    assert torch.equal(first.hazy, again.hazy)
    assert torch.equal(first.clear, again.clear)
    assert not torch.equal(first.hazy, other.hazy)
    assert not torch.equal(first.hazy, small_source(seed=1).batch(3, Share()).hazy)


def test_shares_of_two_processes_join_to_the_batch_of_one():
    quiet = HazeConfig(noise=0.0)  # sensor noise is each process's own
    whole = small_source(haze=quiet).batch(2, Share())
    parts = [small_source(haze=quiet).batch(2, Share(rank, 2)) for rank in range(2)]
    assert torch.equal(torch.cat([part.hazy for part in parts]), whole.hazy)
    assert torch.equal(torch.cat([part.clear for part in parts]), whole.clear)


def test_without_haze_the_centre_frame_is_the_clear_one():
    batch = small_source(haze=NO_HAZE).batch(0, Share())
    assert (batch.hazy[:, 2] - batch.clear).abs().max() <= 0.5 / 255 + 1e-6


def test_haze_pulls_towards_a_bright_airlight_and_more_so_where_it_is_far():
    haze = HazeConfig(beta=(2.0, 2.0), near=(0, 0), gamma=(1, 1), even=0, clear=0, prior=0, blend=0, patches=0,
                      scene_light=0, airlight=(0.9, 0.9), tint=0, light_gradient=0, noise=0, dull=0, leftover=0,
                      still=1.0, zoom=(1, 1), floor=(0, 0), wavelength=0)  # fmt: skip
    bank = load_bank([coloured_blocks(1)], lines=72, device=torch.device("cpu"))
    source = HazeOnTheFly(bank, haze=haze, batch=2, crops=((64, 96),), window=5, scene_share=0, seed=0)
    batch = source.batch(0, Share())
    veil = (batch.hazy[:, 0] - 0.9).abs() / (batch.clear - 0.9).abs().clamp_min(0.1)
    top, bottom = veil[..., :8, :].median(), veil[..., -8:, :].median()
    assert top < 0.25
    assert bottom > 0.75


def test_motion_moves_the_frames_and_stillness_keeps_them():
    moving = small_source(haze=HazeConfig(noise=0, still=0.0, motion=0.05)).batch(0, Share()).hazy
    mixed = small_source(haze=HazeConfig(noise=0, still=0.5, motion=0.05), batch=16).batch(0, Share()).hazy
    assert (moving[:, 0] - moving[:, 4]).abs().mean() > 0.01
    stays = (mixed[:, 0] == mixed[:, 4]).flatten(1).all(1)
    assert 2 < int(stays.sum()) < 14


@pytest.mark.parametrize("squeeze", [0.0, 0.5])
@pytest.mark.parametrize("tilt", [0.0, 20.0])
def test_crops_stay_inside_narrow_pictures(squeeze: float, tilt: float):
    # A red portrait picture: the rest of its canvas must never be seen.
    picture = coloured_blocks(0, height=72, width=40)
    picture.image[:] = (200, 10, 10)
    bank = load_bank([picture], lines=72, device=torch.device("cpu"))
    assert float(bank.width[0]) < 0.35
    bank.fine[..., 41:] = 255
    haze = dataclasses.replace(NO_HAZE, squeeze=squeeze, tilt=tilt)
    source = HazeOnTheFly(bank, haze=haze, batch=8, crops=((32, 32),), window=5, scene_share=0, seed=0)
    assert source.batch(0, Share()).hazy[:, :, 1].max() < 0.1


def test_crops_may_be_wider_or_narrower_than_they_are():
    picture = coloured_blocks(0)
    picture.image[..., 0] = np.linspace(0, 255, picture.image.shape[1])
    picture.image[..., 1] = np.linspace(0, 255, picture.image.shape[0])[:, None]
    bank = load_bank([picture], lines=72, device=torch.device("cpu"))
    ratios = []
    for squeeze in (0.0, 0.3):
        haze = dataclasses.replace(NO_HAZE, squeeze=squeeze, still=1.0)
        source = HazeOnTheFly(bank, haze=haze, batch=8, crops=((32, 32),), window=5, scene_share=0, seed=0)
        red, green = source.batch(0, Share()).clear[:, :2].unbind(1)
        across, down = (red[:, :, -1] - red[:, :, 0]).mean(1).abs(), (green[:, -1] - green[:, 0]).mean(1)
        ratios.append(torch.log(across / down))
    assert ratios[0].std() < 0.03
    assert ratios[1].std() > 0.08
    assert (ratios[1] - ratios[0].mean()).abs().max() < 0.35


def test_a_tilted_camera_leans_by_at_most_the_angle_and_keeps_right_angles():
    picture = coloured_blocks(0)
    height, width = picture.image.shape[:2]
    picture.image[..., 0] = np.arange(width)
    picture.image[..., 1] = np.arange(height)[:, None]
    bank = load_bank([picture], lines=72, device=torch.device("cpu"))
    haze = dataclasses.replace(NO_HAZE, tilt=10.0, still=1.0, zoom=(0.9, 0.9))
    source = HazeOnTheFly(bank, haze=haze, batch=16, crops=((48, 64),), window=5, scene_share=0, seed=0)
    x, y = (source.batch(0, Share()).clear[:, :2, 8:-8, 8:-8] * 255).unbind(1)

    def slopes(value: torch.Tensor) -> torch.Tensor:  # [B, 2], per pixel across and down
        across, down = value[:, :, -1] - value[:, :, 0], value[:, -1] - value[:, 0]
        return torch.stack([across.mean(1) / (value.shape[2] - 1), down.mean(1) / (value.shape[1] - 1)], 1)

    along, upright = slopes(x), slopes(y)
    angle = torch.atan2(upright[:, 0].abs(), upright[:, 1]).rad2deg()
    assert angle.max() > 4
    assert angle.max() < 10.5
    right = (along * upright).sum(1) / along.norm(dim=1) / upright.norm(dim=1)
    assert right.abs().max() < 0.03


def test_rendered_scenes_bring_their_depth():
    device = torch.device("cpu")
    bank = load_bank(
        [*render_scenes(1, 1, seed=3, lines=36, device=device), coloured_blocks(0)], lines=36, device=device
    )
    assert bank.rendered.tolist() == [True, False]
    assert bank.has_depth.tolist() == [True, True]
    assert bank.depth[0].float().std() > 5
    source = HazeOnTheFly(bank, haze=HazeConfig(), batch=64, crops=((32, 32),), window=1, scene_share=0.5, seed=0)
    chosen = bank.rendered[source._choose(64, torch.Generator().manual_seed(0))]
    assert 10 < int(chosen.sum()) < 54


def test_photos_without_depth_use_the_prior():
    bank = small_bank()
    assert bank.has_depth.tolist() == [False, True, True, False, True, True]


def test_regimes_lie_over_the_plain_depth_and_nothing_else():
    haze = HazeConfig(regimes=1.0, regime_spread=0.0, noise=0.0, still=1.0, zoom=(1, 1))
    bank = load_bank([coloured_blocks(1)], lines=72, device=torch.device("cpu"))
    source = HazeOnTheFly(bank, haze=haze, batch=8, crops=((64, 96),), window=5, scene_share=0, seed=0)
    batch = source.batch(0, Share())
    fits = [
        min(REGIMES, key=lambda regime: _misfit(pair, regime.airlight))
        for pair in zip(batch.hazy[:, 0], batch.clear, strict=True)
    ]
    for pair, regime in zip(zip(batch.hazy[:, 0], batch.clear, strict=True), fits, strict=True):
        assert _misfit(pair, regime.airlight) < 0.02
    assert len({regime.airlight for regime in fits}) > 1


def _misfit(pair: tuple[torch.Tensor, torch.Tensor], light: tuple[float, ...]) -> float:
    """In I t + A (1 - t) the right airlight makes t equal in all channels: how unequal is it with this one?"""
    hazy, clear = pair
    from_light = clear - torch.tensor(light)[:, None, None]
    t = (hazy - torch.tensor(light)[:, None, None]) / from_light
    sure = (from_light.abs() > 0.2).all(0)
    return float((t.amax(0) - t.amin(0))[sure].median())


def test_still_windows_hold_their_frame_once():
    batch = small_source(haze=HazeConfig(still=1.0)).batch(0, Share())
    assert batch.still
    assert batch.hazy.shape[1] == 1


def test_varied_pictures_differ_from_the_photo_but_stay_near_it():
    varied = dataclasses.replace(NO_HAZE, vary=1.0)
    plain, other = (small_source(haze=haze).batch(0, Share()).clear for haze in (NO_HAZE, varied))
    difference = (plain - other).abs().mean((1, 2, 3))
    assert (difference > 0.003).all()
    assert (difference < 0.2).all()


def test_skies_get_other_colours_and_the_ground_keeps_its_own():
    picture = coloured_blocks(0)
    picture.depth[:], picture.image[:] = 100, 120
    picture.depth[:36] = 255
    bank = load_bank([picture], lines=72, device=torch.device("cpu"))
    haze = dataclasses.replace(NO_HAZE, skies=1.0, zoom=(1, 1), still=1.0)
    source = HazeOnTheFly(bank, haze=haze, batch=32, crops=((64, 96),), window=5, scene_share=0, seed=0)
    clear = source.batch(0, Share()).clear
    sky, ground = clear[:, :, :24].mean((2, 3)), clear[:, :, 40:]
    torch.testing.assert_close(ground, torch.full_like(ground, 120 / 255), atol=0.01, rtol=0)
    assert (sky.std(0) > 0.08).all()
    red, blue = sky[:, 0], sky[:, 2]
    assert 0.4 < (blue > red + 0.02).float().mean() < 0.9  # most skies are blue, some are warm
    assert (red > blue + 0.02).any()


def test_drawn_skies_are_as_bright_and_as_blue_as_those_of_photos():
    colours = draw_sky_colours(4000, torch.Generator().manual_seed(0))
    brightest = colours.amax(1)
    assert 0.76 < brightest.median() < 0.84
    assert 0.02 < (brightest < 0.55).float().mean() < 0.08
    torch.testing.assert_close(colours.mean(0), torch.tensor([0.58, 0.68, 0.775]), atol=0.03, rtol=0)
    blueness = colours[:, 2] - colours[:, 0]
    assert 0.15 < blueness.median() < 0.21  # 0.17 in 305 photos
    assert 0.07 < (blueness < -0.03).float().mean() < 0.13  # 0.10
    assert (blueness.abs() <= 0.03).float().mean() < 0.2  # 0.11


def test_casts_of_colour_do_not_grow_with_the_other_changes_of_a_camera():
    n = 2000
    for by in (1.0, 2.5):
        haze = HazeConfig(vary=1.0, vary_by=by, cast=0.02)
        draw = draw_haze(haze, torch.ones(n), torch.zeros(n, 3), torch.ones(n) > 0, torch.Generator().manual_seed(1))
        assert 0.018 < draw.balance.log().std() < 0.022
        assert 0.10 * by < draw.tone.log().std() < 0.14 * by


def test_a_cast_beyond_all_cameras_is_refused():
    with pytest.raises(InputError, match=r"cast in \[0, 1\], got 1.5"):
        HazeConfig(cast=1.5)


def test_a_drawn_sky_is_the_same_through_every_camera(monkeypatch: pytest.MonkeyPatch):
    wanted = torch.tensor([0.55, 0.65, 0.72])
    monkeypatch.setattr(haze_draw, "draw_sky_colours", lambda n, generator: wanted.expand(n, 3))
    n, sky = 64, torch.tensor([0.5, 0.6, 0.8])
    haze = HazeConfig(skies=1.0, vary=1.0, vary_by=2.5, cast=0.1, dull=0.5)
    draw = draw_haze(haze, torch.ones(n), sky.expand(n, 3), torch.ones(n) > 0, torch.Generator().manual_seed(1))
    picture = sky.view(1, 1, 3, 1, 1).expand(n, 1, 3, 2, 2)
    seen = grade_colours(picture, torch.ones(n, 1, 1, 2, 2), torch.zeros(n, 1, 2, 2, 2), draw)
    assert draw.saturation.std() > 0.1
    assert draw.tone.std() > 0.1
    torch.testing.assert_close(seen.mean((1, 3, 4)), wanted.expand(n, 3), atol=0.005, rtol=0)


def test_varied_pictures_are_as_colourful_as_the_photos_on_the_average():
    def colourfulness(vary: float) -> float:
        source = half_sky(vary=vary, vary_by=2.5, cast=0.1)
        source.bank.fine.copy_(torch.tensor([120, 140, 100]).view(3, 1, 1))
        source.bank.coarse.copy_(torch.tensor([120, 140, 100]).view(3, 1, 1))
        clear = torch.cat([source.batch(step, Share()).clear for step in range(20)])
        return float((clear.amax(1) - clear.amin(1)).mean())

    assert 0.88 < colourfulness(1.0) / colourfulness(0.0) < 1.08


def test_even_haze_can_be_darker_than_the_walls():
    darker = dataclasses.replace(
        NO_HAZE, clear=0.0, even=1.0, even_airlight=(0.3, 0.3), scene_light=0, tint=0, light_gradient=0, beta=(2.5, 2.5)
    )
    source = small_source(haze=darker)
    source.bank.fine.fill_(230)
    source.bank.coarse.fill_(230)
    assert 0.3 < source.batch(0, Share()).hazy.mean() < 0.45


def test_a_regimes_depth_may_bend_but_its_sky_stays():
    bank = load_bank([coloured_blocks(1)], lines=72, device=torch.device("cpu"))
    plain, other = (
        HazeOnTheFly(
            bank,
            haze=HazeConfig(regimes=1.0, regime_spread=0, noise=0, regime_gamma=gamma, still=1.0, zoom=(1, 1)),
            batch=4,
            crops=((64, 96),),
            window=1,
            scene_share=0,
            seed=0,
        ).batch(0, Share())
        for gamma in ((1.0, 1.0), (0.5, 0.5))
    )
    change = (plain.hazy - other.hazy).abs()[:, 0].mean((0, 1, 3))
    assert change[0] < 0.02
    assert change[16:48].mean() > 0.04


def test_a_sky_stays_the_farthest_whatever_the_prior():
    picture = coloured_blocks(0)
    picture.image[:], picture.depth[36:] = 20, 0
    picture.depth[:36] = 255
    bank = load_bank([picture], lines=72, device=torch.device("cpu"))
    haze = HazeConfig(beta=(2.0, 2.0), near=(0, 0), gamma=(1, 1), even=0, clear=0, prior=1.0, patches=0, scene_light=0,
                      airlight=(1, 1), tint=0, light_gradient=0, noise=0, dull=0, leftover=0, still=1.0, zoom=(1, 1),
                      floor=(0, 0), wavelength=0)  # fmt: skip
    source = HazeOnTheFly(bank, haze=haze, batch=8, crops=((64, 96),), window=1, scene_share=0, seed=0)
    hazy = source.batch(0, Share()).hazy[:, 0]
    through = math.exp(-2.0)
    sky, ground = hazy[:, :, :24], hazy[:, :, 40:]
    torch.testing.assert_close(sky, torch.full_like(sky, 1 - through * (1 - 20 / 255)), atol=0.006, rtol=0)
    assert ground.std((1, 2, 3)).min() > 0.02  # there the prior is at work


def test_a_sky_can_be_another_pictures():
    blue, red = coloured_blocks(0), coloured_blocks(1)
    for picture, colour, rows in ((blue, (40, 80, 200), 36), (red, (200, 80, 40), 18)):
        picture.depth[:], picture.image[:] = 100, 120
        picture.depth[:rows], picture.image[:rows] = 255, colour
    bank = load_bank([blue, red], lines=72, device=torch.device("cpu"))
    haze = dataclasses.replace(NO_HAZE, swap=1.0, zoom=(1, 1), still=1.0)
    source = HazeOnTheFly(bank, haze=haze, batch=32, crops=((64, 96),), window=5, scene_share=0, seed=0)
    clear = source.batch(0, Share()).clear * 255
    wide = clear[:, :, 24].mean(-1)  # a row of sky in the first picture, of ground in the second
    is_blue, is_red, is_ground = (
        ((wide - torch.tensor(colour)).abs() < 5).all(1) for colour in ((40, 80, 200), (200, 80, 40), (120, 120, 120))
    )
    assert (is_blue | is_red | is_ground).all()
    assert is_blue.any()  # drew itself
    assert is_red.any()  # stretched from a quarter of the height to a half
    assert is_ground.any()
    assert ((clear[:, :, 40:] - 120).abs() < 1).all()


@pytest.mark.parametrize("still", [0.0, 1.0])
def test_pairs_are_one_frame_apart(still: float):
    haze = HazeConfig(noise=0, still=still, motion=0.05)
    source = small_source(haze=haze, batch=4)
    source.pairs = True
    batch = source.batch(0, Share())
    assert len(batch) == 4
    for first in (0, 2):
        assert (batch.clear[first] - batch.clear[first + 1]).abs().mean() > 0.003
        if still == 0:  # the second window is the first one, a frame later
            torch.testing.assert_close(batch.hazy[first, 1:], batch.hazy[first + 1, :-1], atol=1.01 / 255, rtol=0)
    assert (batch.clear[0] - batch.clear[1]).abs().mean() < (batch.clear[0] - batch.clear[2]).abs().mean()


def half_sky(**haze: object) -> HazeOnTheFly:
    """A source with one picture: a blue sky over a grey ground."""
    picture = coloured_blocks(0)
    picture.depth[:], picture.image[:] = 100, 120
    picture.depth[:36], picture.image[:36] = 255, (40, 80, 200)
    bank = load_bank([picture], lines=72, device=torch.device("cpu"))
    config = dataclasses.replace(NO_HAZE, zoom=(1, 1), still=1.0, **haze)
    return HazeOnTheFly(bank, haze=config, batch=32, crops=((64, 96),), window=5, scene_share=0, seed=0)


def test_fog_is_the_airlight_in_the_target_too():
    dense = {"clear": 0.0, "beta": (2.5, 2.5), "even": 0.0, "gamma": (1.0, 1.0), "patches": 0.0, "floor": (0.0, 0.0)}
    batch = half_sky(overcast=1.0, **dense).batch(0, Share())
    hazy, clear = batch.hazy[:, 0, :, :24].mean((2, 3)), batch.clear[:, :, :24].mean((2, 3))
    assert (hazy - clear).abs().max() < 0.15  # a clear blue sky would be up to 0.8 away
    assert ((batch.clear[:, :, 40:] - 120 / 255).abs() < 0.01).all()
    blue = half_sky(overcast=1.0, regimes=1.0, **dense).batch(0, Share()).clear[:, :, :24]
    torch.testing.assert_close(blue.mean((0, 2, 3)), torch.tensor([40, 80, 200]) / 255, atol=0.01, rtol=0)


def test_shade_changes_the_ground_and_not_the_sky():
    clear = half_sky(shade=0.6).batch(0, Share()).clear * 255
    ground = clear[:, :, 40:]
    assert (clear[:, 2, :24] - 200).abs().max() < 1
    assert ground.std((2, 3)).mean() > 5
    assert (ground - ground.mean(1, keepdim=True)).abs().mean() > 2  # in colour, too
    assert ground.min() > 120 * 0.39
    assert ground.max() < 120 * 1.61


def test_haze_can_be_mixed_into_the_light_but_not_in_the_regimes():
    even = {"clear": 0.0, "even": 0.0, "beta": (1.0, 1.0), "near": (1.0, 1.0), "patches": 0.0, "floor": (0.0, 0.0)}
    light = {"scene_light": 0.0, "airlight": (0.7, 0.7), "tint": 0.0, "light_gradient": 0.0, "wavelength": 0.0}
    batch = half_sky(in_light=1.0, tone_curve=(2.0, 2.0), **even, **light).batch(0, Share())
    through = math.exp(-1)
    expected = (batch.clear**2 * through + 0.7**2 * (1 - through)).sqrt()
    torch.testing.assert_close(batch.hazy[:, 0], expected, atol=0.51 / 255, rtol=0)
    mixed, stored = (half_sky(in_light=share, regimes=1.0, **even, **light).batch(0, Share()).hazy for share in (1, 0))
    assert (mixed - stored).abs().max() < 1.01 / 255

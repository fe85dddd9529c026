"""What is drawn per sample: each setting does what its name says, and nothing else."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from clear_images import (
    NO_HAZE,
    PLAIN,
    STILL,
    bank_of,
    coloured_blocks,
    haze_config,
    only,
    sky_over_ground,
    small_bank,
    small_source,
    source_over,
)
from libranet.errors import InputError
from libranet.haze import sampler
from libranet.haze.config import CameraConfig
from libranet.haze.draws import Draws
from libranet.haze.images import ImageBank
from libranet.haze.kinds import HazeConfig
from libranet.haze.parameters import HazeParameters
from libranet.haze.sampler import draw_samples, draw_sky_colours
from libranet.haze.scattering import REGIMES
from libranet.haze.windows.reference import grade_colours
from libranet.training.dataloader import Batch, OnlineHazeSource
from libranet.training.distributed import Shard
from libranet.training.recipe import load_recipe


def make(bank: ImageBank, haze: HazeConfig, *, batch: int = 8, window: int = 5) -> Batch:
    return source_over(bank, haze, batch=batch, window=window).batch(0, Shard())


def draw(haze: HazeConfig, bank: ImageBank, n: int) -> HazeParameters:
    """Draw n samples of the bank's first image."""
    return draw_samples(haze, bank, torch.zeros(n, dtype=torch.long), (64, 96), torch.Generator().manual_seed(1))[0]


def test_haze_pulls_towards_a_bright_airlight_and_more_so_where_it_is_far():
    haze = haze_config(
        PLAIN,
        density={"beta": (2.0, 2.0)},
        varied={"brightness": (0.9, 0.9)},
        geometry={"prior_depth_probability": 0, "prior_depth_blend": 0},
    )
    batch = make(bank_of(coloured_blocks(1)), haze, batch=2)
    veil = (batch.hazy[:, 0] - 0.9).abs() / (batch.clear - 0.9).abs().clamp_min(0.1)
    top, bottom = veil[..., :8, :].median(), veil[..., -8:, :].median()
    assert top < 0.25
    assert bottom > 0.75


def test_images_without_depth_use_the_prior():
    bank = small_bank()
    assert bank.facts.has_depth.tolist() == [False, True, True, False, True, True]
    haze = haze_config(geometry={"prior_depth_probability": 0.0})
    index = torch.arange(6)
    drawn, _ = draw_samples(haze, bank, index, (32, 32), torch.Generator().manual_seed(0))
    assert ((drawn.distance.prior_share == 1) == ~bank.facts.has_depth).all()


def test_regimes_lie_over_the_plain_depth_and_nothing_else():
    haze = haze_config(**only("regimes", jitter=0.0), camera={"noise_std": 0.0}, geometry=STILL)
    batch = make(bank_of(coloured_blocks(1)), haze)
    fits = [
        min(REGIMES, key=lambda regime: _misfit(pair, regime.airlight))
        for pair in zip(batch.hazy[:, 0], batch.clear, strict=True)
    ]
    for pair, regime in zip(zip(batch.hazy[:, 0], batch.clear, strict=True), fits, strict=True):
        assert _misfit(pair, regime.airlight) < 0.02
    assert len({regime.airlight for regime in fits}) > 1


def test_pairs_have_thin_grey_haze_that_begins_before_the_nearest_point():
    haze = haze_config(
        **only("pairs", optical_depth=(0.8, 0.8), near=(0.5, 0.5), airlight=(0.9, 0.9)),
        density={"bank_probability": 1.0, "patch_probability": 1.0, "residual_probability": 1.0},
        camera={"dull_probability": 1.0, "noise_std": 0.0},
        geometry=STILL,
    )
    drawn = draw(haze, bank_of(coloured_blocks(1)), 8)
    assert (drawn.sky.fog == 0).all()
    assert (drawn.airlight.colour == 0.9).all()
    batch = make(bank_of(coloured_blocks(1)), haze)
    for pair in zip(batch.hazy[:, 0], batch.clear, strict=True):
        assert _misfit(pair, (0.9, 0.9, 0.9)) < 0.02
        sure = (pair[1] - 0.9).abs() > 0.2
        through = ((pair[0] - 0.9) / (pair[1] - 0.9))[sure]
        assert math.exp(-0.8) - 0.02 < through.min()
        assert through.max() < math.exp(-0.4) + 0.02


def test_the_outdoor_half_of_the_pairs_has_ranges_of_its_own():
    pairs = {"share": 1.0, "optical_depth": (1.5, 2.0), "near": (0.2, 0.3), "airlight": (0.75, 0.8)}
    outdoors = {"share": 1.0, "optical_depth": (0.3, 0.5), "near": (0.6, 0.7), "airlight": (0.95, 1.0)}
    haze = haze_config(pairs=pairs, outdoor_pairs=outdoors, varied={"share": 0.0}, geometry=STILL)
    drawn = draw(haze, bank_of(coloured_blocks(1)), 64)
    thin = drawn.scattering.beta[:, 0] <= 0.5
    assert 16 < int(thin.sum()) < 48
    assert ((drawn.distance.near >= 0.6) == thin).all()
    assert ((drawn.airlight.colour[:, 0] >= 0.95) == thin).all()
    assert (drawn.scattering.beta[~thin] >= 1.5).all()


def test_kinds_are_mixed_by_their_shares_and_keep_to_themselves():
    haze = haze_config(
        regimes={"share": 2.0, "jitter": 0.0}, pairs={"share": 1.0, "airlight": (0.1, 0.2)}, varied={"share": 1.0},
        footage={"share": 0.0}, camera={"noise_std": 0.0},
    )  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    index = torch.zeros(800, dtype=torch.long)
    drawn, kinds = draw_samples(haze, bank_of(coloured_blocks(1)), index, (32, 32), generator)
    counts = torch.bincount(kinds, minlength=5) / 800
    torch.testing.assert_close(counts, torch.tensor([0.5, 0.25, 0, 0.25, 0]), atol=0.05, rtol=0)
    betas = torch.tensor([regime.beta for regime in REGIMES])
    regimes, pairs, varied = (kinds == number for number in (0, 1, 3))
    assert ((drawn.scattering.beta[regimes][:, :1] - betas).abs().amin(1) < 1e-6).all()
    assert (drawn.distance.near[regimes] == 0).all()
    assert ((drawn.airlight.colour.amax(1) <= 0.2) == pairs).all()
    assert ((drawn.scattering.min_transmission > 0) == varied).all()


def test_a_mix_without_haze_is_refused():
    with pytest.raises(InputError, match="a kind of haze with a share above 0"):
        haze_config(varied={"share": 0.0})


def _misfit(pair: tuple[Tensor, Tensor], light: tuple[float, ...]) -> float:
    """In I t + A (1 - t) the right airlight makes t equal in all channels: how unequal is it with this one?"""
    hazy, clear = pair
    from_light = clear - torch.tensor(light)[:, None, None]
    t = (hazy - torch.tensor(light)[:, None, None]) / from_light
    sure = (from_light.abs() > 0.2).all(0)
    return float((t.amax(0) - t.amin(0))[sure].median())


def test_colour_jitter_changes_an_image_but_not_by_much():
    jittered = haze_config(NO_HAZE, camera={"jitter_probability": 1.0})
    plain, other = (small_source(haze=haze).batch(0, Shard()).clear for haze in (NO_HAZE, jittered))
    difference = (plain - other).abs().mean((1, 2, 3))
    assert (difference > 0.003).all()
    assert (difference < 0.2).all()


def test_skies_get_other_colours_and_the_ground_keeps_its_own():
    haze = haze_config(NO_HAZE, sky={"recolour_probability": 1.0}, geometry=STILL)
    clear = make(bank_of(sky_over_ground()), haze, batch=32).clear
    sky, ground = clear[:, :, :24].mean((2, 3)), clear[:, :, 40:]
    torch.testing.assert_close(ground, torch.full_like(ground, 120 / 255), atol=0.01, rtol=0)
    assert (sky.std(0) > 0.08).all()
    red, blue = sky[:, 0], sky[:, 2]
    assert 0.4 < (blue > red + 0.02).float().mean() < 0.9  # most skies are blue, some are warm
    assert (red > blue + 0.02).any()


def test_drawn_skies_are_as_bright_and_as_blue_as_those_of_photos():
    colours = draw_sky_colours(Draws(4000, torch.Generator().manual_seed(0)))
    brightest = colours.amax(1)
    assert 0.76 < brightest.median() < 0.84
    assert 0.02 < (brightest < 0.55).float().mean() < 0.08
    torch.testing.assert_close(colours.mean(0), torch.tensor([0.58, 0.68, 0.775]), atol=0.03, rtol=0)
    blueness = colours[:, 2] - colours[:, 0]
    assert 0.15 < blueness.median() < 0.21  # 0.17 in 305 photos
    assert 0.07 < (blueness < -0.03).float().mean() < 0.13  # 0.10
    assert (blueness.abs() <= 0.03).float().mean() < 0.2  # 0.11


def test_the_white_balance_does_not_grow_with_the_other_jitter_of_a_camera():
    for by in (1.0, 2.5):
        haze = haze_config(camera={"jitter_probability": 1.0, "jitter_strength": by, "white_balance_std": 0.02})
        camera = draw(haze, small_bank(1), 2000).camera
        assert 0.018 < camera.white_balance.log().std() < 0.022
        assert 0.10 * by < camera.tone.log().std() < 0.14 * by


def test_a_white_balance_beyond_all_cameras_is_refused():
    with pytest.raises(InputError, match=r"white_balance_std in \[0, 1\], got 1.5"):
        CameraConfig(white_balance_std=1.5)


def test_a_drawn_sky_is_the_same_through_every_camera(monkeypatch: pytest.MonkeyPatch):
    wanted = torch.tensor([0.55, 0.65, 0.72])
    monkeypatch.setattr(sampler, "draw_sky_colours", lambda draws: wanted.expand(draws.n, 3))
    n, colour = 64, (128, 153, 204)
    haze = haze_config(
        camera={
            "jitter_probability": 1.0, "jitter_strength": 2.0, "white_balance_std": 0.1, "dull_probability": 0.5,
        },
        sky={"recolour_probability": 1.0},
    )  # fmt: skip
    drawn = draw(haze, bank_of(sky_over_ground(sky=colour)), n)
    sky = (torch.tensor(colour) / 255).view(1, 1, 3, 1, 1).expand(n, 1, 3, 2, 2)
    seen = grade_colours(sky, torch.ones(n, 1, 1, 2, 2), torch.zeros(n, 1, 2, 2, 2), drawn)
    assert drawn.camera.saturation.std() > 0.1
    assert drawn.camera.tone.std() > 0.1
    torch.testing.assert_close(seen.mean((1, 3, 4)), wanted.expand(n, 3), atol=0.005, rtol=0)


def test_jittered_images_are_as_colourful_as_the_photos_on_average():
    def colourfulness(probability: float) -> float:
        source = half_sky(camera={
            "jitter_probability": probability, "jitter_strength": 2.5, "white_balance_std": 0.1,
        })  # fmt: skip
        source.bank.fine.copy_(torch.tensor([120, 140, 100]).view(3, 1, 1))
        source.bank.coarse.copy_(torch.tensor([120, 140, 100]).view(3, 1, 1))
        clear = torch.cat([source.batch(step, Shard()).clear for step in range(20)])
        return float((clear.amax(1) - clear.amin(1)).mean())

    assert 0.88 < colourfulness(1.0) / colourfulness(0.0) < 1.08


def test_uniform_haze_can_be_darker_than_the_walls():
    darker = haze_config(
        NO_HAZE,
        density={"clear_probability": 0.0, "uniform_probability": 1.0, "beta": (2.5, 2.5)},
        varied={"uniform_brightness": (0.3, 0.3), "scene_probability": 0, "tint_std": 0, "gradient": 0},
    )
    source = small_source(haze=darker)
    source.bank.fine.fill_(230)
    source.bank.coarse.fill_(230)
    assert 0.3 < source.batch(0, Shard()).hazy.mean() < 0.45


def test_a_sky_stays_the_farthest_whatever_the_prior():
    image = sky_over_ground(sky=(20, 20, 20), ground=(20, 20, 20))
    image.depth[36:] = 0
    haze = haze_config(
        PLAIN,
        density={"beta": (2.0, 2.0)},
        varied={"brightness": (1, 1)},
        geometry={"prior_depth_probability": 1.0},
    )
    hazy = make(bank_of(image), haze, window=1).hazy[:, 0]
    through = math.exp(-2.0)
    sky, ground = hazy[:, :, :24], hazy[:, :, 40:]
    torch.testing.assert_close(sky, torch.full_like(sky, 1 - through * (1 - 20 / 255)), atol=0.006, rtol=0)
    assert ground.std((1, 2, 3)).min() > 0.02  # there the prior is at work


def test_a_sky_can_be_another_images():
    blue, red = (40, 80, 200), (200, 80, 40)
    bank = bank_of(sky_over_ground(sky=blue), sky_over_ground(sky=red, rows=18))
    haze = haze_config(NO_HAZE, sky={"swap_probability": 1.0}, geometry=STILL)
    clear = make(bank, haze, batch=32).clear * 255
    wide = clear[:, :, 24].mean(-1)  # a row of sky in the first image, of ground in the second
    is_blue, is_red, is_ground = (
        ((wide - torch.tensor(colour)).abs() < 5).all(1) for colour in (blue, red, (120, 120, 120))
    )
    assert (is_blue | is_red | is_ground).all()
    assert is_blue.any()  # drew itself
    assert is_red.any()  # stretched from a quarter of the height to a half
    assert is_ground.any()
    assert ((clear[:, :, 40:] - 120).abs() < 1).all()


def half_sky(base: HazeConfig = NO_HAZE, **groups: dict[str, object]) -> OnlineHazeSource:
    """A source with one image: a blue sky over a grey ground, seen whole and still."""
    haze = haze_config(haze_config(base, geometry=STILL), **groups)
    return source_over(bank_of(sky_over_ground(sky=(40, 80, 200))), haze, batch=32)


def test_fog_is_the_airlight_in_the_target_too():
    dense = {
        "clear_probability": 0.0, "beta": (2.5, 2.5), "uniform_probability": 0.0, "depth_gamma": (1.0, 1.0),
        "patch_probability": 0.0, "min_transmission": (0.0, 0.0),
    }  # fmt: skip
    batch = half_sky(density=dense, varied={"fog_probability": 1.0}).batch(0, Shard())
    hazy, clear = batch.hazy[:, 0, :, :24].mean((2, 3)), batch.clear[:, :, :24].mean((2, 3))
    assert (hazy - clear).abs().max() < 0.15  # a clear blue sky would be up to 0.8 away
    assert ((batch.clear[:, :, 40:] - 120 / 255).abs() < 0.01).all()
    blue = half_sky(density=dense, **only("regimes")).batch(0, Shard()).clear[:, :, :24]
    torch.testing.assert_close(blue.mean((0, 2, 3)), torch.tensor([40, 80, 200]) / 255, atol=0.01, rtol=0)


def test_real_footage_has_fog_in_its_sky_as_often_as_it_says():
    drawn = draw(haze_config(**only("footage", fog_probability=0.9)), bank_of(coloured_blocks(1)), 400)
    assert 0.85 < float((drawn.sky.fog >= 0.8).float().mean()) < 0.95
    assert ((drawn.sky.fog == 0) | (drawn.sky.fog >= 0.8)).all()


def test_what_is_behind_opaque_fog_stays_fog_in_the_target():
    dense = {
        "clear_probability": 0.0, "near": (0.0, 0.0), "uniform_probability": 0.0,
        "depth_gamma": (1.0, 1.0), "patch_probability": 0.0, "min_transmission": (0.02, 0.02),
    }  # fmt: skip
    whole = STILL | {"zoom": (1.0, 1.0), "prior_depth_probability": 0.0, "prior_depth_blend": 0.0}
    front = {"probability": 0.0, "bars_probability": 0.0}
    recording = {"drift_probability": 0.0, "noise_std": 0.0, "sharpening": 0.0, "codec_probability": 0.0}
    bank = bank_of(coloured_blocks(1))
    opaque, all_clear = (
        make(
            bank,
            haze_config(
                **only("footage", darkening_probability=0.0, opaque=(o, o), beta=(6.0, 6.0)),
                density=dense,
                front=front,
                recording=recording,
                geometry=whole,
            ),
        )
        for o in (0.2, 1e-6)
    )
    assert torch.equal(opaque.hazy, all_clear.hazy)
    far, near = slice(0, 12), slice(-6, None)
    kept = (opaque.clear - opaque.hazy[:, 0]).abs().mean((1, 3))
    gone = (all_clear.clear - all_clear.hazy[:, 0]).abs().mean((1, 3))
    assert kept[:, far].mean() < 0.3 * gone[:, far].mean()
    torch.testing.assert_close(opaque.clear[:, :, near], all_clear.clear[:, :, near], atol=0.02, rtol=0)


def test_dusk_dims_the_ground_under_a_sky_and_nothing_indoors():
    footage = only("footage", dusk_probability=1.0, dusk=(0.5, 0.5), darkening_probability=0.0)
    dusk = half_sky(**footage, front={"probability": 0.0, "bars_probability": 0.0}).batch(0, Shard()).clear * 255
    assert dusk[:, :, 40:].mean() == pytest.approx(60, abs=12)  # tone curves differ
    assert dusk[:, 2, :24].mean() > 160
    indoors = draw(haze_config(**footage), bank_of(coloured_blocks(1, depth=False)), 16)
    assert (indoors.camera.shading == 0).all()


def test_shading_changes_the_ground_and_not_the_sky():
    clear = half_sky(camera={"shading": 0.6}).batch(0, Shard()).clear * 255
    ground = clear[:, :, 40:]
    assert (clear[:, 2, :24] - 200).abs().max() < 1
    assert ground.std((2, 3)).mean() > 5
    assert (ground - ground.mean(1, keepdim=True)).abs().mean() > 2  # in colour, too
    assert ground.min() > 120 * 0.39
    assert ground.max() < 120 * 1.61


def test_haze_can_be_mixed_into_the_light_but_not_in_the_regimes():
    even = haze_config(PLAIN, density={"beta": (1.0, 1.0), "near": (1.0, 1.0)}, camera={"tone_gamma": (2.0, 2.0)})
    batch = half_sky(even, varied={"linear_light_probability": 1.0, "brightness": (0.7, 0.7)}).batch(0, Shard())
    through = math.exp(-1)
    expected = (batch.clear**2 * through + 0.7**2 * (1 - through)).sqrt()
    torch.testing.assert_close(batch.hazy[:, 0], expected, atol=0.51 / 255, rtol=0)
    regimes = draw(haze_config(even, **only("regimes")), bank_of(coloured_blocks(1)), 16)
    assert (regimes.airlight.gamma == 1).all()


def test_a_seed_keeps_its_samples():
    """A change of the draws is a change of what all recipes train on: it has to be meant."""
    haze = load_recipe(Path(__file__).parents[2] / "recipes" / "libranet-base.toml").photos.haze
    bank = bank_of(sky_over_ground(sky=(40, 80, 200)), coloured_blocks(1), coloured_blocks(2, depth=False))
    generator = torch.Generator().manual_seed(70)
    drawn, kinds = draw_samples(haze, bank, torch.tensor([1, 0, 2, 2]), (64, 96), generator)
    found = {
        "kinds": kinds.tolist(),
        "centre": drawn.view.centre[0].tolist(),
        "beta": drawn.scattering.beta[:, 0].tolist(),
        "airlight": drawn.airlight.colour[0].tolist(),
        "gamma": drawn.airlight.gamma.tolist(),
        "tone": drawn.camera.tone.tolist(),
        "next": int(torch.randint(2**40, (1,), generator=generator)),
    }
    expected = {
        "kinds": [4, 0, 3, 4],
        "centre": [-0.274029, -0.168934],
        "beta": [0.374479, 1.306478, 2.686625, 0.439004],
        "airlight": [0.610741, 0.597221, 0.576565],
        "gamma": [1.805447, 1.0, 2.08079, 1.924523],
        "tone": [1.007774, 0.760571, 1.010633, 1.118469],
        "next": 797239550587,
    }
    for name, values in expected.items():
        assert found[name] == pytest.approx(values, abs=1e-5), name

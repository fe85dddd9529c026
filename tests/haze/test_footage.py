"""Filming: what stands in front is in the target, what camera and codec do is not."""

import dataclasses

import cv2
import numpy as np
import pytest
import torch

from clear_images import haze_config, only, small_source
from libranet.haze.config import FrontConfig, RecordingConfig
from libranet.haze.draws import Draws
from libranet.haze.recording import Footage, compress, draw_footage, film
from libranet.training.distributed import Shard

NOTHING = FrontConfig(probability=0, bars_probability=0)
PERFECT = RecordingConfig(drift_probability=0, noise_std=0, sharpening=0, codec_probability=0)


def draw(config: FrontConfig, recording: RecordingConfig = PERFECT, n: int = 64, frames: int = 6) -> Footage:
    drawn = draw_footage(config, recording, frames, Draws(n, torch.Generator().manual_seed(3)))
    return dataclasses.replace(drawn, levels=torch.full((n,), 255.0), curve=torch.zeros(n))


def grey(n: int = 64, frames: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.full((n, frames, 3, 32, 48), 0.8), torch.full((n, 2, 3, 32, 48), 0.4)


def test_nothing_drawn_changes_nothing_but_rounding() -> None:
    hazy, clear = torch.rand(8, 6, 3, 32, 48), torch.rand(8, 2, 3, 32, 48)
    filmed, target = film(hazy, clear, draw(NOTHING, n=8), first=2, seed=0)
    assert torch.equal(target, clear)
    assert (filmed - hazy).abs().max() <= 1.01 / 255


def test_what_stands_in_front_is_in_both_and_mostly_dark() -> None:
    hazy, clear = film(
        *grey(), draw(FrontConfig(probability=1, change_probability=0, bars_probability=0)), first=2, seed=0
    )
    covered = (clear - 0.4).abs().amax(2) > 0.1  # [N, 2, H, W]
    seen = hazy[:, 2:4]
    same = (seen - clear).abs().amax(2) < 2.5 / 255
    assert 0.05 < float(covered.float().mean()) < 0.6
    assert float(same[covered].float().mean()) > 0.8  # the rest are soft edges
    assert float((seen.amax(2)[covered] < 0.3).float().mean()) > 0.5


def test_bars_are_black_in_both() -> None:
    hazy, clear = film(*grey(), draw(FrontConfig(probability=0, bars_probability=1)), first=2, seed=0)
    black = hazy.amax(2) == 0
    assert 0.04 < float(black.float().mean()) < 0.4
    assert torch.equal(black[:, 2:4], clear.amax(2) == 0)


def test_a_camera_exposes_for_the_haze() -> None:
    recording = dataclasses.replace(PERFECT, exposure_probability=1)
    hazy, clear = film(*grey(), draw(NOTHING, recording), first=2, seed=0)
    level = hazy.mean((1, 2, 3, 4))
    assert torch.equal(clear, grey()[1])
    assert 0.4 - 0.02 < float(level.min()) < 0.5  # an exponent of 1 gives the clear scene's brightness
    assert 0.5 < float(level.max()) < 0.54


def test_a_dim_target_gets_the_light_that_the_haze_had() -> None:
    hazy, clear = grey()
    clear += 0.2  # darker scenes are lifted in part: blacks would turn grey
    recording = dataclasses.replace(PERFECT, lift_probability=1)
    _, lifted = film(hazy, clear, draw(NOTHING, recording), first=2, seed=0)
    assert (lifted >= clear).all()
    missing = hazy.mean((1, 2, 3, 4)) - lifted.mean((1, 2, 3, 4))
    assert float(missing.max()) < 7 / 255
    black_and_white = torch.cat((torch.zeros_like(clear[:1]), torch.ones_like(clear[:1])), -1)
    _, ends = film(torch.cat((hazy[:1], hazy[:1]), -1), black_and_white, draw(NOTHING, recording, n=1), first=2, seed=0)
    assert torch.equal(ends, black_and_white)


def test_dust_tints_hazy_frames_and_no_clear_ones() -> None:
    recording = dataclasses.replace(PERFECT, dust_probability=1)
    hazy, clear = grey()
    clear[:32] = 0.8  # without haze
    filmed, target = film(hazy, clear, draw(NOTHING, recording), first=2, seed=0)
    red, green, blue = filmed.mean((1, 3, 4)).unbind(1)
    assert torch.equal(target, clear)
    assert (filmed[:32] - 0.8).abs().max() < 0.01
    assert (red[32:] - 0.8).abs().max() < 0.01
    assert ((green[32:] < 0.79) & (blue[32:] < green[32:])).all()


def test_the_target_keeps_the_mean_exposure_while_frames_wander() -> None:
    recording = dataclasses.replace(PERFECT, drift_probability=1)
    hazy, clear = film(*grey(), draw(NOTHING, recording), first=2, seed=0)
    assert torch.equal(clear, grey()[1])
    levels = hazy.mean(dim=(2, 3, 4))
    assert float(levels.std(1).mean()) > 0.01
    assert float((levels.mean(1) - 0.8).abs().max()) < 0.02


def test_things_may_come_and_go_within_the_window() -> None:
    drawn = draw(FrontConfig(probability=1, change_probability=0.5), n=400)
    comes, goes = drawn.first > 0, (drawn.last > 0) & (drawn.last < 6)
    assert not bool((comes & goes).any())
    assert 0.1 < float(comes.float().mean()) < 0.3
    assert 0.1 < float(goes.float().mean()) < 0.3
    between = (drawn.first == 3) | (drawn.last == 3)  # the frames of a pair are 2 and 3
    assert 0.4 < float(between.float().sum() / (comes | goes).float().sum()) < 0.8


@pytest.mark.parametrize("quality", [30, 80])
def test_the_codec_loses_about_what_jpeg_loses(quality: int) -> None:
    generator = np.random.default_rng(0)
    structure = cv2.GaussianBlur(generator.uniform(0, 255, (64, 96)), (0, 0), 2.0)
    image = np.clip((structure[..., None] - 127) * 5 + (90, 120, 150), 0, 255).astype(np.uint8)
    stored = cv2.imdecode(cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])[1], cv2.IMREAD_COLOR)
    frames = torch.from_numpy(image[..., ::-1].copy()).permute(2, 0, 1)[None].float() / 255
    coarseness = torch.tensor([50 / quality if quality < 50 else 2 - quality / 50])
    ours = (compress(frames, coarseness)[0].permute(1, 2, 0).numpy()[..., ::-1] * 255 - image).std()
    theirs = (stored.astype(np.float32) - image).std()
    assert 0.7 < ours / theirs < 1.3
    assert torch.equal(compress(frames, torch.zeros(1)), frames)


def test_a_source_films_its_share_and_repeats_itself() -> None:
    haze = haze_config(**only("footage"), front={"probability": 1.0}, recording={"codec_probability": 1.0})
    first, again = (small_source(haze=haze, batch=4, outputs=2).batch(3, Shard()) for _ in range(2))
    assert first.hazy.shape == (2, 6, 3, 32, 48)
    assert first.clear.shape == (4, 3, 32, 48)
    assert torch.equal(first.hazy, again.hazy)
    plain = small_source(haze=haze_config(), batch=4, outputs=2).batch(3, Shard())
    assert not torch.equal(first.hazy, plain.hazy)

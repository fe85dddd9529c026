"""Haze on the fly in one kernel against the same step by step."""

import dataclasses

import pytest
import torch

from clear_pictures import small_source
from libranet.training.batches import Share
from libranet.training.haze_config import HazeConfig


@pytest.fixture(autouse=True)
def few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the interpreter a program costs much and a pixel little."""
    from libranet.kernels.haze import triton as haze_triton

    monkeypatch.setattr(haze_triton, "BLOCK", 1024)


def make(device: str, haze: HazeConfig, *, kernel: bool):
    source = small_source(haze=haze, batch=3)
    tensors = {name: getattr(source.bank, name).to(device) for name in ("fine", "coarse", "depth")}
    tensors["depth"][:, :, :12] = 255  # a sky in all of them, a third of the height
    sky = torch.full((len(source.bank),), 1 / 3)
    source.bank = dataclasses.replace(source.bank, **tensors, sky=sky[:, None].expand(-1, 3), skyline=sky, open_sky=sky)
    source.kernel = None
    if kernel:
        from libranet.kernels.haze.triton import haze_window

        source.kernel = haze_window
    return source


@pytest.mark.parametrize("step", [0, 1])  # a square crop and a wide one
def test_matches_step_by_step(device: str, step: int) -> None:
    haze = HazeConfig(
        noise=0.0,
        motion=0.05,
        patches=1.0,
        leftover=1.0,
        dull=1.0,
        vary=0.7,
        regimes=0.3,
        skies=0.7,
        swap=0.7,
        overcast=0.7,
        shade=0.4,
        in_light=0.7,
        squeeze=0.3,
        tilt=8.0,
    )
    ours, plain = (make(device, haze, kernel=kernel).batch(step, Share()) for kernel in (True, False))
    own_skies = make(device, dataclasses.replace(haze, swap=0.0, skies=0.0), kernel=False).batch(step, Share())
    assert (own_skies.clear - plain.clear).abs().max() > 0.1
    torch.testing.assert_close(ours.clear, plain.clear, atol=1e-4, rtol=0)
    off = (ours.hazy - plain.hazy).abs() * 255
    assert off.max() < 1.01  # a value on the edge of two bytes may round either way
    assert (off > 0.01).float().mean() < 0.01


def test_a_still_window_is_one_frame(device: str) -> None:
    batch = make(device, HazeConfig(noise=0.0, still=1.0), kernel=True).batch(0, Share())
    plain = make(device, HazeConfig(noise=0.0, still=1.0), kernel=False).batch(0, Share())
    assert batch.hazy.shape == plain.hazy.shape
    assert batch.still
    assert batch.hazy.shape[1] == 1
    assert ((batch.hazy - plain.hazy).abs() * 255).max() < 1.01


def test_noise_has_the_drawn_strength(device: str) -> None:
    quiet, loud = (make(device, HazeConfig(noise=noise), kernel=True) for noise in (0.0, 0.012))
    a, b = (source.batch(0, Share()) for source in (quiet, loud))
    assert torch.equal(a.clear, b.clear)
    middle = ((a.hazy > 0.1) & (a.hazy < 0.9)).float()
    spread = (((b.hazy - a.hazy) * middle).square().sum((1, 2, 3, 4)) / middle.sum((1, 2, 3, 4))).sqrt()
    assert (spread < 0.016).all()
    assert (spread > 0.002).any()
    assert torch.equal(b.hazy, loud.batch(0, Share()).hazy)
    assert not torch.equal(b.hazy[0, 0], b.hazy[0, 1])


def test_pairs_match_step_by_step(device: str) -> None:
    haze = HazeConfig(noise=0.0, still=1.0, motion=0.05)
    made = []
    for kernel in (True, False):
        source = make(device, haze, kernel=kernel)
        source.pairs, source.size = True, 4
        made.append(source.batch(0, Share()))
    torch.testing.assert_close(made[0].clear, made[1].clear, atol=1e-4, rtol=0)
    assert (made[1].clear[0] - made[1].clear[1]).abs().mean() > 0.003

"""Grids settled over a shot: alike from its first frame to its last, wherever the reading began."""

import pytest
import torch

from libranet.network import LiBrANet
from libranet.network.settle import KnotSpacing, settle
from libranet.network.stream import FrameGrids
from tiny_network import TINY, make_config, perturb

SPACING = KnotSpacing(frames=3, radius=2)


@pytest.fixture
def model() -> LiBrANet:
    torch.manual_seed(0)
    return perturb(LiBrANet(TINY))


def smalls(count: int, *, seed: int = 0, level: float = 0.0, noise: float = 0.3) -> list[torch.Tensor]:
    """A scene in the encoders' range, with noise of each frame's own."""
    generator = torch.Generator().manual_seed(seed)
    scene = torch.rand(1, 3, 32, 32, generator=generator) * 1.2 - 0.6 + level
    return [(scene + noise * (torch.rand(1, 3, 32, 32, generator=generator) - 0.5)).clamp(-1, 1) for _ in range(count)]


def settled(model: LiBrANet, frames, *, cuts=(), spacing=SPACING, first=0) -> list[FrameGrids]:
    marked = [(frame, index in cuts) for index, frame in enumerate(frames)]
    return list(settle(marked, model, spacing, first=first))


def packed(found: FrameGrids) -> torch.Tensor:
    parts = (found.grids.chromatic, found.grids.temporal)
    return torch.cat([part.flatten() for part in parts if part is not None])


def same(a: list[FrameGrids], b: list[FrameGrids]) -> bool:
    return len(a) == len(b) and all(torch.equal(packed(x), packed(y)) for x, y in zip(a, b, strict=True))


def test_a_still_shot_gets_one_correction(model):
    frames = smalls(20)
    found = torch.stack([packed(grids) for grids in settled(model, frames, spacing=KnotSpacing(3, 100))])
    alone = torch.stack([packed(grids) for frame in frames for grids in settled(model, [frame])])
    spread, before = found.std(0).mean(), alone.std(0).mean()
    assert spread < 0.05 * before
    assert (found.mean(0) - alone.mean(0)).abs().mean() < before


@pytest.mark.parametrize("begin", [14, 21, 25, 40])
@pytest.mark.parametrize("cut", [None, 17])
def test_grids_are_those_of_the_whole_video_wherever_the_reading_began(model, begin, cut):
    frames = smalls(30) + smalls(21, seed=1, level=0.2)
    cuts = () if cut is None else (cut,)
    whole = settled(model, frames, cuts=cuts)
    start = SPACING.start(begin)
    again = settled(model, frames[start:], cuts=[at - start for at in cuts if at > start], first=start)
    assert same(again[begin - start :], whole[begin:])
    assert start <= begin - (SPACING.radius + 1) * SPACING.frames or start == 0
    assert begin - start <= SPACING.before


def test_frames_after_the_reach_change_nothing(model):
    frames = smalls(60)
    end = 20 + SPACING.after(model)
    assert same(settled(model, frames[:end])[:20], settled(model, frames)[:20])
    assert not same(settled(model, frames[:22])[:20], settled(model, frames)[:20])


def test_a_cut_keeps_shots_apart(model):
    first, second = smalls(13), smalls(8, seed=3)
    both = settled(model, first + second, cuts=(13,), spacing=KnotSpacing(13, 4))
    one, other = (settled(model, shot, spacing=KnotSpacing(13, 4)) for shot in (first, second))
    assert same(both, one + other)


def test_a_moment_that_errs_counts_little(model, monkeypatch):
    frames = smalls(30, noise=0.02)
    wanted = packed(settled(model, frames)[15])
    predict, calls = model.predict_chromatic, []

    def wrong_for_once(small: torch.Tensor) -> torch.Tensor:
        calls.append(small)
        grids = predict(small)
        return grids + 1.0 if 15 <= len(calls) - 1 < 18 else grids

    monkeypatch.setattr(model, "predict_chromatic", wrong_for_once)
    found = packed(settled(model, frames)[15])
    assert len(calls) == 30
    moved = (found - wanted).abs().mean()
    assert 0.0 < moved < 0.15, "a plain mean of five knots would move by about 0.2"


def test_another_light_is_followed(model):
    dark, light = smalls(24, level=-0.3, noise=0.0), smalls(24, level=0.3, noise=0.0)
    found = settled(model, dark + light, spacing=KnotSpacing(3, 100))
    alone = [settled(model, [frame])[0] for frame in (dark[0], light[0])]
    for at, own, other in ((0, 0, 1), (47, 1, 0)):
        near = (packed(found[at]) - packed(alone[own])).abs().mean()
        assert near < 0.3 * (packed(found[at]) - packed(alone[other])).abs().mean()


def test_frames_that_show_nothing_do_not_count(model):
    black = [torch.full((1, 3, 32, 32), -1.0)] * 9
    scene = smalls(12)
    faded = settled(model, scene + black, spacing=KnotSpacing(3, 100))
    alone = settled(model, scene, spacing=KnotSpacing(3, 100))
    assert torch.allclose(faded[3].grids.chromatic, alone[3].grids.chromatic, atol=1e-4)
    assert float(faded[-1].seen) == 0.0


def test_networks_without_a_field(model):
    half = perturb(LiBrANet(make_config(TINY, temporal_field=False)))
    found = settled(half, smalls(7))
    assert all(grids.grids.temporal is None and grids.grids.chromatic is not None for grids in found)


@pytest.mark.parametrize(("rate", "frames"), [(2.0, 1), (25.0, 6), (60.0, 15), (1000.0, 30)])
def test_the_spacing_follows_the_rate_and_bounds_the_memory(rate, frames):
    spacing = KnotSpacing.at(rate)
    assert spacing.frames == frames
    assert spacing.radius <= 125
    assert abs(spacing.radius * spacing.frames / min(rate, 120.0) - 30.0) <= 0.5

"""Blind metrics on frames whose answers are known."""

import math

import cv2
import numpy as np
import pytest
import torch
from torch import Tensor

from libranet.errors import InputError
from libranet.metrics.blind import BlindMetrics, FrameFacts, compare_with_input, drift, gain, largest_jump


def grey_frame(luma: np.ndarray) -> Tensor:  # [H, W] in [0, 1] -> [3, H, W]
    return torch.from_numpy(np.ascontiguousarray(luma, np.float32)).expand(3, -1, -1).clone()


def bars(left: float, right: float) -> np.ndarray:
    """Bars eight pixels wide around 0.5, with one swing in the left and another in the right half."""
    x = np.arange(128)
    swing = np.where(x < 64, left, right) * np.where(x // 8 % 2, 1.0, -1.0)
    return np.broadcast_to(0.5 + swing / 2, (64, 128))


def landscape(noise: float = 0.0, seed: int = 0) -> np.ndarray:
    """A smooth bright sky above rough dark ground."""
    random = np.random.default_rng(seed)
    luma = np.full((120, 160), 0.8) + random.normal(0.0, noise, (120, 160))
    luma[60:] = random.choice([0.2, 0.5], (60, 160))
    return luma


def compare(hazy: Tensor, restored: Tensor) -> BlindMetrics:
    return compare_with_input(FrameFacts(hazy), FrameFacts(restored))


def test_the_input_itself_gains_nothing():
    frame = grey_frame(landscape(0.004))
    found = compare(frame, frame)
    assert (found.edges, found.gradient, found.saturated, found.cast, found.sky_noise) == (0.0, 1.0, 0.0, 0.0, 1.0)


def test_edges_that_become_visible_and_gradients_that_double():
    """Fifteen edges: seven on the left of 10 %, one of 6 % in the middle, seven on the right of 4 %, invisible."""
    hazy = grey_frame(bars(0.1, 0.02))
    assert FrameFacts(hazy).visible[5].sum() == 8 * 2
    doubled = compare(hazy, grey_frame(bars(0.2, 0.04)))
    assert doubled.edges == 7 / 8
    assert doubled.gradient == pytest.approx(2.0, rel=1e-4)
    evened = compare(hazy, grey_frame(bars(0.1, 0.1)))
    assert evened.gradient == pytest.approx((1.0**7 * (0.1 / 0.06) * 5.0**7) ** (1 / 15), rel=1e-4)
    assert compare(grey_frame(bars(0.2, 0.04)), hazy).edges == 8 / 15 - 1


def test_no_edges_no_numbers():
    flat = grey_frame(np.full((32, 32), 0.5))
    found = compare(flat, flat)
    assert math.isnan(found.edges)
    assert math.isnan(found.gradient)


def test_noise_in_black_areas_is_no_edge():
    random = np.random.default_rng(0)
    dark = FrameFacts(grey_frame(0.01 + random.choice([0.0, 1 / 255], (32, 32))))
    assert not dark.visible.any()


def test_saturation_counts_what_is_new():
    hazy = torch.full((3, 10, 10), 0.5)
    hazy[:, 0] = 1.0  # a row that was white before
    restored = hazy.clone()
    restored[0, 5, :4] = 0.0
    restored[2, 5, 3:6] = 1.0
    assert compare(hazy, restored).saturated == pytest.approx(6.0)


def test_the_dark_channel_leaves_the_sky_out():
    luma = landscape()
    luma[60:] = 0.3
    frame = FrameFacts(grey_frame(luma))
    assert frame.sky[:50].all()
    assert not frame.sky[60:].any()
    found = compare_with_input(frame, FrameFacts(grey_frame(np.full((120, 160), 0.4))))
    assert found.dark == pytest.approx(0.4 * 255, rel=1e-5)
    coloured = torch.stack([torch.full((120, 160), value) for value in (0.4, 0.1, 0.7)])
    assert compare_with_input(frame, FrameFacts(coloured)).dark == pytest.approx(0.1 * 255, rel=1e-5)


def test_sky_has_to_reach_the_upper_border_and_to_be_bright():
    walls = landscape()[::-1]
    assert not FrameFacts(grey_frame(walls)).sky[:60].any()
    assert FrameFacts(grey_frame(walls)).sky.mean() == 0.0
    assert FrameFacts(grey_frame(landscape() * 0.4)).sky.mean() == 0.0


def test_noise_of_the_sky():
    hazy, restored = (FrameFacts(grey_frame(landscape(noise, seed=3))) for noise in (1 / 255, 3 / 255))
    assert hazy.noise(hazy.sky) == pytest.approx(1 / 255, rel=0.05)
    assert compare_with_input(hazy, restored).sky_noise == pytest.approx(3.0, rel=0.05)
    smooth = FrameFacts(grey_frame(landscape()))
    assert compare_with_input(smooth, smooth).sky_noise == 1.0, "no noise at all is no division by zero"
    ground = FrameFacts(grey_frame(landscape()[60:]))
    assert math.isnan(compare_with_input(ground, ground).sky_noise)


def test_cast_of_grey():
    hazy = torch.full((3, 40, 40), 0.5)
    hazy[0, :, 20:] = 0.9  # not grey, and not looked at
    restored = hazy.clone()
    restored[:, :, :20] = torch.tensor([0.5, 0.45, 0.55])[:, None, None]
    restored[1, :, 20:] = 0.0
    colours = np.array([[[0.5, 0.5, 0.5], [0.5, 0.45, 0.55]]], np.float32)
    before, after = cv2.cvtColor(colours, cv2.COLOR_RGB2Lab)[0]
    expected = float(np.hypot(*(after - before)[1:]))
    assert expected > 8
    assert compare(hazy, restored).cast == pytest.approx(expected, rel=0.25), "the blur mixes a few columns at the edge"
    red = torch.zeros(3, 40, 40)
    red[0] = 0.8
    assert math.isnan(compare(red, red).cast)


def test_local_contrast():
    checker = np.indices((90, 90)).sum(axis=0) % 2
    assert FrameFacts(grey_frame(0.4 + 0.2 * checker)).contrast == pytest.approx(0.1, rel=0.01)
    ramp = np.broadcast_to(np.linspace(0, 1, 3600)[None, :], (90, 3600))
    assert FrameFacts(grey_frame(ramp)).contrast < 0.002, "slow changes are no contrast"


def test_large_frames_are_reduced():
    frame = FrameFacts(torch.rand(3, 720, 1280))
    assert frame.small.shape == (360, 640, 3)
    assert FrameFacts(torch.rand(3, 90, 40)).small.shape == (90, 40, 3)
    assert frame.mean == pytest.approx(127.5, abs=1.0)


def test_series_of_a_clip():
    assert largest_jump([10.0, 12.0, 9.5, 9.0]) == 2.5
    assert drift([10.0, 12.0, 9.5, 9.0]) == 3.0
    assert gain([2.0, 4.0], [1.0, 2.0]) == 2.0
    assert math.isnan(largest_jump([1.0]))
    assert math.isnan(drift([1.0]))
    assert math.isnan(gain([0.0], [0.0]))


def test_bad_frames_are_named():
    with pytest.raises(InputError, match=r"\[3, H, W\]"):
        FrameFacts(torch.rand(1, 3, 8, 8))
    with pytest.raises(InputError, match="reference's size, 16x16, got 20x16"):
        compare(torch.rand(3, 16, 16), torch.rand(3, 16, 20))

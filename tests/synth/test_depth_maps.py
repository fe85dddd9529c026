"""Depth maps of a clip: one range for all frames, smoothing along the flow, edge-aware upsampling."""

import itertools

import cv2
import numpy as np
import pytest

from libranet.errors import InputError
from libranet.synth.depth_maps import DepthRange, guided_upsample, smooth_depth
from small_sets import texture


def test_disparity_is_inverted_and_distance_is_not() -> None:
    raw = np.linspace(0.0, 10.0, 101, dtype=np.float32).reshape(1, 101).repeat(5, axis=0)
    far = DepthRange.from_estimates([raw], "distance").normalise(raw)
    near = DepthRange.from_estimates([raw], "disparity").normalise(raw)
    np.testing.assert_allclose(far, 1.0 - near, atol=1e-6)
    assert far[0, 2] == pytest.approx(0.0, abs=1e-6)
    assert far[0, 98] == pytest.approx(1.0, abs=1e-6)
    assert far[0, 50] == pytest.approx(0.5, abs=1e-6)


def test_all_frames_of_a_clip_share_one_range() -> None:
    frames = [np.full((10, 10), value, np.float32) for value in (1.0, 2.0, 5.0)]
    span = DepthRange.from_estimates(frames, "distance")
    assert (span.low, span.high) == (1.0, 5.0)
    assert span.normalise(frames[1])[0, 0] == pytest.approx(0.25)


def test_metres_stay_proportional_and_ignore_the_sky() -> None:
    frame = np.full((10, 10), 50.0, np.float32)
    frame[:5] = np.inf
    span = DepthRange.from_metres([frame])
    assert (span.low, span.high) == (0.0, 50.0)
    assert span.normalise(frame / 2)[9, 0] == pytest.approx(0.5)
    assert span.normalise(frame)[0, 0] == 1.0
    assert DepthRange.from_metres([frame[:5]]).normalise(frame)[0, 0] == 1.0


def test_flat_and_broken_values() -> None:
    flat = np.ones((5, 5), np.float32)
    assert np.isfinite(DepthRange.from_estimates([flat], "disparity").normalise(flat)).all()
    with pytest.raises(InputError, match="finite depth"):
        DepthRange.from_estimates([flat * np.nan], "disparity")
    with pytest.raises(InputError, match="got NaN from the source"):
        DepthRange.from_metres([flat * np.nan])


def test_the_edge_of_the_guide_becomes_the_edge_of_the_depth() -> None:
    guide = np.full((240, 320, 3), 40, np.uint8)
    guide[:, 163:] = 220
    truth = np.where(np.arange(320) < 163, 0.2, 0.9).astype(np.float32)[None].repeat(240, axis=0)
    proxy = cv2.blur(cv2.resize(truth, (80, 60), interpolation=cv2.INTER_AREA), (7, 7))
    sharp = guided_upsample(proxy, guide)
    blurred = cv2.resize(proxy, (320, 240), interpolation=cv2.INTER_LINEAR)
    assert sharp.shape == (240, 320)
    assert np.abs(sharp - truth).mean() < np.abs(blurred - truth).mean()
    step, soft_step = (np.abs(depth[:, 164] - depth[:, 161]) for depth in (sharp, blurred))
    assert step.min() > 0.4
    assert step.min() > 4 * soft_step.max()
    assert sharp.min() >= 0.0
    assert sharp.max() <= 1.0


def test_a_flat_depth_stays_flat_under_a_busy_guide() -> None:
    flat = np.full((54, 96), 0.37, np.float32)
    np.testing.assert_allclose(guided_upsample(flat, texture(216, 384)), 0.37, atol=1e-4)


def test_smoothing_follows_the_motion_and_calms_flicker() -> None:
    rng = np.random.default_rng(0)
    wide = texture(80, 160)
    scene = np.linspace(0.1, 0.9, 160, dtype=np.float32)[None].repeat(80, axis=0)
    frames = [np.ascontiguousarray(wide[:, 4 * i : 4 * i + 120]) for i in range(5)]
    truth = [np.ascontiguousarray(scene[:, 4 * i : 4 * i + 120]) for i in range(5)]
    noisy = [depth + rng.normal(0, 0.05) for depth in truth]
    flow = np.zeros((2, 80, 120), np.float32)
    flow[0] = -4.0
    smooth = smooth_depth(noisy, [flow] * 4, frames)

    def flicker(depths: list[np.ndarray]) -> float:
        # The scene slides by four pixels per frame: what was at x is then at x - 4.
        return float(np.mean([np.abs(a[:, 8:-4] - b[:, 4:-8]).mean() for a, b in itertools.pairwise(depths)]))

    assert flicker(truth) < 1e-6
    assert flicker(smooth) < 0.6 * flicker(noisy)


def test_another_surface_is_not_mixed_in() -> None:
    frames = [np.full((40, 60, 3), 30, np.uint8), np.full((40, 60, 3), 220, np.uint8)]
    depths = [np.zeros((40, 60), np.float32), np.ones((40, 60), np.float32)]
    smooth = smooth_depth(depths, [np.zeros((2, 40, 60), np.float32)], frames)
    np.testing.assert_array_equal(smooth[0], depths[0])
    np.testing.assert_array_equal(smooth[1], depths[1])

"""Edge-aware upsampling and flow-guided smoothing do what their names say."""

import itertools

import cv2
import numpy as np

from libranet.synth.guided_filter import guided_upsample
from libranet.synth.smoothing import smooth_depth
from small_sets import texture


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

import numpy as np
import pytest

from clips import textured_frame
from libranet.video.pixels import plane_views
from libranet.video.shots import ShotDetector


def cuts(frames: list[np.ndarray], peak: int = 255) -> list[int]:
    detector = ShotDetector()
    return [index for index, frame in enumerate(frames) if detector.is_cut(frame, peak)]


def scene(number: int, length: int, name: str = "yuv420p") -> list[np.ndarray]:
    return [plane_views(textured_frame(name, 320, 192, index, scene=number))[0] for index in range(length)]


@pytest.mark.parametrize(("a", "b"), [(0, 7), (1, 2), (3, 4), (5, 6)])
def test_a_cut_is_found_at_its_frame(a, b):
    assert cuts(scene(a, 8) + scene(b, 8)) == [8]


def test_two_foggy_landscapes_are_told_apart():
    """Both have a bright sky and a dark ground; only what stands in them differs."""
    gradient = np.linspace(210, 60, 192)[:, None]
    frames = []
    for number in (0, 7):
        texture = scene(number, 1)[0].astype(np.float64) - 128
        frames += [np.clip(gradient + 0.5 * np.roll(texture, 2 * i, axis=1), 0, 255).astype(np.uint8) for i in range(4)]
    assert cuts(frames) == [4]


def test_noise_in_dense_fog_is_no_cut():
    generator = np.random.default_rng(0)
    assert cuts([generator.normal(180, 12, (192, 320)).clip(0, 255).astype(np.uint8) for _ in range(10)]) == []


def test_deep_video_is_compared_in_its_own_range():
    assert cuts(scene(0, 5, "yuv420p10le") + scene(7, 5, "yuv420p10le"), 1023) == [5]


def test_large_frames_are_sampled_and_decided_alike():
    """A 4K frame is not averaged pixel by pixel."""
    frames = [np.repeat(np.repeat(frame, 12, axis=0), 12, axis=1) for frame in scene(0, 3) + scene(7, 3)]
    assert frames[0].shape == (2304, 3840)
    noise = np.random.default_rng(0).integers(-12, 13, frames[0].shape)
    assert cuts([np.clip(frame + noise, 0, 255).astype(np.uint8) for frame in frames]) == [3]


def test_motion_is_no_cut():
    base = scene(0, 1)[0]
    assert cuts([np.roll(base, 6 * index, axis=1) for index in range(20)]) == []


def test_changing_light_is_no_cut():
    base = scene(0, 1)[0].astype(np.float64)
    assert cuts([(base * factor).astype(np.uint8) for factor in (1.0, 0.55, 1.0, 0.7, 0.4, 0.9)]) == []


def test_a_fade_is_no_cut():
    a, b = (scene(number, 1)[0].astype(np.float64) for number in (0, 7))
    frames = [(a + (b - a) * step / 24).astype(np.uint8) for step in range(25)]
    assert cuts(frames) == []


def test_a_decision_needs_only_two_frames():
    """A resumed run begins in the middle and must decide the same."""
    frames = scene(0, 6) + scene(7, 6)
    assert [index + 4 for index in cuts(frames[4:])] == cuts(frames)

"""Photos in motion: exact flow, near things move more, gaps are filled from the background."""

import itertools

import numpy as np
import pytest

from libranet.flow import warp
from libranet.synth.photo_motion import CameraMove, photo_clip
from small_sets import texture

SIZE = (240, 136)
STEP = CameraMove(pan=(0.0, 0.0), parallax=(0.06, 0.0), dolly=0.0)


def two_planes(height: int = 200, width: int = 340) -> tuple[np.ndarray, np.ndarray]:
    """A far textured wall, and in front of it a near red square."""
    photo = texture(height, width, 2)
    depth = np.ones((height, width), np.float32)
    photo[60:140, 130:210] = (200, 20, 20)
    depth[60:140, 130:210] = 0.0
    return photo, depth


def red(image: np.ndarray) -> np.ndarray:
    return (image[..., 0] > 150) & (image[..., 1] < 70)


def test_the_flow_brings_the_next_frame_over() -> None:
    photo = texture(270, 480, 1)
    depth = np.linspace(1.0, 0.0, 270, dtype=np.float32)[:, None].repeat(480, axis=1)
    for seed in range(4):
        frames = list(photo_clip(photo, depth, CameraMove.draw(seed), frames=4, size=SIZE))
        for here, after in itertools.pairwise(frames):
            moved, inside = warp(after.image, here.flow)
            good = inside & ~here.filled
            assert np.abs(moved.astype(float) - here.image)[good].mean() / 255 < 0.02
            drift = np.abs(warp(after.depth, here.flow)[0] - here.depth)[good]
            assert drift.mean() < 0.01


def test_near_things_move_and_far_ones_stay() -> None:
    photo, depth = two_planes()
    frames = list(photo_clip(photo, depth, STEP, frames=3, size=SIZE))
    centres = [float(np.argwhere(red(frame.image))[:, 1].mean()) for frame in frames]
    assert centres[2] - centres[0] == pytest.approx(0.06 * SIZE[0], abs=0.6)
    far = frames[0].flow[0][:20]
    np.testing.assert_allclose(far, 0.0, atol=1e-4)
    near = frames[0].flow[0][red(frames[0].image)]
    assert np.median(near) == pytest.approx(0.03 * SIZE[0], abs=0.1)


def test_what_the_move_uncovers_is_filled_with_background() -> None:
    photo, depth = two_planes()
    frames = list(photo_clip(photo, depth, STEP, frames=3, size=SIZE))
    for frame in (frames[0], frames[2]):
        assert 0.002 < frame.filled.mean() < 0.08
        assert frame.depth[frame.filled].min() > 0.9
        core = frame.filled & ~red(frame.image)
        assert core.sum() >= 0.9 * frame.filled.sum()
    assert red(frames[0].image).sum() == pytest.approx(red(frames[1].image).sum(), rel=0.06)


def test_no_border_of_the_photo_comes_into_view() -> None:
    photo, depth = two_planes()
    photo[:2] = photo[-2:] = 255
    photo[:, :2] = photo[:, -2:] = 255
    plain = np.where(photo == 255, 255, 30).astype(np.uint8)
    for seed in range(6):
        move = CameraMove.draw(seed)
        for frame in photo_clip(plain, depth, move, frames=3, size=(136, 80)):
            assert frame.image.max() < 60


def test_a_clip_can_start_in_the_middle() -> None:
    photo, depth = two_planes()
    whole = list(photo_clip(photo, depth, CameraMove.draw(1), frames=4, size=(120, 68)))
    late = list(photo_clip(photo, depth, CameraMove.draw(1), frames=4, size=(120, 68), start=2))
    assert len(late) == 2
    for a, b in zip(whole[2:], late, strict=True):
        np.testing.assert_array_equal(a.image, b.image)
        np.testing.assert_array_equal(a.flow, b.flow)

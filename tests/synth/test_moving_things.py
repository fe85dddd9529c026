"""Things that move through photos: they move, their flow and depth are exact, and near ground hides them."""

import itertools

import numpy as np

from libranet.flow import warp
from libranet.synth.moving_things import MovingThing, add_things
from libranet.synth.photo_motion import CameraMove, MovedFrame, photo_clip
from small_sets import texture

SIZE = (240, 136)
MOVE = CameraMove(pan=(0.02, 0.0), parallax=(0.02, 0.01), dolly=0.03)


def clip(nearest: float = 0.5, frames: int = 6) -> list[tuple[MovedFrame, np.ndarray]]:
    """Frames with one thing, and where it is."""
    photo = texture(200, 340, 1)
    depth = np.full((200, 340), nearest, np.float32)
    things = [MovingThing(0.8, (-0.2, 0.1), (0.4, 0.02), (0.2, 0.3), (0.1, 0.5), (0.4, 1.0, 0.7))]
    found = []
    for index, frame in enumerate(photo_clip(photo, depth, MOVE, frames=frames, size=SIZE)):
        before = frame.image.copy()
        whole = add_things(frame, things, photo, MOVE, index=index, frames=frames)
        found.append((whole, (whole.image != before).any(axis=2)))
    return found


def test_a_thing_moves_and_its_flow_brings_the_next_frame_over() -> None:
    frames = clip()
    columns = [np.argwhere(where)[:, 1].mean() for _, where in frames]
    assert columns[-1] - columns[0] > 0.35 * SIZE[0]
    for (here, where), (after, _) in itertools.pairwise(frames):
        inside = where & (np.abs(here.depth - 0.2) < 1e-6)
        assert inside.sum() > 1000
        moved, seen = warp(after.image, here.flow)
        # A thing keeps its texture to a part of a pixel; the ground behind it differs by far more.
        error = np.abs(moved.astype(float) - here.image)[inside & seen].mean()
        still = np.abs(after.image.astype(float) - here.image)[inside & seen].mean()
        assert error < 0.4 * still


def test_near_ground_hides_a_thing() -> None:
    for frame, where in clip(nearest=0.1):
        assert not where.any()
        assert np.abs(frame.depth - 0.1).max() < 0.02


def test_the_same_seed_draws_the_same_things() -> None:
    assert MovingThing.draw(7, 3) == MovingThing.draw(7, 3) != MovingThing.draw(8, 3)
    assert MovingThing.draw(7, 0) == []
    nearness = [thing.nearness for thing in MovingThing.draw(7, 5)]
    assert nearness == sorted(nearness), "nearer things are drawn over farther ones"

"""The change of still places is steady, that of smooth places smooth, and what moves is followed at once."""

import pytest
import torch
from torch import Tensor

from libranet.engine.quiet_change import QuietChange, _in_c, _widened
from libranet.frames import FrameFormat
from libranet.frames.format import PLANAR_RGB_FLOAT
from libranet.runtime import Restored
from libranet.video.pixels import layout_of


def frame(before: Tensor, change: Tensor, format_: FrameFormat) -> Restored:
    """A gray frame [h, w] whose luma alone changes."""
    neutral = tuple(torch.full(size, 128, dtype=torch.uint8) for size in format_.plane_sizes[1:])
    after = (before.float() + change).round().clamp(0, 255).to(torch.uint8)
    return Restored((before, *neutral), (after, *neutral), format_)


def run(befores: list[Tensor], changes: list[Tensor], *, name: str = "yuv420p", begin=()) -> Tensor:  # [n, h, w]
    """The changes that are written."""
    height, width = befores[0].shape
    format_ = FrameFormat(width, height, layout_of(name))
    quiet, found = QuietChange(format_), []
    for index, (before, change) in enumerate(zip(befores, changes, strict=True)):
        result = quiet.apply(frame(before, change, format_), begin=index in (0, *begin))
        assert all(torch.equal(a, b) for a, b in zip(result.after[1:], result.before[1:], strict=True))
        found.append(result.after[0].float() - before.float())
    return torch.stack(found)


def texture(height: int = 40, width: int = 56, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(height, width, generator=generator) * 120 + 60).to(torch.uint8)


def unrest(changes: Tensor) -> float:
    return float(changes.diff(dim=0).abs().mean())


@pytest.mark.parametrize("name", ["yuv420p", "yuv422p", "gray"])
def test_a_still_place_has_a_still_change(name):
    generator = torch.Generator().manual_seed(1)
    scene = texture()
    changes = [-20 + 3 * torch.randn(scene.shape, generator=generator) for _ in range(20)]
    found = run([scene] * 20, changes, name=name)
    assert unrest(found) < 0.1 * unrest(torch.stack(changes))
    assert abs(float(found[-1].mean()) + 20) < 0.5


def test_rounding_does_not_flicker():
    """A change near a half is rounded to and fro frame by frame."""
    generator = torch.Generator().manual_seed(2)
    scene = texture()
    changes = [-19.5 + 0.2 * torch.randn(scene.shape, generator=generator) for _ in range(20)]
    assert unrest(torch.stack([change.round() for change in changes])) > 0.3
    assert unrest(run([scene] * 20, changes)[2:]) < 0.02


def test_what_moves_is_followed_at_once():
    """A square that is darkened moves over a scene that is brightened; nothing of it stays behind."""
    befores, changes = [], []
    for index in range(10):
        before, change = texture(), torch.full((40, 56), 10.0)
        at = slice(4 * index, 4 * index + 12)
        before[12:28, at], change[12:28, at] = 240, -60.0
        befores.append(before)
        changes.append(change)
    found = run(befores, changes)
    lag = (found - torch.stack(changes)).abs()
    assert float(lag.mean()) < 0.2
    assert float(lag.amax()) <= 6, "of a step of 70"


def test_slow_motion_adds_up():
    """A ramp that moves by a level in a frame: after twenty frames it is another place, with another change."""
    ramp = torch.arange(56).repeat(40, 1) * 2 + 40
    befores = [(ramp + index).to(torch.uint8) for index in range(30)]
    changes = [-0.5 * (before.float() - 40) for before in befores]
    lag = (run(befores, changes) - torch.stack(changes)).abs()
    assert float(lag.amax()) < 2.5, "without a limit it would be five"


def test_a_smooth_place_gets_no_texture_and_a_textured_one_keeps_its_own():
    generator = torch.Generator().manual_seed(3)
    noise = 3 * torch.randn(40, 56, generator=generator)
    (smooth,) = run([torch.full((40, 56), 180, dtype=torch.uint8)], [noise - 10])
    (rough,) = run([texture()], [noise - 10])
    assert float(smooth.std()) < 0.4 * float(noise.std())
    assert float((rough - noise + 10).abs().mean()) < 0.6


def test_a_shot_and_a_segment_begin_anew():
    generator = torch.Generator().manual_seed(4)
    scene = texture()
    changes = [-20 + 3 * torch.randn(scene.shape, generator=generator) for _ in range(8)]
    found = run([scene] * 8, changes, begin=(5,))
    assert torch.equal(found[5:], run([scene] * 3, changes[5:]))


def test_no_change_stays_none():
    scenes = [texture(seed=index) for index in range(3)]
    assert not run(scenes, [torch.zeros(40, 56)] * 3).any()


def test_floating_samples():
    planes = tuple(torch.rand(20, 30) for _ in range(3))
    halves = tuple(plane / 2 for plane in planes)
    format_ = FrameFormat(30, 20, PLANAR_RGB_FLOAT)
    found = QuietChange(format_).apply(Restored(planes, halves, format_), begin=True)
    assert all(torch.allclose(a, b, atol=0.02) for a, b in zip(found.after, halves, strict=True))
    assert all(torch.equal(half, plane / 2) for half, plane in zip(halves, planes, strict=True)), "not written to"


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (5, 4), (33, 20)])
def test_the_largest_of_neighbours_is_that_of_torch(size):
    values = torch.rand(1, 1, *size, generator=torch.Generator().manual_seed(1)) - 0.5
    assert torch.equal(_widened(values), torch.nn.functional.max_pool2d(values, 3, stride=1, padding=1))


def test_small_and_floating_planes_are_left_to_the_reference():
    assert not _in_c(torch.zeros(1, 1, 8, 8))
    assert not _in_c(torch.zeros(1, 1, 2, 8, dtype=torch.uint8))

"""The quieting of a plane in C equals the reference for every level of instructions, size and number of bits."""

import pytest
import torch
import torch.nn.functional as F

from libranet.kernels.native.library import LEVELS
from libranet.kernels.quiet_change import planes, reference

FRAMES = 6


def moving_scene(height, width, peak, seed=0):
    """Frames of which one half moves, with changes that are noisy: [1, 1, h, w] in whole codes, before and after."""
    generator = torch.Generator().manual_seed(seed)
    scene = F.interpolate(torch.rand(1, 1, 9, 9, generator=generator), size=(height, width), mode="bilinear")
    scene[..., : height // 3, :] += 0.2 * torch.rand(1, 1, height // 3, width, generator=generator)
    for index in range(FRAMES):
        moved = scene.clone()
        moved[..., width // 2 :] = scene.roll(3 * index, dims=-1)[..., width // 2 :]
        noise = 0.004 * torch.randn(scene.shape, generator=generator)
        before = (moved + noise).clamp(0, 1) * peak
        after = (0.6 * before + 2 * noise * peak - 0.05 * peak).clamp(0, peak)
        dtype = torch.uint8 if peak == 255 else torch.uint16
        yield before.round().to(dtype), after.round().to(dtype)


def maps(texture, moved, level):
    share = 1.0 / (1.0 + (texture / (2.0 * level)).square())
    return share, None if moved is None else reference.KEPT / (1.0 + (moved / (2.0 * level)).square())


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("height", "width", "peak"), [(48, 64, 255), (37, 53, 255), (5, 131, 255), (46, 70, 1023), (31, 4, 65535)]
)
def test_both_twins_write_and_remember_alike(height, width, peak, level, use_level):
    use_level(level)
    known, ours = None, None
    for before, after in moving_scene(height, width, peak):
        expected, found = (
            twin.look_at_blocks(before, after, memory) for twin, memory in ((reference, known), (planes, ours))
        )
        for one, other in zip(expected, found, strict=True):
            assert (one is None) == (other is None)
            assert one is None or (one - other).abs().max() <= 2e-5 * peak / 255 * 4
        share, kept = maps(*expected[1:], peak / 255)
        written, known = reference.quiet_plane(before, after, known, (expected[0], share, kept), peak)
        result, ours = planes.quiet_plane(before, after, ours, (expected[0], share, kept), peak)
        assert result.dtype == written.dtype
        assert result.shape == written.shape
        for name in ("usual", "change"):
            assert (getattr(known, name) - getattr(ours, name)).abs().max() <= 1e-3 * peak / 255
        # A change that is a half to the last bit may be rounded either way.
        apart = (result.int() - written.int()).abs()
        assert apart.max() <= 1
        assert (apart > 0).float().mean() < 0.002
        known.written = ours.written.clone()  # such a pixel stays apart for a while, which is not another error


@pytest.mark.kernels
def test_the_result_does_not_depend_on_the_number_of_threads():
    before = torch.get_num_threads()
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        memory = None
        for plane, after in moving_scene(61, 90, 255):
            change, *blocks = planes.look_at_blocks(plane, after, memory)
            result, memory = planes.quiet_plane(plane, after, memory, (change, *maps(*blocks, 1.0)), 255)
        found.append(result)
    torch.set_num_threads(before)
    assert torch.equal(*found)

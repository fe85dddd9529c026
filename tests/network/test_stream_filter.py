"""The filter of the grids over time, inside the stream."""

import pytest
import torch
from torch import Tensor

from libranet.network import GridFilter, LiBrANet, start_stream, stream_restore
from tiny_network import TINY, make_config, perturb

FILTER = GridFilter(0.5, 10.0)
"""Reaches four frames back."""


def flicker(count: int = 12) -> Tensor:  # [N, 3, 33, 47]
    """A still scene with a little noise, which the tiny network's grids answer with changes."""
    generator = torch.Generator().manual_seed(1)
    scene = torch.rand(1, 3, 33, 47, generator=generator) * 0.6 + 0.2
    return scene + (torch.rand(count, 3, 33, 47, generator=generator) - 0.5) * 0.2


def run(model: LiBrANet, frames: Tensor, *, lookahead: int | None = None, grid_filter: GridFilter = FILTER) -> list:
    state, found = start_stream(model, lookahead=lookahead, grid_filter=grid_filter), []
    for frame in (*frames, None, None):
        restoration, state = stream_restore(model, None if frame is None else frame[None], state)
        found += [] if restoration is None else [restoration]
    assert len(found) == len(frames)
    return found


def test_without_seconds_the_output_is_that_of_no_filter_bit_for_bit(tiny_model):
    frames = flicker()
    off = run(tiny_model, frames, grid_filter=GridFilter(0.0))
    state = start_stream(tiny_model)
    plain = []
    for frame in (*frames, None, None):
        restoration, state = stream_restore(tiny_model, None if frame is None else frame[None], state)
        plain += [] if restoration is None else [restoration]
    for index, (a, b) in enumerate(zip(off, plain, strict=True)):
        assert torch.equal(a.image, b.image), index
        window = torch.stack([frames[min(max(index + step, 0), 11)] for step in range(-2, 3)])[None]
        with torch.no_grad():
            assert (a.image - tiny_model(window)).abs().max() <= 1e-5


@pytest.mark.parametrize("lookahead", [0, 2])
def test_grids_change_less_from_frame_to_frame(tiny_model, lookahead):
    frames = flicker()

    def change(restorations: list, part: str) -> float:
        grids = torch.stack([getattr(r.grids, part).float() for r in restorations])
        return float(grids.diff(dim=0).abs().mean())

    raw = run(tiny_model, frames, lookahead=lookahead, grid_filter=GridFilter(0.0))
    filtered = run(tiny_model, frames, lookahead=lookahead)
    for part in ("chromatic", "temporal"):
        assert 0.0 < change(filtered, part) < 0.5 * change(raw, part)


def test_the_memory_is_finite_so_a_stream_that_begins_later_meets_the_same_bits(tiny_model):
    frames = flicker(20)
    whole = run(tiny_model, frames)
    warm_up = FILTER.reach + 2
    late = run(tiny_model, frames[5:])
    for index in range(5 + warm_up, 20):
        assert torch.equal(late[index - 5].image, whole[index].image), index
    assert not torch.equal(late[warm_up - 4].image, whole[5 + warm_up - 4].image)


def test_the_state_is_bounded(tiny_model):
    state = start_stream(tiny_model, grid_filter=FILTER)
    for frame in flicker(12):
        _, state = stream_restore(tiny_model, frame[None], state)
    assert len(state.past) == FILTER.memory == 4


def test_streams_of_a_batch_do_not_mix(tiny_model):
    a, b = flicker(6), 1.0 - flicker(6)
    state, pairs = start_stream(tiny_model, lookahead=0, grid_filter=FILTER), []
    for frames in zip(a, b, strict=True):
        restoration, state = stream_restore(tiny_model, torch.stack(frames), state)
        pairs.append(restoration)
    alone = run(tiny_model, a, lookahead=0)
    for pair, one in zip(pairs, alone, strict=True):
        torch.testing.assert_close(pair.image[:1], one.image, atol=1e-5, rtol=0)


@pytest.mark.parametrize("missing", ["chromatic_field", "temporal_field"])
def test_one_field_alone_is_filtered_too(missing):
    torch.manual_seed(0)
    model = perturb(LiBrANet(make_config(TINY, **{missing: False})))
    found = run(model, flicker(6))
    assert not torch.equal(found[3].image, run(model, flicker(6), grid_filter=GridFilter(0.0))[3].image)


def test_something_new_in_one_corner_does_not_move_the_rest():
    """The refiner's GroupNorms see the whole frame; without the filter of the residual the rest would jump."""
    torch.manual_seed(0)
    model = LiBrANet(make_config(TINY, encoder_size=128)).eval()  # grids of 8x8
    with torch.no_grad():
        model.refiner.project.weight.normal_(std=0.02)
    frames = torch.rand(1, 3, 64, 64).repeat(12, 1, 1, 1) * 0.5 + 0.25
    frames[6:, :, :16, :16] = 1.0
    rest = (..., slice(32, None), slice(32, None))

    def jumps(seconds: float) -> list[float]:
        found = run(model, frames, grid_filter=GridFilter(seconds, 10.0))
        means = torch.stack([restoration.image[rest].mean() for restoration in found])
        return means.diff().abs().tolist()

    alone, steady = jumps(0.0), jumps(0.5)
    assert max(alone) == alone[5] > 0.0001
    assert max(steady) < 0.5 * max(alone)

import itertools

import pytest
import torch

from libranet.errors import InputError
from libranet.kernels.grid_filter.reference import (
    DEFAULT_RATE,
    MAX_RATE,
    GridFilter,
    cell_means,
    filter_out,
    similarity,
    weighted_mean,
)

GREY = torch.full((1, 3, 2, 2), 0.5)


def run(grid_filter: GridFilter, values: list[float], looks: list[float], *, lookahead: int = 0) -> list[float]:
    """Filter a clip whose grids and cells each have one value per frame."""
    grids, cells = (
        torch.tensor(given).view(-1, 1, 1, 1).expand(-1, channels, 2, 2)
        for given, channels in ((values, 12), (looks, 3))
    )
    out = torch.zeros(len(values), 12, 2, 2)
    filter_out(grids, cells, torch.tensor([0, len(values)]), out, grid_filter=grid_filter, delay=0, ahead=lookahead)
    assert torch.equal(out.amax((1, 2, 3)), out.amin((1, 2, 3)))
    return out[:, 0, 0, 0].tolist()


def test_the_memory_is_a_time_and_not_a_number_of_frames():
    assert [GridFilter(1.0, rate).memory for rate in (1.0, 5.0, 25.0, 30.0, 29.97)] == [0, 4, 24, 29, 29]
    assert GridFilter(0.5, 30.0).memory == 14
    assert GridFilter(0.0, 30.0).memory == 0
    assert GridFilter(1.0).memory == DEFAULT_RATE - 1
    assert GridFilter(1.0, 90000.0).memory == MAX_RATE - 1


def test_weights_fall_as_a_parabola_to_nothing():
    weights = [GridFilter(1.0, 4.0).age_weight(age) for age in range(1, 6)]
    assert weights == [1 - 1 / 16, 1 - 4 / 16, 1 - 9 / 16, 0.0, 0.0]


def test_a_constant_grid_comes_back_bit_for_bit():
    grid = torch.rand(1, 2, 12, 8, 2, 2, generator=torch.Generator().manual_seed(0))
    others = [(grid.clone(), torch.rand(1, 2, 2)) for _ in range(9)]
    assert torch.equal(weighted_mean(grid, others), grid)
    assert torch.equal(weighted_mean(grid.half(), []), grid.half().float())


def test_a_mean_of_two_by_hand_at_each_cell():
    now, other = torch.zeros(1, 1, 1, 2), torch.ones(1, 1, 1, 2)
    mean = weighted_mean(now, [(other, torch.tensor([[[1.0, 1 / 3]]]))])
    torch.testing.assert_close(mean, torch.tensor([[[[0.5, 0.25]]]]))


def test_a_spike_of_one_frame_in_a_calm_scene_shrinks_to_its_share():
    grid_filter, spike = GridFilter(1.0, 30.0), 40
    values = [float(i == spike) for i in range(80)]
    share = 1 / (1 + sum(grid_filter.age_weight(age) for age in range(1, 30)))
    found = run(grid_filter, values, [0.5] * 80)
    assert found[spike - 1] == 0.0
    assert found[spike] == pytest.approx(share, rel=1e-5)
    assert share < 0.05
    assert max(found) == found[spike]
    assert found[spike + 30 :] == [0.0] * 10
    assert max(abs(b - a) for a, b in itertools.pairwise(found)) <= share + 1e-7


def test_a_step_of_the_grid_alone_is_followed_within_the_stated_time_and_never_at_once():
    grid_filter, step = GridFilter(1.0, 25.0), 30
    found = run(grid_filter, [float(i >= step) for i in range(80)], [0.5] * 80)
    changes = [b - a for a, b in itertools.pairwise(found)]
    assert max(changes) < 0.07
    assert min(changes) >= 0.0
    assert 0.45 < found[step + 8] < 0.55
    assert found[step + 25] == 1.0


def test_the_first_frame_stands_for_those_before_it():
    found = run(GridFilter(1.0, 4.0), [0.0, 1.0, 1.0, 1.0, 1.0], [0.5] * 5)
    assert found == pytest.approx([0.0, 16 / 50, 31 / 50, 43 / 50, 1.0])
    ahead = run(GridFilter(1.0, 4.0), [0.0, 1.0], [0.5] * 2, lookahead=1)
    assert ahead[0] == pytest.approx(15 / 65)


def test_a_step_of_the_light_is_followed_at_once():
    grid_filter, step = GridFilter(1.0, 25.0), 30
    changed = [float(i >= step) for i in range(50)]
    found = run(grid_filter, changed, [0.8 * value for value in changed])
    assert found[step] > 0.8


def test_a_fade_is_followed_without_a_second_of_delay():
    grid_filter = GridFilter(1.0, 25.0)
    fade = [min(max((i - 30) / 25, 0.0), 1.0) for i in range(90)]  # one second long
    found = run(grid_filter, fade, [1.2 * value for value in fade])
    late = [next(i for i, value in enumerate(found) if value > x) - 30 - 25 * x for x in (0.25, 0.5, 0.75)]
    assert max(late) <= 0.2 * 25
    assert found[30 + 25 + 25] == 1.0


def test_look_ahead_halves_the_delay_of_a_step():
    values = [float(i >= 10) for i in range(30)]
    late, early = (run(GridFilter(0.2, 25.0), values, [0.5] * 30, lookahead=n) for n in (0, 2))
    assert early[9] > late[9] == 0.0
    assert early[10] > late[10]


def test_similarity_by_hand():
    assert similarity(GREY, GREY).tolist() == torch.ones(1, 2, 2).tolist()
    torch.testing.assert_close(similarity(GREY + 0.04, GREY), torch.full((1, 2, 2), 0.5))
    torch.testing.assert_close(similarity(GREY + 0.12, GREY), torch.full((1, 2, 2), 0.1))
    one_channel = GREY.clone()
    one_channel[:, 1] += 0.04 * 3**0.5
    torch.testing.assert_close(similarity(one_channel, GREY), torch.full((1, 2, 2), 0.5))


def test_cell_means():
    small = torch.full((2, 3, 8, 8), -1.0)
    small[..., 4:, :] = 1.0
    small[1, 0] = 0.0
    small[1, 0, :2, :4] = 0.5
    means = cell_means(small.half(), 2)
    assert means.dtype == torch.float32
    assert means[0, 0].tolist() == [[-1.0, -1.0], [1.0, 1.0]]
    assert means[1, 0].tolist() == [[0.25, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("values", [(-0.1, 30.0), (2.1, 30.0), (float("nan"), 30.0), (1.0, 0.0), (1.0, float("nan"))])
def test_bad_values_are_named(values):
    with pytest.raises(InputError, match=r"expected (steady from 0 to 2 seconds|a frame rate above 0), got"):
        GridFilter(*values)

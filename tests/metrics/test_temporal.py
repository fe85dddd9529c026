"""tOF on clips whose motion is known, and sigma-PSNR by hand."""

import math
import statistics

import pytest
import torch

from libranet.errors import InputError
from libranet.flow import warp_tensor
from libranet.metrics import sigma_psnr, warp_error


def _texture(height: int, width: int) -> torch.Tensor:
    return torch.rand(3, height, width, generator=torch.Generator().manual_seed(3))


def _error(current: torch.Tensor, previous: torch.Tensor, flow: torch.Tensor) -> float:
    return warp_error(current, *warp_tensor(previous, flow))


def test_a_static_clip_has_no_error() -> None:
    frame = _texture(24, 31)
    assert _error(frame, frame, torch.zeros(2, 24, 31)) == 0.0


@pytest.mark.parametrize("shift", [(3, 0), (0, 4), (-5, 2)])
def test_a_known_shift_with_its_exact_flow_has_no_error(shift: tuple[int, int]) -> None:
    dx, dy = shift
    world = _texture(60, 80)
    previous = world[:, 10:50, 10:70]
    current = world[:, 10 + dy : 50 + dy, 10 + dx : 70 + dx]  # the pixel at x was at x + dx one frame ago
    flow = torch.tensor([float(dx), float(dy)])[:, None, None].expand(2, 40, 60)
    assert _error(current, previous, flow) < 1e-6
    assert _error(current, previous, torch.zeros(2, 40, 60)) > 0.2, "without the flow the shift has to show"


def test_flicker_is_measured_as_it_is() -> None:
    frame = _texture(20, 20) * 0.5
    assert _error(frame + 0.1, frame, torch.zeros(2, 20, 20)) == pytest.approx(0.1, abs=1e-6)


def test_pixels_from_outside_do_not_count() -> None:
    frame = _texture(20, 20)
    assert _error(frame, frame, torch.full((2, 20, 20), 100.0)) == 0.0
    inside = torch.ones(20, 20, dtype=torch.bool)
    inside[:, 15:] = False
    other = torch.where(inside, frame, 1 - frame)
    assert warp_error(other, frame, inside) == 0.0
    assert warp_error(other, frame, ~inside) > 0.2


def test_sigma_psnr_is_the_population_deviation() -> None:
    values = [20.0, 22.0, 21.5, 19.0]
    assert sigma_psnr(values) == pytest.approx(statistics.pstdev(values))
    assert math.isnan(sigma_psnr([]))


def test_a_mask_of_another_size_is_refused() -> None:
    with pytest.raises(InputError, match=r"expected a mask of \(20, 20\)"):
        warp_error(_texture(20, 20), _texture(20, 20), torch.ones(10, 10, dtype=torch.bool))

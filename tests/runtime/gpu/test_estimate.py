"""The expected frame rate of a GPU."""

import pytest

from libranet.runtime.gpu.estimate import Gpu, expected_fps

H200 = Gpu((9, 0), 132, 1.98e9, 4.9e12)
RTX_3090 = Gpu((8, 6), 82, 1.695e9, 0.936e12)
A100 = Gpu((8, 0), 108, 1.41e9, 2.0e12)


@pytest.mark.parametrize(("size", "measured"), [((3840, 2160), 1115), ((7680, 4320), 297), ((1920, 1080), 3774)])
def test_an_h200_is_as_fast_as_measured(size: tuple[int, int], measured: float) -> None:
    assert expected_fps(H200, *size) == pytest.approx(measured, rel=0.35)


def test_rates_are_those_of_the_datasheets() -> None:
    assert A100.matrix_rate == pytest.approx(312e12, rel=0.01)
    assert RTX_3090.matrix_rate == pytest.approx(71e12, rel=0.01)
    assert 60 < expected_fps(RTX_3090, 3840, 2160) < expected_fps(A100, 3840, 2160) < expected_fps(H200, 3840, 2160)

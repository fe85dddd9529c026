"""The regime table and its use."""

from collections import Counter

import pytest

from libranet.synth.regimes import REGIMES, assign_regimes


def test_nine_regimes_of_three_densities_and_three_lights() -> None:
    assert len(REGIMES) == len({regime.name for regime in REGIMES}) == 9
    assert len({regime.beta for regime in REGIMES}) == 3
    assert len({regime.airlight for regime in REGIMES}) == 3


def test_every_nine_clips_use_each_regime_once() -> None:
    drawn = assign_regimes(27, seed=4)
    for start in (0, 9, 18):
        assert set(Counter(regime.name for regime in drawn[start : start + 9]).values()) == {1}
    assert [regime.name for regime in drawn] == [regime.name for regime in assign_regimes(27, seed=4)]
    assert [regime.name for regime in drawn] != [regime.name for regime in assign_regimes(27, seed=5)]
    assert assign_regimes(4, seed=4) == drawn[:4]


def test_blue_scatters_more_where_the_wavelength_counts() -> None:
    regime = REGIMES[0]
    assert regime.betas() == (regime.beta,)
    red, green, blue = regime.betas(1.3)
    assert red < green < blue
    assert green == pytest.approx(regime.beta)

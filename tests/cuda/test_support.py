"""The sentence that says why the plain path is in use."""

from dataclasses import replace

import pytest

from libranet.cuda.support import why_not_fused, why_not_network
from libranet.models import LiBrANetConfig


def test_shipped_network_is_covered() -> None:
    assert why_not_network(LiBrANetConfig()) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"refiner": False}, "no refiner"),
        ({"cayley": False}, "Cayley"),
        ({"scale": 2}, "scale is 2"),
        ({"refiner_width": 48}, "width is 48"),
        ({"refiner_mix_kernel": 3}, "mix kernel is 3"),
        ({"bins": 6}, "6 colour bins"),
        ({"attention_heads": 6}, "6 attention heads"),
        ({"head_hidden": 270}, "270 wide"),
        ({"temporal_field": False}, "no temporal field"),
    ],
)
def test_other_networks_are_named(change: dict, words: str) -> None:
    reason = why_not_network(replace(LiBrANetConfig(), **change))
    assert reason is not None
    assert words in reason


def test_cpu_is_not_a_gpu() -> None:
    assert "the device is cpu" in (why_not_fused(LiBrANetConfig(), "cpu") or "")

"""Live units: a dead head is called dead."""

import torch

from libranet.network import LiBrANet
from libranet.network.liveness import live_units


def test_a_dead_head_is_called_dead(tiny_model: LiBrANet) -> None:
    frames = torch.rand(4, 5, 3, 32, 32)
    before = live_units(tiny_model, frames)
    assert before.keys() == {"chromatic", "temporal"}
    assert min(before.values()) > 0.5
    with torch.no_grad():
        tiny_model.temporal.head.expand.bias.fill_(-100.0)
    after = live_units(tiny_model, frames)
    assert after["temporal"] == 0.0
    assert after["chromatic"] == before["chromatic"]
